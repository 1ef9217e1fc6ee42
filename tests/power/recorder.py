"""A disk that writes down what it is told: each write and each flush, in order, in a log beside it.

The disk is one file, which the kernel reaches through FUSE; a file system on a loop device lies on top. Started as
`python -S -E recorder.py IMAGE LOG PLACE FROM TO`: PLACE, an empty file, then shows IMAGE, and LOG grows. It says
`ready`, and ends when PLACE is unmounted. It speaks the kernel's protocol itself, the few requests that one file needs,
so that the bench needs nothing but root's rights. It knows no file system and no store.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable
from typing import Final

ENTRY: Final = struct.Struct("<qI")
"""Before each entry of the log: where in the image, and how many bytes follow. `FLUSH` stands for a flush."""

FLUSH: Final = -1

TRAP: Final = ".fail"
"""A file of the log's name with this behind it makes the next write outside of FROM to TO fail; then it is gone."""

_ASKED: Final = struct.Struct("<IIQQIIIHH")
_ANSWERED: Final = struct.Struct("<IiQ")
_WRITE: Final = struct.Struct("<QQIIQII")
_READ: Final = struct.Struct("<QQI")
_ATTRIBUTES: Final = struct.Struct("<QII6Q10I")
_OPENED: Final = struct.Struct("<QII")
_AGREED: Final = struct.Struct("<4I2H2I2H2I24x")
_SIZED: Final = struct.Struct("<II")

_VERSION: Final = (7, 31)
_DIRECT_IO: Final = 1
_FLAGS: Final = 1 << 5 | 1 << 22
"""Writes longer than a page; the number of pages is agreed."""

_PAGES: Final = 256
_REQUEST_BYTES: Final = 4096 * (_PAGES + 2)
_NO_ANSWER: Final = (2, 36, 42)


class Recorder:
    """Serves the one file. An entry is logged before it is answered, so the length of the log is a point in time."""

    def __init__(self, image: str, log: str, spared: range) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._trap, self._spared = log + TRAP, spared
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._answers: dict[int, Callable[[bytes], bytes]] = {
            # The numbers of the protocol (linux/fuse.h), from GETATTR to DESTROY.
            3: self._attributes,
            4: self._attributes,
            14: lambda _: _OPENED.pack(0, _DIRECT_IO, 0),
            15: self._read,
            16: self._write,
            18: lambda _: b"",
            20: self._flush,
            25: lambda _: b"",
            26: lambda _: _AGREED.pack(*_VERSION, 0, _FLAGS, 1, 1, 4096 * _PAGES, 1, _PAGES, 0, 0, 0),
            38: lambda _: b"",
        }

    def serve(self, kernel: int) -> None:
        """Answers until the place is unmounted."""
        while True:
            try:
                asked = os.read(kernel, _REQUEST_BYTES)
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno == errno.ENOENT:  # the request was taken back
                    continue
                if error.errno == errno.ENODEV:
                    return
                raise
            self._serve_one(kernel, asked)

    def _serve_one(self, kernel: int, asked: bytes) -> None:
        _, kind, number, *_ = _ASKED.unpack_from(asked)
        if kind in _NO_ANSWER:
            return
        content, failure = b"", 0
        try:
            content = self._answers.get(kind, _unknown)(asked[_ASKED.size :])
        except OSError as error:
            failure = -(error.errno or errno.EIO)
        os.write(kernel, _ANSWERED.pack(_ANSWERED.size + len(content), failure, number) + content)

    def _attributes(self, _: bytes) -> bytes:
        size = os.fstat(self._image).st_size
        return _ATTRIBUTES.pack(
            60, 0, 0, 1, size, size // 512, 0, 0, 0, 0, 0, 0, stat.S_IFREG | 0o600, 1, *[0] * 3, 4096, 0
        )

    def _read(self, asked: bytes) -> bytes:
        _, offset, size = _READ.unpack_from(asked)
        return os.pread(self._image, size, offset)

    def _write(self, asked: bytes) -> bytes:
        _, offset, size, *_ = _WRITE.unpack_from(asked)
        if offset not in self._spared:
            self._fail_if_told()
        content = asked[_WRITE.size : _WRITE.size + size]
        os.pwrite(self._image, content, offset)
        os.writev(self._log, [ENTRY.pack(offset, size), content])
        return _SIZED.pack(size, 0)

    def _flush(self, _: bytes) -> bytes:
        os.write(self._log, ENTRY.pack(FLUSH, 0))
        return b""

    def _fail_if_told(self) -> None:
        try:
            os.unlink(self._trap)  # noqa: PTH108 - as little as possible, at each write
        except FileNotFoundError:
            return
        raise OSError(errno.EIO, "told to fail")


def _unknown(_: bytes) -> bytes:
    raise OSError(errno.ENOSYS, "not needed")


def mount(place: str) -> int:
    """Mounts a file over the file at this place; returns the kernel's end of it."""
    kernel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={kernel},rootmode={stat.S_IFREG:o},user_id=0,group_id=0"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"recorder", os.fsencode(place), b"fuse", 0, options.encode()):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), place)
    return kernel


if __name__ == "__main__":
    served = Recorder(sys.argv[1], sys.argv[2], range(*map(int, sys.argv[4:])))
    end = mount(sys.argv[3])
    os.write(1, b"ready\n")
    served.serve(end)
