"""The chunks of a family, a file each, named by its address: there when it has its name, and then whole and synced.

It knows no sessions, and does not look whether a content has its address.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from perdure import syncing
from perdure.stores.file import disk

_SUFFIX: Final = ".chunk"


def put(family: Path, chunks: Mapping[bytes, bytes]) -> list[bytes]:
    """Keeps these, durably; returns the addresses of those that were not there. A damaged one is replaced."""
    if not chunks:
        return []
    if not family.is_dir():
        _make(family)
    added = []
    for digest, content in chunks.items():
        path = _path(family, digest)
        if not path.exists():
            added.append(digest)
        if not (path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content):
            disk.replace(path, content)
    syncing.sync_folder(family)
    return added


def _make(family: Path) -> None:
    """The folder is there, durably, or not at all."""
    family.mkdir(exist_ok=True)
    try:
        syncing.sync_folder(family.parent)
    except OSError:
        with suppress(OSError):
            family.rmdir()  # unless somebody else has put something into it
        raise


def get(family: Path, digest: bytes) -> bytes | None:
    """The content at an address, None if there is none."""
    try:
        return _path(family, digest).read_bytes()
    except FileNotFoundError:
        return None


def sizes(family: Path) -> dict[bytes, int]:
    """The address of each, and its length in bytes."""
    if not family.is_dir():
        return {}
    return {bytes.fromhex(path.stem): path.stat().st_size for path in family.glob(f"[0-9a-f]*{_SUFFIX}")}


def drop(family: Path, digests: Collection[bytes]) -> None:
    """Removes these, durably."""
    if not family.is_dir():
        return
    for digest in digests:
        _path(family, digest).unlink(missing_ok=True)
    clean(family)


def clean(family: Path) -> None:
    """Removes what processes that died have left half written. The caller lets nobody write there meanwhile."""
    for left in family.glob(".*.tmp"):
        left.unlink(missing_ok=True)
    syncing.sync_folder(family)


def _path(family: Path, digest: bytes) -> Path:
    return family / (digest.hex() + _SUFFIX)
