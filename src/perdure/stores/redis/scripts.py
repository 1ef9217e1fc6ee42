"""The scripts of the store, one file for each operation, and one run of one of them.

What a script does, and in which order its arguments come, stands in its file. It must not know any connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, Final, TypeAlias

Word: TypeAlias = bytes | str | int
"""What an argument of a command may be."""

_BYTES: Final = frozenset({bytes})
_WORD: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"^(?=local )", re.MULTILINE)
_NAMES: Final = re.compile(r"local (?:function )?([\w, ]+)")


@dataclass(frozen=True, slots=True)
class Script:
    """A script as the server has it: its text, under the digest of that. `writes`: whether it may change anything."""

    text: str
    sha: bytes
    writes: bool


@cache
def script(name: str) -> Script:
    """The script of an operation: how it is to be run, what all have in common, and its own part."""
    first, _, own = _file(name).partition("\n")
    writes = "no-writes" not in first
    common = ("common", "writing", "lasting") if writes else ("common",)
    text = "\n".join((first, *_needed("\n".join(map(_file, common)), own), own))
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest().encode(), writes)


class Call:
    """One run of a script. `tells` makes of its answer what the caller gets, or raises what it refuses.

    `session` is whose it is: of one session one call is under way at a time. `point` is the fault that a test may cause
    when all is ready and nothing is written. `again` is the place among `args` of the flag for a call that may have
    been done already, since the connection was lost under it. `longest` and `size` are bytes: of its longest argument,
    and of all.
    """

    __slots__ = ("_again", "args", "longest", "point", "script", "sent", "session", "size", "tells")

    def __init__(
        self,
        name: str,
        args: Sequence[Word],
        *,
        tells: Callable[[list[Any]], Any],
        session: bytes = b"",
        point: str | None = None,
        again: int | None = None,
    ) -> None:
        self.script, self.args, self.tells = script(name), plain(args), tells
        self.session, self.point, self._again = session, point, again
        lengths = [*map(len, self.args)]
        self.longest, self.size = max(lengths, default=0), sum(lengths)
        self.sent = False

    def command(self, place: bytes) -> list[bytes]:
        """What is sent. `place` is the key that all others of the place begin with."""
        words = [b"EVALSHA", self.script.sha, b"1", place, *self.args]
        if self.sent and self._again is not None:
            words[4 + self._again] = b"1"
        return words


def plain(words: Sequence[Word]) -> Sequence[bytes]:
    """Words as they are sent."""
    if {*map(type, words)} == _BYTES:
        return words  # type: ignore[return-value]
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


def _needed(common: str, own: str) -> list[str]:
    """Of what scripts have in common, what this one names, and what that names: the server makes it anew each time."""
    kept: list[str] = []
    words = set(_WORD.findall(own))
    for part in reversed(_PART.split(common)[1:]):
        names = _WORD.findall(_NAMES.match(part)[1])  # type: ignore[index]
        if words.intersection(names):
            kept.insert(0, part.rstrip())
            words.update(_WORD.findall(part))
    return kept


def _file(name: str) -> str:
    text = Path(__file__).with_name("lua").joinpath(f"{name}.lua").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
