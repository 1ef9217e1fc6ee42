"""The content of files on its way into chunks: read in pieces, addressed, put where an equal one is, or packed.

A file is cut at multiples of `limits.WORKSPACE_PIECE_BYTES`. Pieces that are all zero are left out, so that a hole
costs nothing; what is shorter than a piece shares a chunk with others. A content address is SHA-256: of the bytes,
where one piece is the whole file, else over place, length and SHA-256 of each piece.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from perdure import faults, limits, values
from perdure.state.chunks import Load, opened_as
from perdure.workspace.entry import FILE, Entry, Piece
from perdure.workspace.place import Place

PIECE_BYTES: Final = limits.WORKSPACE_PIECE_BYTES
ALONE_BYTES: Final = PIECE_BYTES // 2
"""A piece that is so long has a chunk of its own."""

_ZEROS: Final = bytes(PIECE_BYTES)


def pieces_of(fd: int, size: int, *, is_sparse: bool) -> Iterator[tuple[int, bytes]]:
    """Where each piece of an open file begins, and what is in it, without those that are all zero."""
    at = 0
    while at < size:
        if is_sparse:
            at = _next_data(fd, at, size)
            if at >= size:
                return
        data = _read(fd, at, min(PIECE_BYTES, size - at))
        if not data:
            return
        if data != _ZEROS[: len(data)]:
            yield at, data
        at += PIECE_BYTES


def _next_data(fd: int, at: int, size: int) -> int:
    """Where the piece begins in which there is data again."""
    try:
        return os.lseek(fd, at, os.SEEK_DATA) // PIECE_BYTES * PIECE_BYTES
    except OSError:  # there is none
        return size


def _read(fd: int, at: int, length: int) -> bytes:
    data = os.pread(fd, length, at)
    while 0 < len(data) < length:
        more = os.pread(fd, length - len(data), at + len(data))
        if not more:
            break
        data += more
    return data


def content_of(pieces: Iterable[tuple[int, int, bytes]], size: int) -> bytes:
    """The content address, from where each piece is, its length and its SHA-256."""
    found = list(pieces)
    if len(found) == 1 and found[0][:2] == (0, size):
        return found[0][2]
    whole = sha256()
    for at, length, digest in found:
        whole.update(at.to_bytes(8) + length.to_bytes(8) + digest)
    return whole.digest()


def content_in(fd: int, size: int) -> bytes:
    """The content address of an open file of this size; nothing is kept."""
    found = ((at, len(data), sha256(data).digest()) for at, data in pieces_of(fd, size, is_sparse=True))
    return content_of(found, size)


@dataclass(slots=True)
class Read:
    """A file that was read: its content address, and its pieces once the packs that they are in are sealed."""

    size: int
    content: bytes
    slots: list[tuple[int, int, _Chunk, int, bytes]] = field(default_factory=list)
    known: tuple[Piece, ...] | None = None

    def pieces(self) -> tuple[Piece, ...]:
        """Where its pieces are. Only after `Packing.finish`."""
        if self.known is not None:
            return self.known
        several = len(self.slots) > 1
        return tuple(
            Piece(at, length, chunk.address, within, digest if several or at else b"")
            for at, length, chunk, within, digest in self.slots
        )


@dataclass(slots=True)
class _Chunk:
    """A chunk that pieces are put in, and its address when it is sealed."""

    parts: list[bytes] = field(default_factory=list)
    length: int = 0
    address: bytes = b""


class Packing:
    """Puts the content of files into chunks, once each, and those into the place as they fill up."""

    def __init__(self, place: Place, known: set[bytes]) -> None:
        self.place, self.known = place, known
        self.read_bytes = 0
        self.new_bytes = 0
        self._by_content: dict[tuple[bytes, int], tuple[Piece, ...] | Read] = {}
        self._by_piece: dict[tuple[bytes, int], tuple[_Chunk, int]] = {}
        self._fresh: list[tuple[bytes, int]] = []
        self._open = _Chunk()
        self._new: dict[bytes, bytes] = {}
        self._waiting = 0

    def knows(self, entry: Entry) -> None:
        """Remembers where the content of this file is, as long as it is there."""
        if entry.kind == FILE and self.has(entry):
            self._by_content[entry.content, entry.size] = entry.pieces

    def has(self, entry: Entry) -> bool:
        """Whether all that this file is made of is there."""
        return all(piece.chunk in self.known for piece in entry.pieces)

    def read(self, fd: int, size: int, *, is_sparse: bool, old: Entry | None, check: Callable[[], None]) -> Read:
        """Reads an open file; `check` is called before each piece and may raise."""
        before = {} if old is None else {p.digest: p for p in old.pieces if p.digest and p.chunk in self.known}
        taken: list[tuple[int, int, bytes, bytes]] = []
        for at, data in pieces_of(fd, size, is_sparse=is_sparse):
            check()
            self.read_bytes += len(data)
            digest = sha256(data).digest()
            taken.append((at, len(data), digest, data))
            if len(taken) > 1 or at or len(data) == PIECE_BYTES < size:
                return self._read_long(fd, size, is_sparse=is_sparse, before=before, check=check)
        content = content_of((piece[:3] for piece in taken), size)
        known = self._by_content.get((content, size))
        if isinstance(known, Read):
            return known
        if known is not None:
            return Read(size, content, known=known)
        found = Read(size, content, [self._put(*piece) for piece in taken])
        self._by_content[content, size] = found
        self._fresh.append((content, size))
        return found

    def _read_long(
        self, fd: int, size: int, *, is_sparse: bool, before: dict[bytes, Piece], check: Callable[[], None]
    ) -> Read:
        """A file of more than one piece, of which never much more than one is in memory."""
        found = Read(size, b"")
        for at, data in pieces_of(fd, size, is_sparse=is_sparse):
            check()
            self.read_bytes += len(data)
            digest = sha256(data).digest()
            old = before.get(digest)
            if old is not None and old.length == len(data):
                found.slots.append((at, len(data), _Chunk(address=old.chunk), old.within, digest))
            else:
                found.slots.append(self._put(at, len(data), digest, data))
        found.content = content_of(((at, length, digest) for at, length, _, _, digest in found.slots), size)
        return found

    def _put(self, at: int, length: int, digest: bytes, data: bytes) -> tuple[int, int, _Chunk, int, bytes]:
        known = self._by_piece.get((digest, length))
        if known is None:
            if length >= ALONE_BYTES:
                chunk, within = _Chunk([data], length), 0
                self._seal(chunk)
            else:
                if self._open.length + length > PIECE_BYTES:
                    self._close()
                chunk, within = self._open, self._open.length
                chunk.parts.append(data)
                chunk.length += length
            known = self._by_piece[digest, length] = chunk, within
        return at, length, *known, digest

    def _close(self) -> None:
        if self._open.parts:
            self._seal(self._open)
        self._open = _Chunk()

    def _seal(self, chunk: _Chunk) -> None:
        chunk.address = self.add(values.encode(b"".join(chunk.parts)))
        chunk.parts = []

    def add(self, data: bytes) -> bytes:
        """Puts an encoded value into a chunk of its own; its address."""
        frame = values.seal(data, codec=values.DEFAULT, chunk=True)
        digest = values.address(frame)
        if digest not in self.known:
            self._new[digest] = frame
            self.known.add(digest)
            self._waiting += len(frame)
            self.new_bytes += len(frame)
            if self._waiting >= limits.WORKSPACE_BATCH_BYTES:
                self.flush()
        return digest

    def flush(self) -> None:
        """Puts what waits into the place; durable on return."""
        if self._new:
            faults.reach("capture.chunks")
            new, self._new, self._waiting = self._new, {}, 0
            try:
                self.place.put(new)
            except BaseException:
                self.known.difference_update(new)
                raise

    def finish(self) -> None:
        """Seals the last pack: from then on all pieces have their places."""
        self._close()
        for key in self._fresh:
            found = self._by_content[key]
            if isinstance(found, Read):
                self._by_content[key] = found.pieces()
        self._fresh = []

    def forget(self) -> None:
        """Gives up what was read since the last `finish`: its chunks may not have been put."""
        self.known.difference_update(self._new)
        self._new, self._waiting, self._open = {}, 0, _Chunk()
        for key in self._fresh:
            self._by_content.pop(key, None)
        self._fresh, self._by_piece = [], {}


def data_of(piece: Piece, load: Load) -> bytes:
    """The bytes of a piece. Raises `DamageError`."""
    return bytes(opened_as(bytes, piece.chunk, load)[piece.within : piece.within + piece.length])
