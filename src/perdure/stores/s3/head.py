"""Where a log ends: the one object of a session that changes, and with that all that a writer's conditions are about.

It has the lease, the newest records, the inbox, and the names of the parts that hold the older records. A session that
is not there has none, or an empty one (`Void`), which makes sure that nobody is making it at that moment; one that was
deleted has a tombstone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import ormsgpack

from perdure.log import GENESIS, Base
from perdure.stores.contract import Head, Lease
from perdure.stores.s3.rows import Rows, packed, rows_of

_VOID: Final = 0
_STATE: Final = 1
_TOMB: Final = 2


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a log: name, the records `after` + 1 … `upto`, how many bytes come before the bodies, and in all."""

    name: str
    after: int
    upto: int
    front: int
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """An item of the inbox: its content, or where it is too long for that, the name of the object that has it."""

    number: int
    content: bytes | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Void:
    """A session that is not there."""


@dataclass(frozen=True, slots=True)
class Tomb:
    """A session that was deleted: the keys of its family, and of what it went on from, so that it can be finished."""

    family: str
    base: str


@dataclass(frozen=True, slots=True)
class State:
    """A session. `tick` orders listings, `sent` is the newest number of its inbox, `generation` that of its chunks.

    `forks` are the keys of those that go on from its records, or are about to.
    """

    session: str
    key: str
    family: str
    lease: Lease
    tail: Rows
    chain: bytes = GENESIS
    summary: bytes = b""
    bases: tuple[Base, ...] = ()
    tick: int = 0
    sent: int = 0
    generation: int = 0
    forks: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    items: tuple[Kept, ...] = ()

    @property
    def seq(self) -> int:
        """The number of its last record."""
        return self.tail.upto

    @property
    def seam(self) -> int:
        """The last record that it has from its base."""
        return self.bases[-1].seq if self.bases else 0

    @property
    def head(self) -> Head:
        """As the contract has it."""
        return Head(self.session, self.family, self.seq, self.chain, self.lease.epoch, self.summary, self.bases)

    def named(self) -> set[str]:
        """The objects beside the head that it needs."""
        return {part.name for part in self.parts} | {item.name for item in self.items if item.name}


Told: TypeAlias = State | Void | Tomb


class HeadCodec:
    """How a head is written. `key` is that of its session."""

    def __init__(self, key: str) -> None:
        self._key = key

    def encoded(self, value: Told) -> bytes:
        """One array of MessagePack behind its length in 4 bytes, then the newest records."""
        if isinstance(value, Void):
            return _fronted([_VOID])
        if isinstance(value, Tomb):
            return _fronted([_TOMB, value.family, value.base])
        tail, _ = packed(value.tail, key=self._key)
        return _fronted(_listed(value)) + tail

    def decoded(self, content: bytes) -> Told:
        """See `cell.Codec`."""
        end = 4 + int.from_bytes(content[:4], "big")
        kind, *told = ormsgpack.unpackb(content[4:end])
        if kind == _VOID:
            return Void()
        if kind == _TOMB:
            return Tomb(*told)
        session = told[0]
        tail = rows_of(content[end:], key=self._key, session=session, what="the end of its log")
        return _state(told, key=self._key, tail=tail)


def _fronted(told: list[Any]) -> bytes:
    front = ormsgpack.packb(told)
    return len(front).to_bytes(4, "big") + front


def _listed(state: State) -> list[Any]:
    lease = state.lease
    return [
        _STATE,
        state.session,
        state.family,
        [lease.epoch, lease.owner.encode(errors="surrogatepass"), lease.counter],
        state.chain,
        state.summary,
        [[base.session, base.seq] for base in state.bases],
        state.tick,
        state.sent,
        state.generation,
        state.forks,
        [[part.name, part.after, part.upto, part.front, part.size] for part in state.parts],
        [[item.number, item.content, item.name] for item in state.items],
    ]


def _state(told: list[Any], *, key: str, tail: Rows) -> State:
    session, family, (epoch, owner, counter), chain, summary, bases, tick, sent, generation, forks, parts, items = told
    return State(
        session,
        key,
        family,
        Lease(session, epoch, owner.decode(errors="surrogatepass"), counter),
        tail,
        chain,
        summary,
        tuple(Base(base, seq) for base, seq in bases),
        tick,
        sent,
        generation,
        tuple(forks),
        tuple(Part(*part) for part in parts),
        tuple(Kept(*item) for item in items),
    )
