"""Where a witness keeps what it is told: a file, or what somebody else provides. It keeps lines and judges none."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from perdure import faults, limits, syncing
from perdure.errors import WitnessFailedError
from perdure.syncing import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


@runtime_checkable
class Witness(Protocol):
    """What a store can be opened with as its witness. One witness belongs to one store.

    Its methods are called one at a time, and may raise anything: that is reported, and tried again.
    """

    def tell(self, lines: Sequence[str], /) -> None:
        """Keeps these lines, each ASCII without a line feed; durable on return."""

    def told(self) -> Iterable[str]:
        """The lines that it was told, in order, by whoever: all at the first call, then at least the new ones."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A witness that has something to give back."""

    def close(self) -> None:
        """Called once, when nothing more is told."""


class Listener:
    """A function that is told, and cannot be asked: what it is told is compared by whoever gets it."""

    def __init__(self, function: Callable[[Sequence[str]], object]) -> None:
        self._function = function

    def tell(self, lines: Sequence[str], /) -> None:
        """See `Witness.tell`."""
        self._function(lines)

    def told(self) -> Iterable[str]:
        """See `Witness.told`."""
        return ()


class FileWitness:
    """Lines at the end of a file, synced before `tell` returns. Any number of processes of one machine may have it.

    `fold` leaves of all lines those that count: with it the file is written anew when most of it is of no use.
    """

    def __init__(self, path: str | os.PathLike[str], *, fold: Callable[[list[str]], list[str]]) -> None:
        self.path, self._fold = Path(path).absolute(), fold
        self._read = (0, 0)
        self._kept_bytes = 0

    def tell(self, lines: Sequence[str], /) -> None:
        """See `Witness.tell`."""
        with self._locked() as file:
            os.ftruncate(file, _whole(os.pread(file, os.fstat(file).st_size, 0)))  # what a kill left half written
            os.lseek(file, 0, os.SEEK_END)
            faults.reach("witness.before")
            _write(file, "".join(f"{line}\n" for line in lines).encode("ascii"))
            syncing.sync(file)
            if os.fstat(file).st_size > max(limits.WITNESS_BYTES, 2 * self._kept_bytes):
                self._write_anew(file)

    def told(self) -> Iterable[str]:
        """See `Witness.told`."""
        try:
            with self.path.open("rb") as file:
                inode, place = self._read
                status = os.fstat(file.fileno())
                if status.st_ino != inode or status.st_size < place:
                    place = 0
                file.seek(place)
                content = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(self.path, error) from error
        content = content[: _whole(content)]
        self._read = (status.st_ino, place + len(content))
        return content.decode("ascii", "replace").splitlines()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, open and locked, made if it is not there; its name is durable."""
        while True:
            try:
                is_new = not self.path.exists()
                file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise _failed(self.path, error) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file).st_nlink:  # else another process has written it anew meanwhile
                    if is_new:
                        syncing.sync_folder(self.path.parent)
                    yield file
                    return
            except OSError as error:
                raise _failed(self.path, error) from error
            finally:
                os.close(file)

    def _write_anew(self, old: int) -> None:
        """Puts a file of only those lines that count in the place of this one, whose lock is held."""
        lines = os.pread(old, os.fstat(old).st_size, 0).decode("ascii", "replace").splitlines()
        content = "".join(f"{line}\n" for line in self._fold(lines)).encode("ascii")
        self._kept_bytes = len(content)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _write(file, content)
            syncing.sync(file)
        finally:
            os.close(file)
        faults.reach("witness.inside")
        temporary.rename(self.path)
        syncing.sync_folder(self.path.parent)


def _whole(content: bytes) -> int:
    """How much of it is whole lines."""
    return content.rfind(b"\n") + 1


def _write(file: int, content: bytes) -> None:
    done = 0
    while done < len(content):
        done += os.write(file, content[done:])


def _failed(path: Path, error: OSError) -> WitnessFailedError:
    return WitnessFailedError(f"the witness {path}: {error.strerror or error}")
