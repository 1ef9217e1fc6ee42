"""No byte of what is erased stays; who comes late is refused; forks go first or nothing goes."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
from pathlib import Path

import pytest

import perdure
from perdure import faults, values
from perdure.errors import DamageError, HasForksError, HeldError, SessionErasedError, SessionUnknownError
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import open_store
from perdure.stores.file.sessions import Sessions
from perdure.stores.sqlite import SqliteStore
from perdure.testing.lives import forked

CANARY = "canary-of-the-erased-"
STORES = ["{}/agents.db", "file://{}/agents"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with an erasable session, collected before, and another one."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    found: str = request.param.format(tmp_path)
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


def frames(url: str, session: str) -> list[bytes]:
    """Each stored body and chunk of a session, as it is and as base64."""
    with open_store(url) as store:
        found = [record.body for record in store.read(session)]
        found += store.chunks(session, store.chunk_sizes(session)).values()
    return found + [base64.b64encode(frame) for frame in found]


def needles(url: str) -> set[bytes]:
    """Bytes from the end of each of those of the session; the other session has none of them."""
    other = b"|".join(frames(url, "other"))
    found = {frame[-44:-4] for frame in frames(url, "gone") if len(frame) > 90}
    return {one for one in found if one not in other}


def content(url: str) -> bytes:
    """All bytes of all files of the store."""
    folder = Path(url.removeprefix("file://")).parent
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def traces(url: str) -> list[str]:
    """Where the canary is: in a byte of a file, or in what a chunk decodes to."""
    found = ["a file"] if CANARY.encode() in content(url) else []
    with open_store(url) as store:
        for head in store.heads():
            sizes = store.chunk_sizes(head.session)
            for digest, frame in store.chunks(head.session, sizes).items():
                if CANARY.encode() in values.unseal(frame)[1]:
                    found.append(f"chunk {digest.hex()}")
    return found


def test_no_byte_is_left(url: str) -> None:
    assert traces(url)
    stored = needles(url)
    assert sum(one in content(url) for one in stored) > len(stored) // 3
    with perdure.open(url) as store:
        assert store.erase("gone") == perdure.ops.erasure.Erased(("gone",))
        assert traces(url) == []
        with pytest.raises(SessionErasedError):
            store.session("gone")
        with pytest.raises(SessionErasedError):
            store.state_at("gone")
        assert store.verify("other", read_data=True).ok
        assert [info.id for info in store.sessions()] == ["other"]
        assert store.erase("gone").sessions == ("gone",), "done again it is as before"
        with pytest.raises(SessionUnknownError):
            store.erase("nobody")
        assert [one for one in stored if one in content(url)] == []
    assert traces(url) == []
    assert [one for one in stored if one in content(url)] == []


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
        with contextlib.suppress(SessionErasedError):
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
        assert store.verify("other", read_data=True).ok
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

    stored = needles(url)
    with perdure.open(url) as store:
        store.fork("gone", into="fork")
    for _ in range(2):  # the fork, then the session itself
        assert forked(work)[1] == signal.SIGKILL
        with perdure.open(url) as store:
            for info in store.sessions():
                assert store.verify(info.id, read_data=True).ok
    with perdure.open(url) as store:
        store.erase("gone", family=True)
    assert traces(url) == []
    assert [one for one in stored if one in content(url)] == []


def test_a_store_that_only_forgets_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "_scrub", lambda *_: None)
    monkeypatch.setattr(Sessions, "_wipe", lambda *_: None)
    stored = needles(url)
    with perdure.open(url) as store:
        store.erase("gone")
        assert [one for one in stored if one in content(url)]


def test_damage_does_not_keep_a_session_from_being_erased(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with perdure.open(url) as store:
        read = store.backend.read
        monkeypatch.setattr(store.backend, "read", lambda *a, **k: list(read(*a, **k))[1:])
        with pytest.raises(DamageError):
            list(store.log("gone"))
        store.erase("gone")
    assert traces(url) == []
