"""An object that many may change, one after another: each change is a put on condition of what its maker saw.

So of those who saw the same one wins, and the others look again. A change carries a random number, and the object has
those of the last ones: whoever does not hear what became of a put finds out by looking, and never does it twice. It
must not know what the object says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Generic, Protocol, TypeVar

from perdure import clock
from perdure.errors import DamageError, FormatNewerError, PerdureError, StoreFailedError
from perdure.stores.s3.bucket import Bucket, Found, Same, UnsureError

T = TypeVar("T")

MAGIC: Final = b"\xd5Pcell\r\n"
LAYOUT: Final = 1

_ID_BYTES: Final = 8
_IDS_COUNT_MAX: Final = 64
"""So many changes by others may come between a put and the look whether it was done."""

_FRONT: Final = len(MAGIC) + 1
_PAUSE_S: Final = 0.02


class Codec(Protocol[T]):
    """How what an object says is written."""

    def encoded(self, value: T) -> bytes:
        """The bytes."""

    def decoded(self, content: bytes) -> T:
        """Raises `ValueError` for bytes that `encoded` does not make."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """The object as it was at one moment: None, version 0 and no etag where there is none."""

    value: T | None
    version: int = 0
    etag: str | None = None
    ids: tuple[bytes, ...] = ()


class Cell(Generic[T]):
    """One object, as this process knows it. `busy_s`: how long a server that does not answer is asked again."""

    def __init__(self, bucket: Bucket, key: str, *, codec: Codec[T], busy_s: float) -> None:
        self._bucket, self._key, self._codec, self._busy_s = bucket, key, codec, busy_s
        self._changing = threading.RLock()
        self._mutex = threading.Lock()
        self._known: Seen[T] | None = None

    def look(self) -> Seen[T]:
        """The object as it is now: one small request, also if it is as it was."""
        known = self._known
        found = self._bucket.get(self._key, unless=known.etag if known is not None else None)
        if isinstance(found, Same) and known is not None:
            return self._keep(known)
        return self._keep(self._read(found) if isinstance(found, Found) else Seen(None))

    @property
    def last(self) -> Seen[T] | None:
        """The object as it was when it was last seen; None if it never was."""
        return self._known

    def known(self) -> Seen[T]:
        """The same, asked for if it was never seen."""
        return self._known or self.look()

    def change(self, work: Callable[[Seen[T]], T | None], *, to: int = 0) -> Seen[T]:
        """Puts what `work` makes of the object as it is; it is called again when somebody else was faster.

        `work` may refuse by raising, or return None to leave the object as it is; both count only for the newest. Its
        version becomes the next one, or `to` if that is higher. Durable on return: the object as it was put. Raises
        what `work` raises, and `StoreFailedError`.
        """
        end = clock.monotonic_s() + self._busy_s
        with self._changing:
            is_newest = self._known is None
            seen = self.known()
            while True:
                value, is_newest, seen = self._made(work, seen, is_newest=is_newest)
                if value is None:
                    return seen
                done = self._put(seen, value, version=max(seen.version + 1, to), end=end)
                if done is not None:
                    return done
                if clock.monotonic_s() > end:
                    raise StoreFailedError(f"{self._bucket.url}: {self._key}: others change it without rest; try again")
                seen, is_newest = self.known(), True

    def _made(
        self, work: Callable[[Seen[T]], T | None], seen: Seen[T], *, is_newest: bool
    ) -> tuple[T | None, bool, Seen[T]]:
        """What it makes of the object; what it refuses or leaves is looked at again if that was not the newest."""
        try:
            value = work(seen)
            if value is not None or is_newest:
                return value, is_newest, seen
        except StoreFailedError:
            raise
        except (PerdureError, ValueError):
            if is_newest:
                raise
        seen = self.look()
        return work(seen), True, seen

    def _put(self, seen: Seen[T], value: T, *, version: int, end: float) -> Seen[T] | None:
        """The object as it was put; None if somebody else has changed it, which is then known."""
        mine = clock.new_bytes(_ID_BYTES)
        ids = (*seen.ids, mine)[-_IDS_COUNT_MAX:]
        content = self._framed(value, version=version, ids=ids)
        while True:
            etag, failure = self._try(seen, content)
            if etag is not None:
                return self._keep(Seen(value, version, etag, ids))
            now = self._found_out(end=end)
            if mine in now.ids:
                return now
            if now.etag != seen.etag:
                return None
            if clock.monotonic_s() > end:
                raise failure or StoreFailedError(f"{self._bucket.url}: {self._key}: cannot be changed; try again")
            time.sleep(_PAUSE_S)

    def _try(self, seen: Seen[T], content: bytes) -> tuple[str | None, StoreFailedError | None]:
        try:
            if seen.etag is None:
                return self._bucket.create(self._key, content), None
            return self._bucket.replace(self._key, content, etag=seen.etag), None
        except UnsureError as error:
            return None, error.error

    def _found_out(self, *, end: float) -> Seen[T]:
        """The object as it is now, asked until the server answers. `StoreFailedError`: the outcome is unknown."""
        while True:
            try:
                return self.look()
            except StoreFailedError:
                if clock.monotonic_s() > end:
                    raise
                time.sleep(_PAUSE_S)

    def _keep(self, seen: Seen[T]) -> Seen[T]:
        """The newer of this and what is known."""
        with self._mutex:
            if self._known is None or seen.version >= self._known.version:
                self._known = seen
            return self._known

    def _framed(self, value: T, *, version: int, ids: tuple[bytes, ...]) -> bytes:
        rest = version.to_bytes(8, "big") + bytes([len(ids)]) + b"".join(ids) + self._codec.encoded(value)
        return MAGIC + bytes([LAYOUT]) + self._digest(rest) + rest

    def _digest(self, rest: bytes) -> bytes:
        return sha256(self._key.encode() + b"\0" + rest).digest()

    def _read(self, found: Found) -> Seen[T]:
        content = found.content
        if content[: len(MAGIC)] == MAGIC and content[len(MAGIC) : _FRONT] > bytes([LAYOUT]):
            raise FormatNewerError(
                f"{self._bucket.url}: {self._key} was written by a newer perdure; nothing was changed"
            )
        rest = content[_FRONT + 32 :]
        if content[:_FRONT] != MAGIC + bytes([LAYOUT]) or content[_FRONT : _FRONT + 32] != self._digest(rest):
            raise DamageError(f"{self._bucket.url}: {self._key} is not what was written")
        ids_end = 9 + rest[8] * _ID_BYTES
        ids = tuple(rest[at : at + _ID_BYTES] for at in range(9, ids_end, _ID_BYTES))
        try:
            value = self._codec.decoded(rest[ids_end:])
        except (ValueError, TypeError, IndexError) as error:
            raise DamageError(f"{self._bucket.url}: {self._key} is not what was written: {error}") from error
        return Seen(value, int.from_bytes(rest[:8], "big"), found.etag, ids)
