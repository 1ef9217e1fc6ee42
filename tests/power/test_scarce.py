"""A disk that gives no more for a while: no space, no names for new files, no longer files, no writing at all.

Whatever it is, the save that meets it says so at once, all that was acknowledged is there for any reader, and when it
is over the same handle goes on.
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.errors import PerdureError, StoreFailedError
from perdure.runtime.store import AgentStore
from perdure.stores import Batch, open_store
from perdure.testing.broken import Passing
from perdure.testing.lives import forked
from tests.power.disk import may_mount

STORES = {"sqlite": ("sqlite:///{}/agents.db", {}), "file": ("file:///{}/agents", {"segment_bytes": 50_000})}
SAVES_MAX = 600


class Scarce(ABC):
    """What becomes scarce in a folder: `options` are those of a file system of its own, `says` is in the error."""

    options = ""
    says = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def begin(self) -> None:
        """From now on there is none left."""

    @abstractmethod
    def end(self) -> None:
        """There is enough again."""


class Space(Scarce):
    options, says = "size=4m", "full"

    def begin(self) -> None:
        with (self.folder / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def end(self) -> None:
        (self.folder / "ballast").unlink()


class Names(Scarce):
    """Inodes: there is space, but no new file is made."""

    options, says = "nr_inodes=60", "full"

    def begin(self) -> None:
        with suppress(OSError):
            for number in itertools.count():
                (self.folder / f"ballast {number}").touch()

    def end(self) -> None:
        for file in self.folder.glob("ballast *"):
            file.unlink()


class Length(Scarce):
    """Of a file, as a limit of the process: what is in this way is as if the disk had said it."""

    says = "longer than is allowed|disk reports an error|full"

    def begin(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        longest = max(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest + 20_000, resource.RLIM_INFINITY))

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


KINDS: list[type[Scarce]] = [Space, Names, Length]


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder, on a file system of its own where the kind of scarcity needs one."""
    options = request.param.options
    found = tmp_path / "disk"
    found.mkdir()
    if not options:
        yield found
        return
    if not may_mount():
        pytest.skip("mounting takes root's rights")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", found], check=True)
    yield found
    subprocess.run(["umount", found], check=True)


def item(number: int) -> str:
    """Hardly shrinks."""
    return f"{number} " + os.urandom(1500).hex()


def life(open_it: Callable[[], AgentStore], scarce: Scarce) -> bytes:
    """One process: saves until there is none left, looks what is there, then goes on. What it was told."""
    told = "nothing"
    with open_it() as store, store.session("a") as s:
        log = s.state["log"] = [item(0)]
        s.save()
        acknowledged = 1
        scarce.begin()
        try:
            for number in range(1, SAVES_MAX):
                log.append(item(number))
                s.save()
                acknowledged = len(log)
        except StoreFailedError as error:
            told = str(error)
            with pytest.raises(StoreFailedError):
                s.save()
        with open_it() as other:
            assert other.state_at("a")["log"] == log[:acknowledged], "acknowledged, and not there"
        scarce.end()
        assert s.save() is not None or told == "nothing"
        assert store.state_at("a") == {"log": log}
        assert store.verify("a", read_data=True).ok
    with open_it() as store:
        assert store.state_at("a") == {"log": log}
        with store.session("b") as s:
            s.state["n"] = 1
    return told.encode()


def lived(open_it: Callable[[], AgentStore], scarce: Scarce) -> str:
    """What the process was told; raises what it raised."""
    told, status = forked(lambda: life(open_it, scarce))
    assert not status, told.decode(errors="replace")
    return told.decode()


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(("folder", "scarce"), [(kind, kind) for kind in KINDS], indirect=["folder"])
def test_the_save_says_so_and_goes_on_when_it_is_over(kind: str, scarce: type[Scarce], folder: Path) -> None:
    url, options = STORES[kind]
    told = lived(lambda: AgentStore(open_store(url.format(folder), **options)), scarce(folder))
    if kind == "sqlite" and scarce is Names:
        assert told == "nothing", "its files are there already"
    else:
        assert any(word in told for word in scarce.says.split("|")), told


class Forgives(Passing):
    """Takes a failure to write for a success."""

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        try:
            return self.right.append(session, batch, epoch=epoch, head=head)
        except StoreFailedError:
            return 0


@pytest.mark.parametrize(("folder", "scarce"), [(Length, Length)], indirect=["folder"])
def test_a_store_that_takes_a_failure_for_a_success_is_caught(scarce: type[Scarce], folder: Path) -> None:
    with pytest.raises((AssertionError, PerdureError)):
        lived(lambda: AgentStore(Forgives(open_store(folder / "agents.db"))), scarce(folder))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("folder", [Space], indirect=True)
def test_a_file_system_that_has_become_read_only_is_read(kind: str, folder: Path) -> None:
    url, options = STORES[kind]

    def opened() -> AgentStore:
        return AgentStore(open_store(url.format(folder), **options))

    with opened() as store, store.session("a") as s:
        s.state["n"] = 1
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    with opened() as store:
        assert store.state_at("a") == {"n": 1}
        assert store.verify("a", read_data=True).ok
        with pytest.raises(StoreFailedError, match="read-only"):
            store.session("a").__enter__()
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        with store.session("a") as s:
            s.state["n"] += 1
    with opened() as store:
        assert store.state_at("a") == {"n": 2}
