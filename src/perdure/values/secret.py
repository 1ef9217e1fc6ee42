"""A secret as the program holds it: where it is to be had, never what it is.

What is stored, shown, copied and pickled of a `Secret` is its reference; the value is fetched when it is revealed.
Whatever was revealed in this process is remembered, so that it is recognised wherever it turns up again.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

from perdure.errors import DamageError, SecretMissingError
from perdure.values.describe import show_as
from perdure.values.path import Refusal
from perdure.values.tokens import remember

PREFIX: Final = "secret://"

_REFERENCE: Final = re.compile(r"secret://([a-z][a-z0-9_-]{0,31})/(.{1,500})")

Fetch = Callable[[str], "str | None"]


def _environment(name: str) -> str | None:
    return os.environ.get(name)


def _file(path: str) -> str | None:
    try:
        return Path(path).read_text().rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SecretMissingError(f"{PREFIX}file/{path} cannot be read: {type(error).__name__}") from None


class Secret:
    """A value that is never stored: `Secret("secret://env/API_KEY")` says where it is to be had.

    `reveal()` fetches it. The reference is `secret://env/NAME`, `secret://file/PATH` (`secret://file//run/secrets/key`
    for an absolute one) or `secret://PROVIDER/NAME` of a provider that was given to `Secret.provider`. With `value` it
    reveals that, and the reference is what is stored. Made of a `value` alone it can be used, and not stored. Two are
    equal if their references are; without references, if their values are. Safe from any thread.
    """

    __slots__ = ("_reference", "_value")

    _reference: str | None
    _value: str | None

    _providers: ClassVar[dict[str, Fetch]] = {"env": _environment, "file": _file}

    def __init__(self, reference: str | None = None, *, value: str | None = None) -> None:
        if reference is None and value is None:
            raise TypeError('a Secret is made of a reference ("secret://env/NAME"), of value=, or of both')
        if reference is not None and (type(reference) is not str or not _REFERENCE.fullmatch(reference)):
            raise ValueError('a reference is "secret://PROVIDER/NAME"; the value itself is given as Secret(value=...)')
        if value is not None:
            if not isinstance(value, str):
                raise TypeError("the value of a Secret is a str")
            remember(value)
        object.__setattr__(self, "_reference", reference)
        object.__setattr__(self, "_value", value)

    @classmethod
    def provider(cls, name: str, fetch: Fetch) -> None:
        """Lets `secret://name/…` be fetched: `fetch` gets what follows, and returns the value, or None if it has none.

        For this process; a provider of that name is replaced. What `fetch` raises reaches whoever reveals.
        """
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name):
            raise ValueError(f"the name of a provider is up to 32 of a-z 0-9 _ -, a letter first; not {name!r:.60}")
        cls._providers[name] = fetch

    @property
    def reference(self) -> str | None:
        """Where it is to be had; None for one that was made of a value alone."""
        return self._reference

    def reveal(self) -> str:
        """The value, fetched now. Raises `SecretMissingError`, which says what was looked for, and where."""
        if self._value is not None:
            return self._value
        scheme, name = _parts(str(self._reference))
        fetch = self._providers.get(scheme)
        if fetch is None:
            there = ", ".join(sorted(self._providers))
            raise SecretMissingError(
                f"{self}: there is no provider {scheme!r} in this process ({there}); "
                f'give it one: perdure.Secret.provider("{scheme}", fetch)'
            )
        value = fetch(name)
        if not isinstance(value, str) or not value:
            raise SecretMissingError(f"{self} is not supplied: looked for {name!r} in {_where(scheme, name)}")
        remember(value)
        return value

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise AttributeError(f"a Secret cannot be changed ({name})")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Secret cannot be changed ({name})")

    def __str__(self) -> str:
        return self._reference or "<a Secret without a reference>"

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})" if self._reference else str(self)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if self.reference is not None or other.reference is not None:
            return self.reference == other.reference
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash((Secret, self._reference or self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        if self._reference is None:
            raise TypeError("a Secret without a reference is not pickled: give it one, Secret('secret://env/NAME')")
        return Secret, (self._reference,)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """As a field of a pydantic model: a Secret, or its reference; dumped as its reference."""
        from pydantic_core import core_schema  # noqa: PLC0415  (whoever asks has it; nobody else waits for it)

        text = core_schema.no_info_after_validator_function(cls, core_schema.str_schema(pattern="^secret://"))
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), text],
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )


show_as(Secret, repr)


def dump(secret: Secret) -> str:
    """What is stored of a secret. Raises Refusal for one that has no reference."""
    if secret.reference is None:
        raise Refusal(
            "a Secret without a reference: its value is not stored, so nobody could have it again. "
            'Say where it is to be had: Secret("secret://env/NAME"), with value= if you have it at hand'
        )
    return secret.reference


def load(reference: str) -> Secret:
    """The secret of a stored reference; it is not fetched. Raises DamageError."""
    if not _REFERENCE.fullmatch(reference):
        raise DamageError("a stored secret that is no reference")
    return Secret(reference)


def _parts(reference: str) -> tuple[str, str]:
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise DamageError("a secret that is no reference")
    return found[1], found[2]


def _where(scheme: str, name: str) -> str:
    if scheme == "env":
        return f"the environment (set {name})"
    return f"the file {Path(name).resolve()}" if scheme == "file" else f"the provider {scheme!r}"
