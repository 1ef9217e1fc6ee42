"""No byte of what is erased stays; who comes late is refused; forks go first or nothing goes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import perdure
from perdure import faults, values
from perdure.errors import DamageError, HasForksError, HeldError, SessionErasedError, SessionUnknownError
from perdure.session.keyframer import Keyframer
from perdure.stores import open_store
from perdure.stores.sqlite import SqliteStore
from perdure.testing.lives import forked

CANARY = "canary-of-the-erased-"
STORES = ["agents.db"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with an erasable session, collected before, and another one."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    found = request.param.format(tmp_path) if ":" in request.param else str(tmp_path / request.param)
    with perdure.open(found) as store:
        for session, word in (("gone", CANARY), ("other", "harmless-")):
            with store.session(session, labels={"word": word}) as s:
                s.state["log"], s.state["big"] = [], ""
                for n in range(40):
                    s.state["log"].append(f"{word}{n} " + os.urandom(n * 20).hex())
                    s.state["big"] = word + os.urandom(5000 * (n % 3)).hex()
                    s.save()
        store.gc("gone", keep_last=5, dry_run=False)
    return found


def traces(url: str) -> list[str]:
    """Where the canary is: in a byte of a file, or in what a body or a chunk decodes to."""
    base = Path(url.removeprefix("file://"))
    files = [path for path in base.parent.rglob("*") if path.is_file()]
    found = [str(path) for path in files if CANARY.encode() in path.read_bytes()]
    with open_store(url) as store:
        for head in store.heads():
            sizes = store.chunk_sizes(head.session)
            for digest, frame in store.chunks(head.session, sizes).items():
                if CANARY.encode() in values.unseal(frame)[1]:
                    found.append(f"chunk {digest.hex()}")
    return found


def test_no_byte_is_left(url: str) -> None:
    assert traces(url)
    with perdure.open(url) as store:
        assert store.erase("gone") == perdure.ops.erasure.Erased(("gone",))
        assert traces(url) == []
        with pytest.raises(SessionErasedError):
            store.session("gone")
        with pytest.raises(SessionErasedError):
            store.state_at("gone")
        assert store.verify("other").ok
        assert [info.id for info in store.sessions()] == ["other"]
        assert store.erase("gone").sessions == ("gone",), "done again it is as before"
        with pytest.raises(SessionUnknownError):
            store.erase("nobody")
    assert traces(url) == []


def test_a_late_writer_is_refused(url: str) -> None:
    with perdure.open(url) as store:
        handle = store.session("gone")
        handle.state["log"].append(CANARY)
        with pytest.raises(HeldError):
            store.erase("gone")
        store.backend.release(handle._opened.lease)
        store.erase("gone")
        with pytest.raises(SessionErasedError):
            handle.save()
        handle.close()
    assert traces(url) == []


def test_forks_are_named_or_go_with_it(url: str) -> None:
    with perdure.open(url) as store:
        store.fork("gone", into="fork")
        store.fork("fork", into="fork of it")
        with store.session("fork of it") as s:
            s.state["own"] = CANARY
        for refused in (lambda: store.erase("gone"), lambda: store.would_erase("gone")):
            with pytest.raises(HasForksError, match=r"fork, fork of it"):
                refused()
        assert len(store.sessions()) == 4
        assert store.would_erase("gone", family=True) == ("fork of it", "fork", "gone")
        assert store.erase("gone", family=True).sessions == ("fork of it", "fork", "gone")
        assert [info.id for info in store.sessions()] == ["other"]
    assert traces(url) == []


def test_a_fork_leaves_no_byte_in_what_it_shared(url: str) -> None:
    with perdure.open(url) as store:
        store.fork("other", into="fork")
        with store.session("fork") as s:
            for n in range(30):
                s.state["log"].append(f"{CANARY}{n}")
                s.save()
                s._keyframer._join()
        store.erase("gone")
        assert traces(url)
        assert store.erase("fork").left == ""
        assert store.verify("other").ok
    assert traces(url) == []


def test_what_a_held_relative_keeps_is_told(url: str) -> None:
    with perdure.open(url) as store:
        store.fork("other", into="fork")
        with store.session("other"):
            assert "holds it" in store.erase("fork").left


@pytest.mark.parametrize("point", ["erase.inside", "erase.after"])
def test_killed_anywhere_it_is_done_again(url: str, point: str) -> None:
    def work() -> bytes:
        faults.hook = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == point else None
        with perdure.open(url) as store:
            store.erase("gone", family=True)
        return b""

    with perdure.open(url) as store:
        store.fork("gone", into="fork")
    for _ in range(2):  # the fork, then the session itself
        assert forked(work)[1] == signal.SIGKILL
        with perdure.open(url) as store:
            for info in store.sessions():
                assert store.verify(info.id).ok
    with perdure.open(url) as store:
        store.erase("gone", family=True)
        if "fork" not in [info.id for info in store.sessions()]:
            store.backend.delete("fork")
    assert traces(url) == []


def test_a_store_that_only_forgets_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "_scrub", lambda _: None)
    with perdure.open(url) as store:
        store.erase("gone")
        assert traces(url)


def test_damage_does_not_keep_a_session_from_being_erased(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with perdure.open(url) as store:
        read = store.backend.read
        monkeypatch.setattr(store.backend, "read", lambda *a, **k: list(read(*a, **k))[1:])
        with pytest.raises(DamageError):
            list(store.log("gone"))
        store.erase("gone")
    assert traces(url) == []
