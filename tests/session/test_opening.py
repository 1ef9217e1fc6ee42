"""Opening a session is one commit: nothing is taken that is not written, whoever comes in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import FencedError, HeldError, InputDiffersError, SessionErasedError
from perdure.runtime.store import AgentStore
from perdure.session.keeping.lease import is_dead, new_owner
from perdure.stores import open_store
from perdure.testing.broken import Passing


class Told(Passing):
    """Tells what is written, and lets somebody come at a chosen look at the lease or the log's end."""

    def __init__(self, right):
        super().__init__(right)
        self.told = []
        self.looks_left = 0
        self.comes = None

    def head(self, session):
        return self._looked(super().head(session))

    def lease(self, session):
        return self._looked(super().lease(session))

    def _looked(self, found):
        self.looks_left -= 1
        if self.looks_left == 0 and self.comes is not None:
            self.comes()
        return found

    def create(self, session, **given):
        self.told.append("create")
        return super().create(session, **given)

    def claim(self, session, **given):
        self.told.append("claim")
        return super().claim(session, **given)

    def open(self, session, batch, **given):
        self.told.append(("open", [record.kind for record in batch.records]))
        return super().open(session, batch, **given)

    def append(self, session, batch, **given):
        self.told.append(("append", [record.kind for record in batch.records]))
        return super().append(session, batch, **given)


@pytest.fixture
def store(tmp_path):
    with AgentStore(Told(open_store(tmp_path / "agents.db"))) as store:
        yield store


def test_a_session_is_made_and_taken_in_one_commit_each(store):
    with store.session("s") as s:
        assert store.backend.told == [("open", ["opened", "owned"])]
        s.state["n"] = 1
    store.backend.told.clear()
    s = store.session("s")
    assert store.backend.told == [("open", ["owned"])]
    s.close()


def test_a_session_that_was_made_and_never_written_is_begun(store):
    store.backend.release(store.backend.create("s", owner="gone"))
    with store.session("s") as s:
        s.state["n"] = 1
    assert [entry.kind for entry in store.log("s")][:2] == ["opened", "owned"]
    assert store.verify("s").ok


def test_what_is_refused_takes_nothing(store):
    def agent(s):
        raise ValueError("not yet")

    store.run(agent, "s", input=1)
    before = store.backend.lease("s"), store.backend.head("s")
    with pytest.raises(InputDiffersError):
        store.run(agent, "s", input=2)
    assert (store.backend.lease("s"), store.backend.head("s")) == before


@pytest.mark.parametrize("look", [1, 2])
def test_who_opens_sees_what_somebody_wrote_in_between(look, store):
    with store.session("s") as s:
        s.state["n"] = 1
    with AgentStore(open_store(store.url)) as other:

        def comes():
            with other.session("s") as s:
                s.state["n"] += 1

        store.backend.looks_left, store.backend.comes = look, comes
        with store.session("s") as s:
            assert store.backend.looks_left <= 0
            assert s.state["n"] == 2
            s.state["n"] = 9
    assert store.state_at("s") == {"n": 9}
    assert store.verify("s").ok


def test_who_comes_in_between_and_stays_has_it(store):
    store.session("s").close()
    with AgentStore(open_store(store.url)) as other:
        stays = []
        store.backend.looks_left, store.backend.comes = 2, lambda: stays.append(other.session("s"))
        with pytest.raises(HeldError, match="is held by"):
            store.session("s")
        stays[0].close()
        assert store.backend.head("s").epoch == 2


def test_what_is_erased_in_between_is_not_made_anew(store):
    store.session("s").close()
    store.backend.looks_left, store.backend.comes = 2, lambda: store.erase("s")
    with pytest.raises(SessionErasedError):
        store.session("s")


def test_what_a_late_owner_wrote_in_between_is_kept(store):
    with AgentStore(open_store(store.url)) as other:
        late = other.session("s")
        late.state["n"] = 1

        def comes():
            store.backend.comes = None
            late.save()

        store.backend.looks_left, store.backend.comes = 2, comes
        store._lease_s = 0.0  # as if the other one had not moved for so long
        with store.session("s") as s:
            assert s.state["n"] == 1
            late.state["n"] = 2
            with pytest.raises(FencedError):
                late.save()
        late.close()
    assert store.verify("s").ok


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="only where processes can be looked at as files")
def test_a_process_may_have_any_name():
    name = Path("/proc/self/comm")
    before = name.read_bytes()
    name.write_bytes(b"\xff) \xc3\xa9 S")
    try:
        owner = new_owner()
        assert not is_dead(owner)
    finally:
        name.write_bytes(before)
    assert not is_dead(owner)
