"""What cannot be stored is marked where it is, and nothing else of a value is another; whatever it is nested in."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import values
from perdure.errors import UnstorableError
from perdure.values import AbsentValue, spare
from tests.property import strategies
from tests.property.oracle import facts


class Culprit:
    """Nothing that can be stored."""


WRAPS: list[Callable[[list[Any]], Any]] = [
    list,
    tuple,
    deque,
    lambda items: {f"k{number}": item for number, item in enumerate(items)},
    lambda items: {(number, "key"): item for number, item in enumerate(items)},
    lambda items: OrderedDict(enumerate(items)),
]


def nested() -> st.SearchStrategy[Any]:
    """Values with culprits in them, perhaps."""
    leaves = st.one_of(strategies.values(), st.builds(Culprit))
    return st.recursive(leaves, lambda below: st.builds(_wrapped, st.sampled_from(WRAPS), st.lists(below, max_size=4)))


def _wrapped(wrap: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    return wrap(items)


def pairs(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """What stands in the same place of two values, down to the culprits and to what holds none."""
    if not has_culprit(one) or isinstance(one, Culprit):
        yield one, other
    else:
        assert type(one) is type(other)
        assert len(one) == len(other)
        if isinstance(one, dict):
            assert facts(list(one)) == facts(list(other))
            one, other = one.values(), other.values()
        for here, there in zip(one, other, strict=True):
            yield from pairs(here, there)


def has_culprit(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_culprit, value.values()))
    return isinstance(value, Culprit) or (isinstance(value, list | tuple | deque) and any(map(has_culprit, value)))


@given(nested())
def test_all_but_the_culprits_is_exactly_there(value: Any) -> None:
    kept, marks = spare(value, at="$.part")
    found = [there for here, there in pairs(value, kept) if isinstance(here, Culprit)]
    assert all(isinstance(mark, AbsentValue) for mark in found)
    assert found == list(marks)
    assert all(mark.path.startswith("$.part") and mark.type.endswith("Culprit") for mark in marks)
    assert len({mark.number for mark in marks}) == len(marks)
    for here, there in pairs(value, kept):
        assert isinstance(here, Culprit) or facts(here) == facts(there)
    assert facts(values.decode(values.encode(kept))) == facts(kept)


@given(nested())
def test_the_path_of_the_first_is_that_of_the_error(value: Any) -> None:
    _, marks = spare(value, at="$.part")
    if not marks:
        values.encode(value, at="$.part")
        return
    with pytest.raises(UnstorableError) as caught:
        values.encode(value, at="$.part")
    assert caught.value.path == marks[0].path
