"""How what is asked is brought to the server: written once, whatever happens to the connection, and judged each.

What was refused is looked at, for the reason. After a reply that was lost, what is refused may be refused because it
was written: then our own record stands there. Nothing is written twice, as each writing names the end of its log.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import psycopg

from perdure import faults
from perdure.errors import PerdureError, SessionErasedError, StoreFailedError
from perdure.stores.postgres import failures, rows
from perdure.stores.postgres.connection import Connection, Lend
from perdure.stores.postgres.server import Patience, Server
from perdure.stores.postgres.statements import Statements
from perdure.stores.postgres.writing import Append, Asked, spoiled, statement, verdict

_TRIES: Final = 50
"""Whoever needs nobody to hold the session may find it held, and free again when it looks why."""

_TOGETHER_BYTES: Final = 4 << 20
"""What is longer goes alone: nobody else waits for it."""

Outcome = Callable[[Asked, Any], None]
"""Told of each what it comes to; an exception is one that it raises."""


class Delivery:
    """To this server. `lend` gives a connection for a while."""

    def __init__(self, server: Server, sql: Statements, *, lend: Lend, channel: str) -> None:
        self._server, self._sql, self._lend, self._channel = server, sql, lend, channel

    def one(self, asked: Asked) -> Any:
        """What it comes to, or its verdict."""
        told: list[Any] = []
        self.all([asked], lambda _, outcome: told.append(outcome))
        if isinstance(told[0], Exception):
            raise told[0]
        return told[0]

    def all(self, asked: Sequence[Asked], tell: Outcome, *, trying: Callable[[Asked], None] = lambda _: None) -> None:
        """Brings one of any kind, or any number of appends; those of one session follow one another."""
        try:
            for some in _together(asked) if len(asked) > 1 else [[*asked]]:
                self._bring(some, tell, trying)
        except BaseException:  # none of them has been heard of for sure
            for one in asked:
                one.lost = True
            raise

    def _bring(self, some: list[Asked], tell: Outcome, trying: Callable[[Asked], None]) -> None:
        """These in one statement; those that are not decided again, until they are."""
        patience: Patience | None = None
        tries = 0
        while some:
            try:
                with self._lend() as connection:
                    told = self._write(connection, some, trying)
                    some = [one for one in some if not self._decided(connection, one, told, tell)]
                if (tries := tries + 1) == _TRIES:
                    _tell_all(some, StoreFailedError(f"{self._server.url}: others were always faster; try again"), tell)
                    return
            except failures.TAKEN:
                if len(some) == 1:
                    tell(some[0], self._spoiled(some[0]))
                    return
                self._each(some, tell, trying)
                return
            except psycopg.Error as error:
                if not failures.is_passing(error) and len(some) > 1:
                    self._each(some, tell, trying)
                    return
                patience = patience or Patience(self._server)
                if (failure := self._given_up(patience, error)) is not None:
                    _tell_all(some, failure, tell)
                    return

    def _spoiled(self, asked: Asked) -> Any:
        """What one comes to whose own statement found out that it may not be."""
        if not (isinstance(asked, Append) and asked.has_taken):
            return spoiled(asked)
        row = self._server.use(lambda connection: rows.find(connection, self._sql, asked.session), lend=self._lend)
        return spoiled(asked) if row is None else asked.done(row.lease.epoch, row.sent)

    def _each(self, some: list[Asked], tell: Outcome, trying: Callable[[Asked], None]) -> None:
        """Each in a statement of its own: one of them is to blame for an error, and nothing is written yet."""
        for one in some:
            self._bring([one], tell, trying)

    @staticmethod
    def _given_up(patience: Patience, error: psycopg.Error) -> PerdureError | None:
        try:
            patience.after(error)
        except PerdureError as failure:
            return failure
        return None

    def _write(
        self, connection: Connection, some: list[Asked], trying: Callable[[Asked], None]
    ) -> dict[Asked, tuple[int, int]]:
        """Those that were written, each with its epoch and the newest item of its inbox."""
        text, values = statement(self._sql, some)
        values["channel"] = self._channel
        try:
            if faults.hook is not None and some[0].point is not None:
                return self._watched(connection, some, text, values, trying)
            found = connection.rows(text, **values)
        except psycopg.Error as error:
            for one in some:
                one.lost |= failures.is_lost(error)
            raise
        return {some[place - 1]: (epoch, sent) for place, epoch, sent, *_ in found}

    @staticmethod
    def _watched(
        connection: Connection, some: list[Asked], text: str, values: dict[str, Any], trying: Callable[[Asked], None]
    ) -> dict[Asked, tuple[int, int]]:
        """The same while a test listens, which may end the process before the commit."""
        connection.execute("BEGIN")
        try:
            found = connection.rows(text, **values)
            told = {some[place - 1]: (epoch, sent) for place, epoch, sent, *_ in found}
            for one in told:
                trying(one)
                faults.reach(str(one.point))
            connection.execute("COMMIT")
        except BaseException:
            connection.roll_back()
            raise
        return told

    def _decided(self, connection: Connection, asked: Asked, told: dict[Asked, tuple[int, int]], tell: Outcome) -> bool:
        """Whether it has its outcome, which it is told then."""
        if (written := told.get(asked)) is not None:
            tell(asked, asked.done(*written))
            return True
        try:
            row = rows.find(connection, self._sql, asked.session)
        except SessionErasedError as erased:
            tell(asked, erased)
            return True
        if asked.lost and row is not None and asked.is_ours(row, connection, self._sql):
            tell(asked, asked.done(row.lease.epoch, row.sent))
            return True
        ((incarnation,),) = connection.rows(self._sql["incarnation"])
        refusal = verdict(asked, row, incarnation=incarnation, url=self._server.url)
        if refusal is not None:
            tell(asked, refusal)
        return refusal is not None


def _together(asked: Iterable[Asked]) -> Iterator[list[Asked]]:
    """Runs that may be one statement: appends of one session each, in one order for all processes."""
    waiting = list(asked)
    while waiting:
        run: dict[str, Asked] = {}
        size, later, passed = 0, [], set[str]()
        for one in waiting:
            fits = not run or size + one.size <= _TOGETHER_BYTES
            if fits and one.session not in run and one.session not in passed:
                run[one.session], size = one, size + one.size
            else:
                later.append(one)
                passed.add(one.session)
        yield sorted(run.values(), key=lambda one: one.digest)
        waiting = later


def _tell_all(some: list[Asked], failure: PerdureError, tell: Outcome) -> None:
    """The same to each, in an error of its own: raising one changes it."""
    for one in some:
        alike = copy.copy(failure)
        alike.__cause__ = failure.__cause__
        tell(one, alike)
