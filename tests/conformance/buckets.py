"""Between a store and its server: what dies at a request, lets others go first, or does not keep conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from perdure.stores.address import Address
from perdure.stores.s3 import S3Store
from perdure.stores.s3.bucket import Bucket, Found, Listed, Same
from perdure.stores.s3.place import bucket_at

R = TypeVar("R")

BEFORE, AFTER = "before", "after"
"""The process is killed before a request reaches the server; after it was done, and nobody has heard the answer."""


def bucket_of(url: str) -> Bucket:
    return bucket_at(Address.of(url), busy_s=5, timeout_s=20)


class Died(BaseException):
    """The process is gone: nothing that it would do afterwards is done."""


class Between(Bucket):
    """Hands every request on; `around` is called before and after each."""

    def __init__(self, url: str) -> None:
        found = bucket_of(url)
        super().__init__(found._place, url=found.url, hidden=found._hidden)

    def around(self, when: str) -> None:
        """What happens to the request."""

    def get(self, key: str, *, unless: str | None = None) -> Found | Same | None:
        return self._handed(lambda: super(Between, self).get(key, unless=unless))

    def ranges(self, key: str, begins: Sequence[int], ends: Sequence[int]) -> list[bytes] | None:
        return self._handed(lambda: super(Between, self).ranges(key, begins, ends))

    def put(self, key: str, content: bytes) -> None:
        return self._handed(lambda: super(Between, self).put(key, content))

    def create(self, key: str, content: bytes) -> str | None:
        return self._handed(lambda: super(Between, self).create(key, content))

    def replace(self, key: str, content: bytes, *, etag: str) -> str | None:
        return self._handed(lambda: super(Between, self).replace(key, content, etag=etag))

    def list(self, folder: str, *, after: str | None = None) -> Iterator[Listed]:
        return iter(self._handed(lambda: [*super(Between, self).list(folder, after=after)]))

    def delete(self, keys: Collection[str]) -> None:
        return self._handed(lambda: super(Between, self).delete(keys)) if keys else None

    def modified(self, key: str) -> datetime | None:
        return self._handed(lambda: super(Between, self).modified(key))

    def _handed(self, request: Callable[[], R]) -> R:
        self.around(BEFORE)
        result = request()
        self.around(AFTER)
        return result


class Dying(Between):
    """Once armed, dies at the request of this number, and is dead from then on."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._at, self._how, self._seen, self.is_dead = 0, "", {BEFORE: 0, AFTER: 0}, False

    def arm(self, at: int, how: str) -> None:
        self._at, self._how, self._seen = at, how, {BEFORE: 0, AFTER: 0}

    def around(self, when: str) -> None:
        self._seen[when] += 1
        if self.is_dead or (self._seen[when] == self._at and when == self._how):
            self.is_dead = True
            raise Died


class Yielding(Between):
    """Once armed, lets somebody else do something before the request of this number, once."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._at, self._other, self._seen = 0, lambda: None, 0
        self.has_yielded = False

    def arm(self, at: int, other: Callable[[], None]) -> None:
        self._at, self._other, self._seen, self.has_yielded = at, other, 0, False

    def around(self, when: str) -> None:
        if when == BEFORE:
            self._seen += 1
            if self._seen == self._at and not self.has_yielded:
                self.has_yielded = True
                self._other()


class DeafToNone(Bucket):
    """A server that makes nothing of `If-None-Match: *`."""

    def create(self, key: str, content: bytes) -> str | None:
        self.put(key, content)
        found = self.get(key)
        return found.etag if isinstance(found, Found) else None


class DeafToMatch(Bucket):
    """A server that makes nothing of `If-Match`."""

    def replace(self, key: str, content: bytes, *, etag: str) -> str | None:
        self.put(key, content)
        found = self.get(key)
        return found.etag if isinstance(found, Found) else None


def deaf(kind: type[Bucket], url: str) -> Bucket:
    found = bucket_of(url)
    return kind(found._place, url=found.url, hidden=found._hidden)


def on(bucket: Bucket) -> S3Store:
    return S3Store(bucket, busy_s=5)
