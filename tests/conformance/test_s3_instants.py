"""Every instant of what takes several requests: killed there it can be done again; whoever comes, nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure.errors import PerdureError, SessionErasedError, SessionUnknownError
from perdure.log import GENESIS, Base, verified
from perdure.stores import Batch, Change, Store
from perdure.stores.s3 import S3Store, merging, names, writing
from perdure.testing.conformance.tools import Log, records_after
from tests.conformance.buckets import AFTER, BEFORE, Died, Dying, Yielding, bucket_of, on
from tests.faults.operations import OPERATIONS, Operation, held, picture

FULL = os.environ.get("PERDURE_STORM") == "full"
REQUESTS_MAX = 60
CHUNK = b"c" * 32
_names = (f"s{n:05d}" for n in itertools.count())


@pytest.fixture
def url(s3_server: Any) -> str:
    return str(s3_server.fresh_url())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs come in parts at once, and items are objects of their own."""
    monkeypatch.setattr(writing, "TAIL_BYTES", 700)
    monkeypatch.setattr(writing, "ITEM_BYTES", 2)
    monkeypatch.setattr(merging, "RUN_COUNT", 2)
    monkeypatch.setattr(merging.Merging, "later", lambda *_: None)


def parted(store: Store, session: str) -> Log:
    """Three parts, an item, chunks; nobody holds it."""
    log = held(store, session)
    for n in range(3):
        log.append(b"%d" % n * 700)
    store.release(log.lease)
    log.lease = store.lease(session)
    return log


def amended(store: Store, session: str, log: Log) -> None:
    change = Change(bodies=((1, b"short"),), points=(3,), marks=((b"m", 1),), chunks={b"f" * 32: b"x"})
    store.amend(session, Batch(log.next(b"7"), taken=(1,)), change, seen=log.lease, head=6, family=[session])


def merged(store: Store, session: str, _: Log) -> bool:
    assert isinstance(store, S3Store)
    return store._merging.merge(session)


def with_fork(store: Store, session: str) -> Log:
    log = parted(store, session)
    records = records_after(log.records[:2], f"{session}f", (b"first",), kind="opened")
    store.fork(f"{session}f", Batch(records), base=Base(session, 2), epoch=1)
    return log


def gone(store: Store, session: str, _: Log) -> None:
    store.delete(f"{session}f")
    store.delete(session)


MORE = [
    Operation("append to parts", parted, lambda store, s, log: store.append(s, long(log), epoch=None, head=6)),
    Operation("amend parts", parted, amended),
    Operation("merge", parted, merged),
    Operation("delete parts", parted, lambda store, s, _: store.delete(s)),
    Operation("delete with its fork", with_fork, gone),
]


def long(log: Log) -> Batch:
    return Batch(log.next(b"long" * 300), taken=(1,), chunks={b"f" * 32: b"new"})


def unneeded(store: Store) -> list[str]:
    """Objects of logs that no head names."""
    assert isinstance(store, S3Store)
    found = []
    for one in store.bucket.list(names.PARTS):
        key, name = one.key.split("/")[1:]
        told = store._heads.cell(key).look().value
        if name not in (told.named() if hasattr(told, "named") else ()):
            found.append(one.key)
    return found


@pytest.mark.parametrize("how", [BEFORE, AFTER] if FULL else [BEFORE])
def test_killed_at_any_request_it_is_done_or_not_and_can_be_done_again(url: str, how: str) -> None:
    with on(bucket_of(url)) as direct:
        for operation in [one for one in (*OPERATIONS, *MORE) if one.writes]:
            killed = sum(1 for _ in deaths(direct, url, operation, how))
            assert killed, operation
        while direct.give_back(bytes_max=1000):
            pass
        assert unneeded(direct) == []


def deaths(direct: S3Store, url: str, operation: Operation, how: str) -> Iterator[None]:
    before, after = untouched(direct, operation), done(direct, operation)
    for at in range(1, REQUESTS_MAX):
        session = next(_names)
        log = operation.prepare(direct, session)
        bucket = Dying(url)
        store = on(bucket)
        bucket.arm(at, how)
        with contextlib.suppress(Died):
            operation.act(store, session, log)
        if not bucket.is_dead:
            return
        what = f"{operation}, killed {how} request {at}"
        if operation.act is not gone:  # which is two operations
            assert same(picture(direct, session)) in (same(before), same(after)), what
        with contextlib.suppress(PerdureError):  # it says that it was done
            operation.act(direct, session, log)
        assert same(picture(direct, session)) == same(after) or operation.name == "send", what
        yield


def same(found: str) -> str:
    """Without chunks that nothing names, which are swept."""
    return found.partition("'chunks'")[0]


def untouched(store: Store, operation: Operation) -> str:
    session = next(_names)
    operation.prepare(store, session)
    return picture(store, session)


def done(store: Store, operation: Operation) -> str:
    session = next(_names)
    operation.act(store, session, operation.prepare(store, session))
    return picture(store, session)


# ------------------------------------------------------------------------------------------------ two at a time


class Two:
    """A session `s` that nobody holds, of three parts, with a chunk that its record 4 names."""

    def __init__(self, url: str) -> None:
        self.bucket = Yielding(url)
        self.one, self.other = on(self.bucket), on(bucket_of(url))
        self.s = next(_names)
        self.log = parted(self.other, self.s)
        self.lease = self.log.lease
        self.said: list[str] = []

    def attempt(self, work: Callable[[Two, S3Store], object], store: S3Store) -> None:
        try:
            work(self, store)
        except (PerdureError, ValueError) as error:
            self.said.append(f"{work.__name__}: {type(error).__name__}")
        else:
            self.said.append(f"{work.__name__}: done")

    def did(self, work: Callable[[Two, S3Store], object]) -> bool:
        return f"{work.__name__}: done" in self.said


def append(two: Two, store: S3Store) -> None:
    store.append(two.s, Batch(two.log.next(b"needs it"), chunks={CHUNK: b"needed"}), epoch=None, head=6)


def put_chunks(two: Two, store: S3Store) -> None:
    """A keyframe's chunks, and then its record."""
    store.put_chunks(two.s, {CHUNK: b"needed"}, epoch=None)
    store.append(two.s, Batch(two.log.next(b"needs it")), epoch=None, head=6)
    store.put_chunks(two.s, {CHUNK: b"needed"}, epoch=None)


def drop(two: Two, store: S3Store) -> None:
    store.drop_chunks([CHUNK, b"d" * 32], seen={two.lease: 6})


def fork(two: Two, store: S3Store) -> None:
    records = records_after(two.log.records[:4], f"{two.s}f", (b"first",), kind="opened")
    store.fork(f"{two.s}f", Batch(records, chunks={CHUNK: b"needed"}), base=Base(two.s, 4), epoch=1)


def join(two: Two, store: S3Store) -> None:
    session = f"{two.s}j"
    store.create(session, owner="me", family=two.s)
    batch = Batch(records_after([], session, (b"1",), kind="opened"), chunks={CHUNK: b"needed"})
    store.append(session, batch, epoch=1, head=0)


def delete(two: Two, store: S3Store) -> None:
    store.delete(two.s)


def amend(two: Two, store: S3Store) -> None:
    change = Change(bodies=((4, b"short"),), points=(3,))
    store.amend(two.s, Batch(two.log.next(b"amended")), change, seen=two.lease, head=6, family=[two.s])


def merge(two: Two, store: S3Store) -> None:
    store._merging.merge(two.s)  # or not: somebody has changed what was to be merged


def give_back(two: Two, store: S3Store) -> None:
    while store.give_back(bytes_max=1 << 30):
        pass


def send(two: Two, store: S3Store) -> None:
    store.send(two.s, b"long item", mark=b"once")


def claim(two: Two, store: S3Store) -> None:
    store.claim(two.s, owner="next", seen=two.lease)


CHOSEN = [
    *((append, other) for other in (drop, delete, merge, give_back)),
    *((drop, other) for other in (append, fork, join)),
    *((fork, other) for other in (drop, delete, amend)),
    *((delete, other) for other in (fork, join)),
    *((merge, other) for other in (append, give_back)),
    *((put_chunks, drop), (join, delete), (amend, fork), (send, send)),
]
PAIRS = [
    *((append, other) for other in (drop, delete, amend, merge, give_back, send, claim)),
    *((drop, other) for other in (append, put_chunks, fork, join, claim, delete)),
    *((put_chunks, other) for other in (drop, delete)),
    *((fork, other) for other in (drop, delete, amend, merge, give_back)),
    *((join, other) for other in (drop, delete)),
    *((delete, other) for other in (append, fork, join, send, merge)),
    *((amend, other) for other in (append, fork, merge, send, give_back)),
    *((merge, other) for other in (append, amend, delete, give_back, merge)),
    *((send, other) for other in (send, merge, give_back, delete)),
]


@pytest.mark.parametrize("pair", PAIRS if FULL else CHOSEN, ids=lambda pair: f"{pair[0].__name__}-{pair[1].__name__}")
def test_whoever_comes_at_any_request_nothing_is_lost(url: str, pair: tuple[Any, Any]) -> None:
    first, second = pair
    for at in range(1, REQUESTS_MAX):
        two = Two(url)
        two.bucket.arm(at, lambda two=two: two.attempt(second, two.other))
        two.attempt(first, two.one)
        if not two.bucket.has_yielded:
            assert at > 1
            return
        check(two, first, second, what=f"{two.said}, at request {at}")
        two.one.close()
        two.other.close()
    raise AssertionError("it makes more and more requests")


def check(two: Two, *did: Any, what: str) -> None:
    with on(bucket_of(two.other.url)) as store:
        there = {head.session: head for head in store.heads(prefix=two.s)}
        for session, head in there.items():
            log = list(store.read(session))
            if two.did(amend):
                assert log[3].body == b"short", what
            else:
                assert len([*verified(log, session=session, after=0, previous=GENESIS, bases=head.bases)]) == head.seq
            for item in store.inbox(session):
                assert item.content, what
            if b"needs it" in [record.body for record in log] or (session != two.s and len(log) != 0):
                assert store.chunks(session, [CHUNK]) == {CHUNK: b"needed"}, what
        if two.did(delete):
            assert two.s not in there, what
            assert f"{two.s}f" not in there, what
            with pytest.raises(SessionErasedError):
                store.head(two.s)
        else:
            assert two.s in there, what
        acknowledged(two, there, store, what)
        while store.give_back(bytes_max=1 << 30):
            pass
        assert not [key for key in unneeded(store) if names.key_of(two.s) in key], what


def acknowledged(two: Two, there: Any, store: S3Store, what: str) -> None:
    if two.did(fork):
        assert f"{two.s}f" in there, what
    if two.did(join):
        assert f"{two.s}j" in there, what
    if (two.did(append) or two.did(put_chunks)) and not two.did(delete):
        assert [record.body for record in store.read(two.s, after=6, upto=7)] in ([b"needs it"], [b"amended"]), what
    if two.said.count("append: done") and two.did(amend):
        raise AssertionError(f"both wrote record 7: {what}")
    if two.did(send) and not two.did(delete):
        assert [item.number for item in store.inbox(two.s)][-1] == 2, what
    try:
        store.chunk_sizes(two.s)
    except (SessionErasedError, SessionUnknownError):
        family = names.chunks(names.key_of(two.s))
        if f"{two.s}j" not in there:
            assert [one.key for one in store.bucket.list(family)] == [], what
