"""What a witness is told of a session, as one line of text that carries its own proof.

It knows no store and no place: what is newer, how it is written, and who signed it.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from perdure import clock
from perdure.errors import PerdureError, WitnessFailedError
from perdure.stores.conditions import incarnation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.stores.contract import Head

HEAD: Final = "head"
ERASING: Final = "erasing"
ERASED: Final = "erased"
LOST: Final = "lost"

_WHAT: Final = frozenset({HEAD, ERASING, ERASED, LOST})
_CHECK: Final = ',"check":"'
_CHECK_CHARS: Final = 32
_PURPOSE: Final = b"perdure witness\0"


@dataclass(frozen=True, slots=True)
class Told:
    """How a session stood at a time: its log ended with this record, of this chain digest and epoch.

    `what` is head; erasing (the session is about to be erased); erased; or lost (a restored copy of the store did not
    have it, which was accepted).
    """

    session: str
    what: str
    seq: int
    epoch: int
    chain: bytes
    time_us: int

    @property
    def incarnation(self) -> int:
        """That of the store, when this was written."""
        return incarnation_of(self.epoch)

    def supersedes(self, other: Told) -> bool:
        """Whether it is what counts from now on, told after the other. What is erased stays so."""
        return self._order >= other._order

    @property
    def _order(self) -> tuple[bool, int, int]:
        return self.what == ERASED, self.incarnation, self.seq


def told_of(head: Head) -> Told:
    """What is told of a session that ends so, now."""
    return Told(head.session, HEAD, head.seq, head.epoch, head.chain, clock.now_us())


class Wrapping(Protocol):
    """One key of a store."""

    @property
    def id(self) -> str:
        """What it is called where what it wraps is stored."""

    def wrap(self, secret: bytes, /) -> bytes:
        """These bytes, readable for the holder of the key alone."""

    def unwrap(self, wrapped: bytes, /) -> bytes:
        """What `wrap` was given."""


class Ring(Protocol):
    """The keys of a store."""

    @property
    def first(self) -> Wrapping:
        """The one that wraps."""

    def named(self, id: str, /) -> Wrapping:  # noqa: A002 - what it is called where it is stored
        """The one of this id."""


class Signer:
    """Makes lines and reads them. With keys each is signed, under a key of the witness's own that those wrap.

    Without keys a line carries a digest, which finds damage and no forgery.
    """

    def __init__(self, keys: Ring | None) -> None:
        self._keys = keys
        self._mine: list[bytes] = []
        """The witness's own: one, or several if several processes began it at the same moment."""
        self._wrapped_by: set[str] = set()
        self._refused: PerdureError | None = None

    def first(self) -> list[str]:
        """What must be told before other lines can be: the witness's own key, wrapped by the first of the store's."""
        if self._keys is None or self._keys.first.id in self._wrapped_by:
            return []
        if not self._mine:
            self._mine.append(clock.new_bytes(32))
        first = self._keys.first
        wrapped = b64encode(first.wrap(self._mine[0])).decode()
        return [json.dumps({"witness": 1, "key": first.id, "wrapped": wrapped}, separators=(",", ":"))]

    def began(self) -> None:
        """The witness has what `first` said."""
        if self._keys is not None:
            self._wrapped_by.add(self._keys.first.id)

    def line(self, told: Told) -> str:
        """What is kept: ASCII, one JSON object, no line feed."""
        said = {
            "session": told.session,
            "what": told.what,
            "seq": told.seq,
            "epoch": told.epoch,
            "chain": told.chain.hex(),
            "time_us": told.time_us,
        }
        text = json.dumps(said, separators=(",", ":"))[:-1]
        return f'{text}{_CHECK}{_check(text, self._mine[0] if self._keys else b"")}"}}'

    def read(self, lines: Sequence[str]) -> list[Told | None]:
        """What each line says; None for one that holds a key, which the lines before it may need, too.

        Raises `WitnessFailedError` for what was not told under these keys.
        """
        for line in lines:
            if _CHECK not in line:
                self._take_key(line)
        return [self._told(line) if _CHECK in line else None for line in lines]

    def _told(self, line: str) -> Told:
        text, _, check = line.rpartition(_CHECK)
        if self._keys is not None and not self._mine:
            raise self._refused or WitnessFailedError(
                "the witness was begun without keys, so what it says is not signed: begin another one with the keys"
            )
        made = [_check(text, key) + '"}' for key in self._mine or [b""]]
        if not any(hmac.compare_digest(check, one) for one in made):
            raise _strange(line)
        return _told(json.loads(text + "}"))

    def _take_key(self, line: str) -> None:
        try:
            said = json.loads(line)
            name, wrapped = str(said["key"]), b64decode(said["wrapped"], validate=True)
        except (ValueError, TypeError, KeyError):
            raise _strange(line) from None
        if self._keys is None:
            raise WitnessFailedError(f"the witness is signed under key {name}: open the store with its keys")
        try:
            mine = self._keys.named(name).unwrap(wrapped)
        except PerdureError as error:
            self._refused = error  # another line may hold it under a key that is at hand
            return
        self._wrapped_by.add(name)
        if mine not in self._mine:
            self._mine.append(mine)


def _check(text: str, key: bytes) -> str:
    data = _PURPOSE + text.encode()
    digest = hmac.digest(key, data, "sha256") if key else sha256(data).digest()
    return digest.hex()[:_CHECK_CHARS]


def _strange(line: str) -> WitnessFailedError:
    return WitnessFailedError(f"the witness has a line that is not what was told to it: {line[:100]}")


def _told(said: dict[str, Any]) -> Told:
    if said["what"] not in _WHAT:
        raise WitnessFailedError(f"the witness says {said['what']!r} of {said['session']}: a newer perdure told it so")
    return Told(
        said["session"], said["what"], said["seq"], said["epoch"], bytes.fromhex(said["chain"]), said["time_us"]
    )


class Roll:
    """The newest that is told of each session."""

    def __init__(self, told: Iterable[Told] = ()) -> None:
        self._newest: dict[str, Told] = {}
        for one in told:
            self.take(one)

    def __len__(self) -> int:
        return len(self._newest)

    def take(self, told: Told) -> None:
        """Takes in what is told, if it is newer."""
        before = self._newest.get(told.session)
        if before is None or (told != before and told.supersedes(before)):
            self._newest[told.session] = told

    def newest(self, session: str) -> Told | None:
        """What counts now."""
        return self._newest.get(session)

    def all(self) -> list[Told]:
        """Of each session what counts now."""
        return list(self._newest.values())
