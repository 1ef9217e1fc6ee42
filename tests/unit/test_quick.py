"""What every save makes is compared and looked up by its fields, and has no others, as a frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

from perdure import quick


@quick.dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"


@dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: str = "b"


def test_it_is_what_a_frozen_one_is_but_for_setting_a_field() -> None:
    for cls in (Quick, Frozen):
        assert cls(1) == cls(1, "b") != cls(2)
        assert {cls(1): 1}[cls(1, "b")] == 1
        assert replace(cls(1), b="c") == cls(1, "c")
        assert repr(cls(1)) == f"{cls.__name__}(a=1, b='b')"
    assert [one.name for one in fields(Quick)] == [one.name for one in fields(Frozen)]
    assert hash(Quick(1)) == hash(Frozen(1))
    with pytest.raises(AttributeError):
        Quick(1).c = 2  # type: ignore[attr-defined]
