"""Every operation of a store, each ready to be done to a session of its own, and a picture of what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.errors import SessionErasedError, SessionUnknownError
from perdure.log import GENESIS, Base, verified
from perdure.stores import Batch, Change, Point, Store
from perdure.testing.conformance.tools import Log, records_after

DIGESTS = (b"d" * 32, b"e" * 32)


@dataclass(frozen=True, slots=True)
class Operation:
    """`act` does it, to what `prepare` has made of a session that nobody has used. `writes`: it changes something."""

    name: str
    prepare: Callable[[Store, str], Any]
    act: Callable[[Store, str, Any], Any]
    writes: bool = True

    def __repr__(self) -> str:
        return self.name


def nothing(store: Store, session: str) -> None:
    """Nobody has used it."""


def held(store: Store, session: str) -> Log:
    """Three records with rows in every index, two chunks and an item in the inbox; somebody holds it."""
    log = Log(store, session)
    rows = {"points": (Point(1, 0, 1, "one", 7), Point(3, 1, 1, None, 9)), "marks": ((b"m", 1), (b"m", 3))}
    log.append(b"1", b"2", b"3", **rows, keyframes=((1, 2),), summary=b"before")
    store.put_chunks(session, dict.fromkeys(DIGESTS, b"chunk"), epoch=1)
    store.send(session, b"item")
    return log


def free(store: Store, session: str) -> Log:
    """The same, and nobody holds it."""
    log = held(store, session)
    store.release(log.lease)
    log.lease = store.lease(session)
    return log


def whole_batch(log: Log) -> Batch:
    """A batch that has all there is."""
    return Batch(
        log.next(b"4", b"5"),
        points=(Point(5, 3, 1, "five", 11),),
        marks=((b"m", 5), (b"n", 4)),
        keyframes=((3, 4),),
        summary=b"after",
        taken=(1,),
        chunks={b"f" * 32: b"new"},
    )


def first_batch(session: str) -> Batch:
    return Batch(records_after([], session, (b"1",), kind="opened"), points=(Point(1, 0, 1, None, 7),), summary=b"s")


def opened_again(store: Store, session: str, log: Log) -> Any:
    batch = Batch(log.next(b"4"), points=(Point(4, 3, 1, None, 8),), summary=b"again")
    return store.open(session, batch, owner="next", seen=log.lease)


def forked(store: Store, session: str, log: Log) -> None:
    records = records_after(log.records[:2], f"{session}f", (b"first",), kind="opened")
    store.fork(f"{session}f", Batch(records, (Point(3, 1, 1, None, 9),)), base=Base(session, 2), epoch=1)


def amended(store: Store, session: str, log: Log) -> None:
    change = Change(bodies=((1, b"short"),), points=(1,), keyframes=(1,), marks=((b"m", 1),), chunks={b"f" * 32: b"x"})
    store.amend(session, Batch(log.next(b"4")), change, seen=log.lease, head=3, family=[session])


OPERATIONS = [
    Operation("create", nothing, lambda store, s, _: store.create(s, owner="me")),
    Operation("open", nothing, lambda store, s, _: store.open(s, first_batch(s), owner="me", seen=None)),
    Operation("open again", free, opened_again),
    Operation("claim", free, lambda store, s, log: store.claim(s, owner="next", seen=log.lease)),
    Operation("renew", held, lambda store, s, log: store.renew(log.lease).epoch),
    Operation("release", held, lambda store, s, log: store.release(log.lease)),
    Operation("append", held, lambda store, s, log: store.append(s, whole_batch(log), epoch=1, head=3)),
    Operation("append unheld", free, lambda store, s, log: store.append(s, whole_batch(log), epoch=None, head=3)),
    Operation("submit", held, lambda store, s, log: store.submit(s, whole_batch(log), epoch=1, head=3).result()),
    Operation("send", held, lambda store, s, _: store.send(s, b"more")),
    Operation("send once", held, lambda store, s, _: store.send(s, b"more", mark=b"mark")),
    Operation("put chunks", held, lambda store, s, _: store.put_chunks(s, {b"f" * 32: b"new"}, epoch=1)),
    Operation("fork", free, forked),
    Operation("amend", free, amended),
    Operation("drop chunks", free, lambda store, s, log: store.drop_chunks(DIGESTS[:1], seen={log.lease: 3})),
    Operation("put envelope", free, lambda store, s, _: store.put_envelope(s, b"envelope", seen=None)),
    Operation("delete", free, lambda store, s, _: store.delete(s)),
    Operation("read", free, lambda store, s, _: [record.body for record in store.read(s)], writes=False),
    Operation("read at", free, lambda store, s, _: [r.body for r in store.read_at(s, [3, 1])], writes=False),
    Operation("head", free, lambda store, s, _: (store.head(s).seq, store.head(s).summary), writes=False),
    Operation("heads", free, lambda store, s, _: [head.session for head in store.heads(prefix=s)], writes=False),
    Operation("points", free, lambda store, s, _: store.points(s), writes=False),
    Operation("chunks", free, lambda store, s, _: store.chunks(s, DIGESTS), writes=False),
    Operation("inbox", free, lambda store, s, _: store.inbox(s), writes=False),
]


def picture(store: Store, session: str) -> str:
    """All that the place has of a session and its forks, but for its name. Raises for a log that is not whole."""
    found = [session, *(head.session for head in store.heads(prefix=f"{session}f"))]
    return repr([_one(store, one) for one in found]).replace(session, "S")


def _one(store: Store, session: str) -> Any:
    try:
        head, lease = store.head(session), store.lease(session)
    except (SessionUnknownError, SessionErasedError) as error:
        return type(error).__name__
    records = list(store.read(session))
    if [record.body for record in records[:1]] != [b"short"]:  # that one is another than its digest says
        records = list(verified(records, session=session, after=0, previous=GENESIS, bases=head.bases))
    assert head.seq == len(records)
    return {
        "lease": (lease.epoch, lease.owner),
        "head": (head.family, head.seq, head.epoch, head.summary, head.bases),
        "records": [record.body for record in records],
        "points": store.points(session),
        "keyframes": store.keyframes(session),
        "marks": sorted(store.marks(session)),
        "inbox": store.inbox(session),
        "chunks": sorted(store.chunk_sizes(session).items()),
        "envelope": store.envelope(session),
    }
