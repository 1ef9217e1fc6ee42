"""What a folder remembers beside its log, in place and unsynced: how far it was durable, and the pulse of its owner.

Both are proofs in one direction only. The hint is written after a sync, so the log was at least so long once: what is
missing before it is damage, what is behind it may be a torn tail. A power cut may take it back to an older one, which
says less and is as true. One that cannot be read says nothing.
"""

from __future__ import annotations

import json
import mmap
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from perdure import syncing
from perdure.log import Base
from perdure.stores.file import disk, lines
from perdure.stores.file.commit import Commit
from perdure.stores.file.lines import Header

HINT: Final = "head.json"
PULSE: Final = "pulse.json"

_BYTES: Final = 1024
_FILE_BYTES: Final = 4096
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Hint:
    """The log was durable up to `end` of the segment with this header; there `commit` was its end."""

    header: Header
    end: int
    commit: Commit


def hint_line(header: Header, *, end: int, commit: Commit) -> bytes:
    """The hint as it is stored; spaces fill it up, so that a shorter one covers a longer one."""
    text = (
        f'{{"first":{header.first},"end":{end},"seq":{commit.seq},"epoch":{commit.epoch},"tick":{commit.tick}'
        f',"sent":{commit.sent},"chain":"{commit.chain.hex()}","owner":{lines.quoted(commit.owner)}'
        f"{_family_told(header.family, header.bases)}"
    )
    return lines.checked(text.encode(), header.session).ljust(_BYTES)


@lru_cache(maxsize=256)
def _family_told(family: str, bases: tuple[Base, ...]) -> str:
    return f',"family":{json.dumps(family)}{lines.bases_told(bases)}'


class HintFile:
    """The hint of a folder, open to be told often: by way of memory, as a write would burden the next sync."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / HINT, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if os.fstat(self._file).st_size < _FILE_BYTES:
                disk.write_at(self._file, b" " * _FILE_BYTES, 0)
            self._memory = mmap.mmap(self._file, _FILE_BYTES)
        except BaseException:
            os.close(self._file)
            raise

    def tell(self, line: bytes) -> None:
        """Makes this the hint."""
        if len(line) > _FILE_BYTES or os.fstat(self._file).st_size < _FILE_BYTES:  # cut by somebody
            disk.write_at(self._file, line.ljust(_FILE_BYTES), 0)
        else:
            self._memory[: len(line)] = line

    def sync(self) -> None:
        """What was told is durable when this returns."""
        syncing.sync(self._file)

    def close(self) -> None:
        """Gives file and memory back."""
        self._memory.close()
        os.close(self._file)


def read_hint(folder: Path, session: str) -> Hint | None:
    """The hint of a folder, None if there is none that can be read."""
    told = lines.unchecked(_first_line(folder / HINT), session)
    if told is None:
        return None
    owner = lines.unquoted(told["owner"])
    commit = Commit(told["seq"], bytes.fromhex(told["chain"]), told["epoch"], owner, told["tick"], b"", told["sent"])
    return Hint(Header(session, told["family"], told["first"], lines.bases_of(told)), told["end"], commit)


def read_pulse(folder: Path, session: str, *, epoch: int) -> int:
    """How often the lease of this epoch was renewed, as far as that is known."""
    told = lines.unchecked(_first_line(folder / PULSE), session)
    return int(told["counter"]) if told is not None and told["epoch"] == epoch else 0


def write_pulse(folder: Path, session: str, *, epoch: int, counter: int) -> None:
    """Remembers it, until a power cut."""
    line = lines.checked(f'{{"epoch":{epoch},"counter":{counter}'.encode(), session)
    write_in_place(folder / PULSE, line.ljust(_BYTES))


def write_in_place(path: Path, content: bytes) -> None:
    """Writes over the beginning of a file, which is made if it is not there; unsynced."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        disk.write_at(file, content, 0)
    finally:
        os.close(file)


def _first_line(path: Path) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(file, _READ_BYTES, 0).partition(b"\n")[0]
    finally:
        os.close(file)
