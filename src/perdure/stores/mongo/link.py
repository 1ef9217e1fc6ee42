"""The way to one database, and what happens when it breaks: a broken connection is replaced, and the work done again.

So whatever is handed to `use` must bear being done twice: it looks whether it was done before it does it again. Every
write waits until most of the set have it on their disks. It knows the names of the collections and nothing of what is
in them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, Final, TypeAlias, TypeVar

from bson.errors import BSONError
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    InvalidName,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern

from perdure import clock
from perdure.errors import LimitError, PerdureError, ProcessForkedError, StoreFailedError, StoreUrlError
from perdure.stores import refusals
from perdure.stores.address import Address

T = TypeVar("T")
Doc: TypeAlias = dict[str, Any]
Documents: TypeAlias = Collection[Doc]

OWN_OPTIONS: Final = frozenset({"busy_s"})
"""Options of a URL that are for the store and not for the driver."""

NO_SUCH_COMMAND: Final = 59
_TOO_LARGE: Final = frozenset({2, 10334, 17280, 17419, 17420})
"""Codes of a document beyond 16 MB, as it came or as a change would have made it. 2, a bad value, says so in words."""

_AGAIN: Final = frozenset({6, 7, 64, 89, 91, 112, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""Codes of what passes: an election, a server that goes down or comes up, two writes that met, a wait that was over."""

_PAUSE_S: Final = 0.005
_PAUSE_S_MAX: Final = 0.25


class Link:
    """The database that an address names. A piece of work may take `busy_s` until the place answers again."""

    def __init__(self, address: Address, *, busy_s: float) -> None:
        self.url, self.busy_s = address.shown, busy_s
        self._address, self._pid, self._closed = address, os.getpid(), False
        self._never, self._told = Event(), _Told(self)
        with self._told:
            self.client: MongoClient[Doc] = MongoClient(address.without(OWN_OPTIONS), **_settings(address, busy_s))
            self.database = self._opened(address.path)
            self.sessions = self.database["perdure_sessions"]
            self.records = self.database["perdure_records"]
            self.index = self.database["perdure_index"]
            self.parts = self.database["perdure_parts"]
            self.sent = self.database["perdure_sent"]
            self.chunks = self.database["perdure_chunks"]
            self.families = self.database["perdure_families"]
            self.place = self.database["perdure_place"]

    def _opened(self, name: str) -> Database[Doc]:
        write = WriteConcern(w="majority", j=True, wtimeout=max(1, int(self.busy_s * 1000)))
        read, primary = ReadConcern("majority"), ReadPreference.PRIMARY
        try:
            return self.client.get_database(name, read_preference=primary, read_concern=read, write_concern=write)
        except BaseException:
            self.client.close()
            raise

    def use(self, work: Callable[[], T]) -> T:
        """What the work returns. Done again, from its beginning, when the connection broke under it or was refused.

        Raises `StoreFailedError` when that goes on for longer than `busy_s`, and for what will not pass.
        """
        patience = self.patience()
        while True:
            self.check()
            try:
                with self._told:
                    return work()
            except PassingError as error:
                patience.wait(error)

    def patience(self) -> Patience:
        """How long one waits for what passes, from now on."""
        return Patience(self, self._never)

    def check(self) -> None:
        """Raises on a closed store, and in a process that was forked from the one that opened it."""
        if os.getpid() != self._pid:
            raise ProcessForkedError(f"{self.url}: was opened before os.fork(); open it again in this process")
        if self._closed:
            raise refusals.closed(self.url)

    def close(self) -> None:
        """Gives the connections back; in a forked child they are the parent's."""
        if os.getpid() == self._pid and not self._closed:
            self._closed = True
            self.client.close()

    def said(self, error: BaseException) -> str:
        """What the driver said, on one line and without passwords."""
        said = re.split(r", full error|, Timeout: | \(configured timeouts", str(error))[0]
        return self._address.hidden(" ".join(said.split()))

    def failed(self, why: object) -> StoreFailedError:
        """For what the place could not do."""
        return StoreFailedError(f"{self.url}: {why}")

    def meaning(self, error: BaseException) -> PerdureError | None:
        """What a store raises instead of what the driver raised; None: it is to be left as it is."""
        if isinstance(error, (ConfigurationError, InvalidName)):
            return StoreUrlError(f"{self.url}: {self.said(error)}")
        if isinstance(error, (DocumentTooLarge, BSONError, OverflowError)):
            return _too_large(self.url)
        if not isinstance(error, PyMongoError):
            return None
        if passes(error):
            return PassingError(error)
        return _too_large(self.url) if is_too_large(error) else self.failed(self.said(error))


class _Told:
    """While it is entered, what the driver raises becomes what a store raises."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        meaning = self._link.meaning(error) if error is not None else None
        if meaning is not None:
            raise meaning from error


class Patience:
    """Waits a little longer each time, until `busy_s` are over."""

    def __init__(self, link: Link, never: Event) -> None:
        self._link, self._never = link, never
        self._until_s, self._pause_s = clock.monotonic_s() + link.busy_s, _PAUSE_S

    def wait(self, error: BaseException | str) -> None:
        """Returns when it is time to try again. Raises `StoreFailedError` when that has gone on for too long."""
        cause = error.__cause__ if isinstance(error, PassingError) else None
        left_s = self._until_s - clock.monotonic_s()
        if left_s <= 0 or isinstance(cause, ServerSelectionTimeoutError):
            why = self._link.said(cause) if cause is not None else error
            raise self._link.failed(f"did not come to an end within {self._link.busy_s:g} s: {why}") from cause
        self._never.wait(min(self._pause_s * (0.5 + clock.new_random()), left_s))
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)


class PassingError(PerdureError):
    """What may be better in a moment. Its cause is the driver's error."""


def passes(error: PyMongoError) -> bool:
    """Whether what failed may be done in a moment, or is done already and only its reply was lost."""
    if isinstance(error, ConnectionFailure):
        return True
    if isinstance(error, BulkWriteError):
        details: Mapping[str, Any] = error.details or {}
        return any(one.get("code") in _AGAIN for one in [*details["writeErrors"], *details["writeConcernErrors"]])
    return isinstance(error, OperationFailure) and (
        error.code in _AGAIN or error.has_error_label("RetryableWriteError")
    )


def is_too_large(error: PyMongoError) -> bool:
    """Whether a document was, or would have become, longer than the server bears."""
    if isinstance(error, BulkWriteError):
        written = (error.details or {}).get("writeErrors", ())
        return any(_says_too_large(one.get("code"), str(one.get("errmsg", ""))) for one in written)
    return isinstance(error, OperationFailure) and _says_too_large(error.code, str(error))


def _says_too_large(code: int | None, said: str) -> bool:
    return code in _TOO_LARGE and (code != 2 or "large" in said.lower())


def _too_large(url: str) -> LimitError:
    return LimitError(
        f"{url}: one document would be longer than MongoDB's 16 MB: too many records, points or marks in one batch; "
        "nothing was written. Write them in several batches"
    )


def _settings(address: Address, busy_s: float) -> dict[str, Any]:
    wait_ms = max(1, int(busy_s * 1000))
    given: dict[str, Any] = {
        "appname": "perdure",
        "retryWrites": False,  # what was done is found by looking, also where the driver would not try again
        "serverSelectionTimeoutMS": wait_ms,
        "connectTimeoutMS": wait_ms,
        "socketTimeoutMS": 2 * wait_ms,
    }
    if (password := address.password) is not None:
        given |= {"username": address.user, "password": password}
    return given
