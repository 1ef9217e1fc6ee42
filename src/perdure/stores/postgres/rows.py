"""The rows of a PostgreSQL store, and what we make of them: a session's row, records, names.

It must not know what may be written, nor connections but the one it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from perdure.errors import DamageError, PerdureError
from perdure.log import KIND_NAMES, Base, Record
from perdure.stores import refusals
from perdure.stores.contract import Head, Lease
from perdure.stores.ids import check_session_id
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.statements import Statements

SEQ_MAX: Final = (1 << 63) - 1


class Row(NamedTuple):
    """A session's row, without what only listings show."""

    number: int
    family: bytes
    lease: Lease
    seq: int
    sent: int
    seam: int
    """The last record that it has from its base."""

    chain: bytes


def digest_of(session: str) -> bytes:
    """What a session is found by. Raises `SessionIdError`."""
    return _digest(check_session_id(session))


@lru_cache(maxsize=4096)
def _digest(session: str) -> bytes:
    return sha256(session.encode()).digest()


def find(connection: Connection, sql: Statements, session: str, *, locked: bool = False) -> Row | None:
    """The session's row; None if there never was one. Raises `SessionErasedError`."""
    statement = sql["session_locked" if locked else "session"]
    found = connection.rows(statement, digest=digest_of(session))
    if not found:
        return None
    number, name, family, epoch, owner, counter, seq, sent, seam, chain = found[0]
    if name is None:
        raise refusals.erased(session)
    if name != session.encode():
        raise DamageError(f"{session}: its row has another id")
    return Row(number, family, Lease(session, epoch, text(owner), counter), seq, sent, seam or 0, chain)


def absent(connection: Connection, sql: Statements, session: str, *, url: str) -> PerdureError:
    """For a session that a statement has not found."""
    if find(connection, sql, session) is None:
        return refusals.unknown(session, url=url)
    return DamageError(f"{session}: one index has it and another has not")


def head_of(session: str, found: list[tuple[Any, ...]]) -> Head:
    """The head of a session from its row and those of its bases."""
    name, family, seq, chain, epoch, summary, _ = found[0]
    if name != session.encode():
        raise DamageError(f"{session}: its row has another id")
    bases = tuple(Base(text(base), last) for base, *_, last in reversed(found[1:]))
    return Head(session, text(family), seq, chain, epoch, summary, bases)


def heads_of(found: list[tuple[Any, ...]], ups: dict[int, tuple[str, int | None, int]]) -> Iterable[Head]:
    """Heads from their rows. `ups` has the sessions that have forks or are one: id, base and last record of that."""
    for number, name, family, seq, chain, epoch, summary, *_ in found:
        yield Head(text(name), text(family), seq, chain, epoch, summary, _bases(number, ups))


def _bases(number: int, ups: dict[int, tuple[str, int | None, int]]) -> tuple[Base, ...]:
    found: list[Base] = []
    while (up := ups.get(number)) is not None and up[1] is not None and up[1] < number and up[1] in ups:
        found.insert(0, Base(ups[up[1]][0], up[2]))
        number = up[1]
    return tuple(found)


def record_of(row: tuple[Any, ...]) -> Record:
    """A record from its row, which begins with the end of the log."""
    _, name, seq, epoch, kind, time_us, body, chain = row
    if kind not in KIND_NAMES:
        raise DamageError(f"{text(name)}: record {seq} is not what was written: there is no kind {kind}")
    return Record(text(name), seq, epoch, KIND_NAMES[kind], time_us, body, chain)


def blob(plain: str) -> bytes:
    """Text as it is, lone surrogates and zeros included, which no text of PostgreSQL would bear."""
    return plain.encode(errors="surrogatepass")


def text(stored: bytes) -> str:
    """What `blob` made bytes of."""
    try:
        return stored.decode(errors="surrogatepass")
    except UnicodeDecodeError as error:
        raise DamageError(f"a name or an owner is not what was written: {error}") from error
