"""A disk that is full for a while: each save says so, nothing acknowledged is lost, and it goes on after that."""

from __future__ import annotations

import subprocess

import pytest

import perdure
from perdure.errors import StoreFailedError
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.testing.broken import Passing


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_handle_goes_on_once_there_is_space_again(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_700_000))
    with perdure.open(str(small_disk / "agents.db")) as store:
        with store.session("a") as s:
            log = s.state["log"] = []
            s.save()
            acknowledged = 0

            def until_full() -> None:
                nonlocal acknowledged
                for n in range(10_000):
                    log.append(f"{n} " + "".join(map(chr, range(200 + n, 2200 + n))))
                    s.save()
                    acknowledged = len(log)

            with pytest.raises(StoreFailedError, match="full"):
                until_full()
            with pytest.raises(StoreFailedError):
                s.save()
            assert len(store.state_at("a")["log"]) == acknowledged > 0
            ballast.unlink()
            assert s.save() is not None
        assert store.state_at("a") == {"log": log}
        assert store.verify("a", read_data=True).ok


def test_a_run_that_meets_a_full_disk_goes_on_from_where_it_was(small_disk):
    ballast = small_disk / "ballast"
    done = []

    def work(n: int) -> str:
        done.append(n)
        return "".join(map(chr, range(200 + n, 2200 + n)))

    def agent(s):
        return sum(len(s.action(work, effect="idempotent")(n)) for n in range(40))

    with perdure.open(str(small_disk / "agents.db")) as store:
        ballast.write_bytes(bytes(1_800_000))
        with pytest.raises(StoreFailedError, match="full"):
            store.run(agent, "a")
        stopped = len(done)
        assert 0 < stopped < 40
        ballast.unlink()
        assert store.run(agent, "a").result == 80_000
        # The one whose end was not recorded is repeated, as it declared; no other.
        assert len(done) - len(set(done)) <= 1
        assert sorted(set(done)) == list(range(40))
        assert store.verify("a", read_data=True).ok


def test_an_opening_that_fails_and_cannot_give_back_holds_nothing_up(tmp_path):
    class Full(Passing):
        is_full = False

        def open(self, *args, **kwargs):
            if self.is_full:
                raise StoreFailedError("full")
            return super().open(*args, **kwargs)

        def release(self, lease):
            if self.is_full:
                raise StoreFailedError("full")
            super().release(lease)

    with AgentStore(Full(open_store(tmp_path / "agents.db"))) as store:
        store.backend.is_full = True
        with pytest.raises(StoreFailedError), store.session("a"):
            pass
        store.backend.is_full = False
        with store.session("a") as s:
            s.state["n"] = 1
        assert store.state_at("a") == {"n": 1}


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("error", [StoreFailedError("the folder could not be synced"), KeyboardInterrupt("synced")])
def test_a_session_that_may_have_been_taken_is_not_held_by_nobody(is_there, is_written, error, tmp_path):
    class Failing(Passing):
        fails = False

        def open(self, *args, **given):
            if not self.fails:
                return super().open(*args, **given)
            self.fails = False
            if is_written:
                super().open(*args, **given)
            raise error

    with AgentStore(Failing(open_store(tmp_path / "agents.db"))) as store:
        if is_there:
            with store.session("a"):
                pass
        store.backend.fails = True
        with pytest.raises(type(error), match="synced"), store.session("a"):
            pass
        if is_there or is_written:
            assert not store.backend.lease("a").owner
        with store.session("a") as s:
            s.state["n"] = 1
        assert store.state_at("a") == {"n": 1}
        kinds = [entry.kind for entry in store.log("a")]
        assert kinds.count("opened") == 1
        assert kinds.count("owned") == 1 + is_there + is_written
        assert store.verify("a").ok
