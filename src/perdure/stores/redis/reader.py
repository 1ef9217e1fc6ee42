"""The half of the contract that only looks. Each look is one script, so what it tells was there at one instant.

Long reads come in pages: between two of them nothing is held on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from perdure.errors import DamageError, SessionError
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.contract import Head, Item, Lease, Point, Store
from perdure.stores.ids import check_session_id
from perdure.stores.redis import rows
from perdure.stores.redis.link import Link
from perdure.stores.redis.scripts import Call, Word
from perdure.stores.redis.verdicts import Asked

_READ_BYTES: Final = 4 << 20
"""Bodies and chunks fetched at a time; one that is longer comes alone."""

_READ_COUNT: Final = 1000
_ROWS: Final = ("family", "seq", "chain", "epoch", "summary", "base", "seam")


class Reader(Store):
    """What is there, of the place that the link leads to."""

    def __init__(self, link: Link) -> None:
        self.url = link.url
        self._link = link

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        return rows.lease(session, *self._ask("lease", session)[:3])

    def still_s(self, lease: Lease) -> float | None:
        """See `Store.still_s`."""
        with suppress(SessionError):
            *newest, still_ms = self._ask("lease", lease.session)
            if rows.lease(lease.session, *newest) == lease:
                return rows.number(still_ms, f"{lease.session}: its lease") / 1000
        return None

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        told = self._ask("head", session)
        what = f"{session}: the session that it is a fork of"
        bases = tuple(Base(rows.text(name, what), rows.number(seq, what)) for name, seq in rows.pairs(told[5:]))
        return rows.head(session, told[:5], bases)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`. Looks at the order first and then at each session: one that goes meanwhile is left out."""
        listed = self._plain(("ZREVRANGE", self._key("sessions"), 0, -1))
        names = [rows.text(name, f"{self.url}: the name of a session") for name in listed]
        chosen = [name for name in names if name.startswith(prefix)]
        found = self._rows(chosen)
        while missing := {name for _, name in _bases(found)} - found.keys():
            found |= self._rows(sorted(missing)) or dict.fromkeys(missing, [None] * len(_ROWS))
        return [rows.head(name, found[name][:5], _places(name, found)) for name in chosen if found[name][0] is not None]

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        end, page, last = self._page(session, after, upto)
        return self._pages(session, page, last, upto=end)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        wanted, found = list(seqs), []
        for seq, (owner, stored) in self._in_turn("read_at", session, wanted):
            if stored is None:
                raise refusals.missing_record(session, seq=seq)
            found.append(rows.record(rows.text(owner, f"{session}: record {seq}"), seq, stored))
        return found

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        found = {}
        for last, told in self._index(session, "points"):
            for field, stored in rows.pairs(told):
                seq = rows.number(field, f"{session}: the index of snapshots")
                if seq <= last:
                    found[seq] = rows.point(session, seq, stored)
        return [found[seq] for seq in sorted(found)]

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        found = {}
        for last, told in self._index(session, "keyframes"):
            for pair in rows.pairs(told):
                of, record = (rows.number(seq, f"{session}: the index of keyframes") for seq in pair)
                if max(of, record) <= last:
                    found[of] = record
        return sorted(found.items())

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return sorted({seq for _, seq in self._marks(session, *rows.range_of(mark))})

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        return list(dict.fromkeys(self._marks(session, b"-", b"+")))

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        (told,) = self._ask("inbox", session)
        items = [Item(rows.number(number, f"{session}: its inbox"), content) for number, content in rows.pairs(told)]
        return sorted((item for item in items if item.number > after), key=lambda item: item.number)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        kept, wanted = {}, list(digests)
        for digest, content in self._in_turn("chunks", session, wanted):
            if content is None:
                raise refusals.missing_chunk(session, digest=digest)
            kept[digest] = content
        return kept

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        told = self._ask("chunk_sizes", session)
        return {digest: rows.number(size, f"{session}: a chunk") for digest, size in rows.pairs(told)}

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        args: tuple[Word, ...] = (0, b"") if session is None else (1, self._id(session))
        (told,) = self._link.ask(Call("envelope", args, tells=Asked(self.url, session or "").told))
        return told  # type: ignore[no-any-return]

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        return rows.number(
            self._plain(("HGET", self._key("place"), "incarnation")) or b"0", f"{self.url}: its incarnation"
        )

    @staticmethod
    def _id(session: str) -> bytes:
        return check_session_id(session).encode()

    def _key(self, kind: str) -> str:
        return f"{self._link.target.place}:{kind}"

    def _ask(self, name: str, session: str, *args: Word) -> list[Any]:
        call = Call(name, (self._id(session), *args), tells=Asked(self.url, session).told)
        return self._link.ask(call)  # type: ignore[no-any-return]

    def _plain(self, command: tuple[Word, ...]) -> Any:
        return self._link.look(command)[0]

    def _rows(self, names: Sequence[str]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for start in range(0, len(names), _READ_COUNT):
            some = names[start : start + _READ_COUNT]
            commands = [("HMGET", self._key(f"session:{name}"), *_ROWS) for name in some]
            found |= zip(some, self._link.look(*commands), strict=True)
        return found

    def _index(
        self, session: str, kind: str, first: bytes = b"", last: bytes = b""
    ) -> Iterator[tuple[int, list[bytes]]]:
        """For each run of the log, the oldest first: the last record that counts, and what its index holds."""
        told = iter(self._ask("index", session, kind, first, last))
        return zip(told, told, strict=True)

    def _marks(self, session: str, first: bytes, last: bytes) -> Iterator[tuple[bytes, int]]:
        for end, told in self._index(session, "marks", first, last):
            for member in told:
                mark, seq = rows.mark(session, member)
                if seq <= end:
                    yield mark, seq

    def _in_turn(self, name: str, session: str, wanted: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """What is asked for, each with what is there, some at a time. It looks at the session, whatever is asked."""
        place = 0
        while place < len(wanted) or not place:
            told = self._ask(name, session, _READ_BYTES, *wanted[place : place + _READ_COUNT])
            yield from zip(wanted[place:], told, strict=False)
            place += len(told) or 1

    def _page(self, session: str, after: int, upto: int | None) -> tuple[int, list[Callable[[], Record]], int]:
        """Where to end, some of the next records, each read when it is its turn, and the last place looked at."""
        end, *runs = self._ask("read", session, after, b"" if upto is None else upto, _READ_BYTES, _READ_COUNT)
        page: list[Callable[[], Record]] = []
        last = after
        for name, first, *stored in runs:
            owner, last = rows.text(name, f"{session}: its log"), first + len(stored) - 1
            page += [_reading(owner, first + place, one) for place, one in enumerate(stored) if one is not None]
        return end, page, last if runs else end

    def _pages(self, session: str, page: list[Callable[[], Record]], last: int, *, upto: int) -> Iterator[Record]:
        while True:
            for record in page:
                yield record()
            if last >= upto:
                return
            _, page, last = self._page(session, last, upto)


def _reading(session: str, seq: int, stored: bytes) -> Callable[[], Record]:
    return lambda: rows.record(session, seq, stored)


def _bases(found: dict[str, list[Any]]) -> Iterator[tuple[str, str]]:
    for name, row in found.items():
        if row[5] is not None:
            yield name, rows.text(row[5], f"{name}: the session that it is a fork of")


def _places(name: str, found: dict[str, list[Any]]) -> tuple[Base, ...]:
    """The places that a session goes on from, the oldest first; as far as they are known."""
    places: list[Base] = []
    row, seam = found[name], 1 << 64
    while row[5] is not None and row[6] is not None:
        what = f"{name}: the session that it is a fork of"
        base = Base(rows.text(row[5], what), rows.number(row[6], what))
        if base.seq >= seam:
            raise DamageError(f"{what} is not what was written")
        places.insert(0, base)
        row, seam = found[base.session], base.seq
    return tuple(places)
