"""The requests that a store makes: get, put on a condition, list, delete; nothing else goes to the server.

Each method is one request, or says how many. It must not know what is in an object. What the driver raises becomes
`StoreFailedError`, without a password in it, or `UnsureError` where a put may have been done all the same.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import obstore
from obstore import exceptions

from perdure.errors import LimitError, ProcessForkedError, StoreFailedError

PUT_BYTES_MAX: Final = 5 << 30
"""What S3 takes in one put."""

_DENIED: Final = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
_OWN_ROLE: Final = "http://169.254.169.254"
"""Where the driver looks last: whether the machine has a role of its own."""

_CODE: Final = re.compile(r"<Code>(.*?)</Code>")
_MESSAGE: Final = re.compile(r"<Message>(.*?)</Message>")
_FAILED: Final = (exceptions.BaseError, OSError, ValueError)


_first_user = 0
"""The process that first asked a server. The driver's threads live in that one, and not in those forked from it."""


class UnsureError(Exception):
    """A put whose outcome is not known: `error` is what is told if it cannot be found out."""

    def __init__(self, error: StoreFailedError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was read, with what a condition on it needs."""

    content: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing: its key, its length in bytes."""

    key: str
    size: int


class Same:
    """What `get` answers for an object that is as it was."""


SAME: Final = Same()


class Bucket:
    """One prefix of one bucket. `requests` counts what was asked, by kind; safe from any thread."""

    def __init__(self, place: Any, *, url: str, hidden: Callable[[object], str]) -> None:
        _check_process(url)
        self.url, self._place, self._hidden = url, place, hidden
        self.requests: Counter[str] = Counter()
        self._counting = threading.Lock()

    def get(self, key: str, *, unless: str | None = None) -> Found | Same | None:
        """The object; None if there is none, `SAME` if it has still the etag `unless`."""
        with self._asking("get", key):
            try:
                result = obstore.get(self._place, key, options={"if_none_match": unless} if unless else None)
                content = bytes(result.bytes())
            except FileNotFoundError:
                return None
            except exceptions.NotModifiedError:
                return SAME
            return Found(content, result.meta["e_tag"] or "")

    def read(self, key: str) -> bytes | None:
        """The object's bytes; None if there is none."""
        found = self.get(key)
        return found.content if isinstance(found, Found) else None

    def ranges(self, key: str, begins: Sequence[int], ends: Sequence[int]) -> list[bytes] | None:
        """Pieces of an object, those that are near one another in one request; None if it is not there."""
        with self._asking("get", key):
            try:
                return [bytes(piece) for piece in obstore.get_ranges(self._place, key, starts=begins, ends=ends)]
            except FileNotFoundError:
                return None

    def put(self, key: str, content: bytes) -> None:
        """Puts the object, whatever is there. For what is the same whoever puts it."""
        with self._asking("put", key):
            _check_size(key, content)
            obstore.put(self._place, key, content, use_multipart=False)

    def create(self, key: str, content: bytes) -> str | None:
        """Puts the object if there is none: its etag. None: there is one. Raises `UnsureError`."""
        return self._conditional(key, content, "create")

    def replace(self, key: str, content: bytes, *, etag: str) -> str | None:
        """Puts the object in the place of one with this etag: the new etag. None: it is another. As `create`."""
        return self._conditional(key, content, {"e_tag": etag})

    def _conditional(self, key: str, content: bytes, mode: Any) -> str | None:
        self._count("put")
        _check_size(key, content)
        try:
            return obstore.put(self._place, key, content, mode=mode)["e_tag"]
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            return None
        except (*_DENIED, exceptions.NotSupportedError, FileNotFoundError) as error:
            raise self._failure(key, error) from error
        except _FAILED as error:
            raise UnsureError(self._failure(key, error)) from error

    def list(self, folder: str, *, after: str | None = None) -> Iterator[Listed]:
        """The objects under a folder, by key, from the one behind `after`; a request for each 1,000 of them."""
        with self._asking("list", folder):
            pages = iter(obstore.list(self._place, folder or None, offset=after, chunk_size=1000))
        while True:
            with self._failing(folder):
                page = next(pages, None)
            if page is None:
                return
            for found in page:
                yield Listed(found["path"], found["size"])

    def exists(self) -> bool:
        """Whether there is such a bucket: some servers make it with the first put."""
        try:
            next(self.list(""), None)
        except StoreFailedError as error:
            if "NoSuchBucket" not in str(error):
                raise
            return False
        return True

    def delete(self, keys: Collection[str]) -> None:
        """Removes these objects, a request for each 1,000 of them. One that is not there is no error."""
        if keys:
            with self._asking("delete", next(iter(keys))):
                obstore.delete(self._place, list(keys))

    def modified(self, key: str) -> datetime | None:
        """When the server says that the object was put, by its own clock; None if there is none."""
        with self._asking("get", key):
            try:
                return obstore.head(self._place, key)["last_modified"]
            except FileNotFoundError:
                return None

    def keeps_versions(self, key: str) -> bool:
        """Whether the bucket keeps what was replaced: puts the object, and looks what the server says of it."""
        with self._asking("put", key):
            return obstore.put(self._place, key, b"")["version"] is not None

    @contextmanager
    def _asking(self, kind: str, key: str) -> Iterator[None]:
        self._count(kind)
        with self._failing(key):
            yield

    @contextmanager
    def _failing(self, key: str) -> Iterator[None]:
        try:
            yield
        except _FAILED as error:
            raise self._failure(key, error) from error

    def _failure(self, key: str, error: Exception) -> StoreFailedError:
        if isinstance(error, _DENIED):
            return StoreFailedError(f"{self.url}: the server does not let us at {key}: {self._said(error)}")
        if _OWN_ROLE in str(error):
            return StoreFailedError(
                f"{self.url}: no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give them "
                "with the URL, or say anonymous=true"
            )
        if isinstance(error, FileNotFoundError):
            return StoreFailedError(f"{self.url}: there is no such bucket; make it, perdure does not")
        return StoreFailedError(f"{self.url}: {key}: {self._said(error)}")

    def _said(self, error: Exception) -> str:
        """What the driver says, in one line and without what it says of itself."""
        said = str(error).partition("\n\nDebug source:")[0]
        code, message = _CODE.search(said), _MESSAGE.search(said)
        if code is not None:
            said = f"{code[1]}: {message[1] if message is not None else ''}"
        return self._hidden(" ".join(said.split()))

    def _count(self, kind: str) -> None:
        with self._counting:
            self.requests[kind] += 1


def _check_process(url: str) -> None:
    global _first_user  # noqa: PLW0603 - of the process, as the driver's threads are
    _first_user = _first_user or os.getpid()
    if _first_user != os.getpid():
        raise ProcessForkedError(
            f"{url}: this process was forked from one that had used an object store, which the driver does not bear; "
            "start it by spawn"
        )


def _check_size(key: str, content: bytes) -> None:
    if len(content) > PUT_BYTES_MAX:
        raise LimitError(f"{key}: {len(content):,} bytes in one batch; S3 takes {PUT_BYTES_MAX:,} in one put")
