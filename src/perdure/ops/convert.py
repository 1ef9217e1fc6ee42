"""A log in another protocol: the same records with the same numbers, times and epochs, their bodies encoded anew.

The chain covers the frames, so a converted log has a chain of its own; its last record, a note, says which log it was
made of. What the records say stays to the byte, the nonces of idempotency keys too: nothing that was paid is paid
again. Converting the same log again gives the same bytes, so what was cut off half-way is gone on with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import DamageError, HeldError, SessionUnknownError
from perdure.log.entry import Entry, link, sealed
from perdure.log.record import GENESIS, Record, chained, frame_of, is_stub
from perdure.ops.transfer import Chunk, Item, Origin, at_once
from perdure.session.keeping.lease import is_dead, owner_text
from perdure.session.keeping.opening import summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules.shared import PREFIX
from perdure.state import keyframe
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from perdure.stores.contract import Head, Store

TOPIC: Final = "converted"
"""The topic of the note that ends a converted log: `protocol`, `chain` and `of` (the last record it was made of)."""


def converted(store: Store, session: str, *, protocol: str) -> tuple[Origin, Iterator[Item]]:
    """A log as it is at this moment, in another protocol. Every digest of it is checked on the way.

    What its last chain digest will be is only known at the end. Raises `HeldError` when somebody runs the session,
    `SessionUnknownError`, `SessionErasedError`, `DamageError`.
    """
    head, inbox = at_once(store, session)
    summary_of(head, session)
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {session} in {store.url}")
    owner = store.lease(session).owner
    if owner and not is_dead(owner):
        raise HeldError(f"{session} is run by {owner_text(owner)}; stop it first: two of it would do things twice")
    origin = Origin(session, head.family, head.seq + 1, None, head.epoch, head.bases, is_own=True)
    conversion = _Conversion(Reader(store, session), head, values.check_protocol(protocol))

    def items() -> Iterator[Item]:
        yield from conversion.items()
        yield from inbox

    return origin, items()


def announced(store: Store, session: str, *, protocol: str) -> tuple[Origin, Iterator[Item]]:
    """The same, with the last chain digest known before: the log is gone through twice."""
    first, items = converted(store, session, protocol=protocol)
    chain = GENESIS
    for item in items:
        chain = item.chain if isinstance(item, Record) else chain
    origin, items = converted(store, session, protocol=protocol)
    if origin != first:
        raise HeldError(f"{session} was written to meanwhile; do it again")
    return replace(origin, chain=chain), items


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of one session. `how` is converted, would be (a dry run), there already, or failed, with `why`.

    `stored_bytes` are those of its bodies and chunks in the protocol, `was_bytes` those it was made of.
    """

    session: str
    how: str
    records: int = 0
    was_bytes: int = 0
    stored_bytes: int = 0
    why: str = ""


def in_order(store: Store) -> list[Head]:
    """The sessions of a store, each after what it needs: keys of the whole store, what it goes on from, children."""

    def place(head: Head) -> tuple[bool, int, int, str]:
        return not head.session.startswith(PREFIX), len(head.bases), -head.session.count("/"), head.session

    return sorted((head for head in store.heads() if head.seq and head.session not in HOUSE), key=place)


def is_made_of(target: Store, session: str, head: Head) -> bool:
    """Whether the session in `target` is the log of this head, converted."""
    there = target.head(session)
    if there.seq <= head.seq:
        return False
    (record,) = Reader(target, session).records(after=head.seq, upto=head.seq + 1)
    entry = Reader(target, session).open(record)
    return entry.kind == "note" and entry["topic"] == TOPIC and bool(entry.body.get("chain") == head.chain.hex())


@dataclass(slots=True)
class _Conversion:
    """One log on its way. `moved` are the chunks by their old address: the new one, and the length of its data."""

    reader: Reader
    head: Head
    protocol: str
    chain: bytes = GENESIS
    moved: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    known: set[bytes] = field(default_factory=set)
    blobs: values.Blobs = field(default_factory=values.Blobs)
    dictionary: values.Dictionary | None = None
    _waiting: dict[bytes, bytes] = field(default_factory=dict)

    def items(self) -> Iterator[Item]:
        """Each record after the chunks that it needs; at the end the note."""
        last = None
        for record in self.reader.records(after=0, upto=self.head.seq, chain=self.head.chain):
            made = self._record(record)
            yield from self._chunks()
            yield made
            self.chain, last = made.chain, record
        if last is None or last.seq != self.head.seq:
            raise DamageError(f"{self.head.session}: record {self.head.seq} is missing")
        yield self._note(last)

    def _record(self, record: Record) -> Record:
        return chained(
            self.chain,
            session=record.session,
            seq=record.seq,
            epoch=record.epoch,
            kind=record.kind,
            time_us=record.time_us,
            body=record.body if is_stub(record.body) else self._body(record),
        )

    def _body(self, record: Record) -> bytes:
        """The frame of a body. With a dictionary if it had one: the same chunk, as it is now."""
        entry = self.reader.open(record)
        body = entry.body
        if entry.kind == "keyframe":
            manifest = keyframe.moved(values.decode(body["manifest"]), self._moved)
            body = body | {"manifest": values.encode(manifest)}
        return sealed(body, codec=self.protocol, dictionary=self._dictionary(frame_of(record.body)), blobs=self.blobs)

    def _dictionary(self, frame: bytes) -> values.Dictionary | None:
        named = values.dictionary_named(frame)
        if named is None:
            return None
        digest, _ = self._moved(named)
        if self.dictionary is None or self.dictionary.digest != digest:
            self.dictionary = values.Dictionary.from_chunk(self._waiting.get(digest) or self._translated(named)[0])
        return self.dictionary

    def _moved(self, digest: bytes) -> tuple[bytes, int]:
        """The new address of a chunk, and the length of its data now; it waits to be told of."""
        found = self.moved.get(digest)
        if found is None:
            frame, length = self._translated(digest)
            found = self.moved[digest] = values.address(frame), length
            self._waiting[found[0]] = frame
        return found

    def _translated(self, digest: bytes) -> tuple[bytes, int]:
        codec, data = values.unseal(self.reader.sound_chunk(digest))
        data = data if codec == values.DEFAULT else values.plain(data, codec=codec)
        codec = values.DEFAULT
        if self.protocol not in (values.DEFAULT, values.PICKLE):
            codec, data = values.fitted(values.tree_of(data), data, codec=self.protocol)
        return values.seal(data, codec=codec, chunk=True), len(data)

    def _chunks(self) -> Iterator[Chunk]:
        new, self._waiting = {**self._waiting, **self.blobs.take()}, {}
        for address, frame in new.items():
            if address not in self.known:
                self.known.add(address)
                yield Chunk(address, frame)

    def _note(self, last: Record) -> Record:
        """The end of the log: what it was made of; the same each time, as all of it follows from the log."""
        body: dict[str, Any] = {
            "topic": TOPIC,
            "protocol": self.protocol,
            "of": last.seq,
            "chain": self.head.chain.hex(),
        }
        entry = Entry(last.seq + 1, last.epoch, "note", last.time_us, body)
        return link(self.chain, entry, session=self.head.session, codec=self.protocol)
