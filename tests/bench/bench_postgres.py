"""A PostgreSQL store with many sessions, whole and by partitions: what they change, and what they do not.

    python tests/bench/bench_postgres.py postgresql://me@host/database 100000 0 16 64

The sessions are put in with plain SQL, as many at once as the server takes; what is measured goes through the store.
Schemas `bench_p0` … are made for it, and dropped afterwards.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from perdure.log import GENESIS, chained
from perdure.stores import Batch, Point
from perdure.stores.address import Address
from perdure.stores.postgres import PostgresStore, open_url
from perdure.stores.postgres.statements import plain

SAVES = 10
BODY_BYTES = 600
LOOKS = 300

FILL = (
    """INSERT INTO {s}.sessions
    (digest, id, family, seq, chain, epoch, owner, counter, leased, tick, sent, watched, summary)
    SELECT sha256(convert_to('s' || n, 'UTF8')), convert_to('s' || n, 'UTF8'), convert_to('s' || n, 'UTF8'), %(saves)s,
        %(chain)s, 1, convert_to('me', 'UTF8'), 0, now(), n, 0, '-infinity', ''
    FROM generate_series(1, %(count)s) AS n""",
    """INSERT INTO {s}.records SELECT s.number, n, 1, 0, 3, %(chain)s, %(body)s
    FROM {s}.sessions s, generate_series(1, %(saves)s) AS n""",
    """INSERT INTO {s}.points SELECT s.number, n, n - 1, 0, 3, NULL
    FROM {s}.sessions s, generate_series(1, %(saves)s) AS n""",
    "VACUUM (ANALYZE) {s}.sessions",
    "VACUUM (ANALYZE) {s}.records",
    "VACUUM (ANALYZE) {s}.points",
)


@contextmanager
def filled(url: str, *, count: int, partitions: int) -> Iterator[PostgresStore]:
    """A store with so many sessions, each of `SAVES` records with their points."""
    schema = f"bench_p{partitions}"
    with open_url(Address.of(f"{url}?schema={schema}&partitions={partitions}")) as store:
        connection = store._server.connect()
        connection.patience_s = None
        values = {"count": count, "saves": SAVES, "chain": bytes(32), "body": bytes(range(200)) * (BODY_BYTES // 200)}
        try:
            for statement in FILL:
                connection.rows(plain(statement, schema), **(values if "%(" in statement else {}))
            yield store
        finally:
            connection.rows(plain("DROP SCHEMA {s} CASCADE", schema))
            connection.close()


def took_ms(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def measured(store: PostgresStore, *, count: int, looks: int = LOOKS) -> dict[str, float]:
    """Milliseconds of each operation, in the middle."""
    sessions = [f"s{1 + n * (count // looks)}" for n in range(looks)]

    def save(session: str) -> None:
        seq = SAVES + 1
        record = chained(GENESIS, session=session, seq=seq, epoch=1, kind="note", time_us=0, body=bytes(BODY_BYTES))
        store.append(session, Batch((record,), (Point(seq, seq - 1, 3, None, 0),)), epoch=1, head=SAVES)

    def middle(work: Callable[[str], object], some: list[str]) -> float:
        work(some[0])
        return median(took_ms(lambda session=session: work(session)) for session in some[1:])

    return {
        "save": middle(save, sessions),
        "read a log": middle(lambda session: list(store.read(session)), sessions),
        "list its restore points": middle(store.points, sessions),
        "its head": middle(store.head, sessions),
        "list all sessions": took_ms(store.heads),
        "erase a session": middle(store.delete, sessions[:4]),
    }


def main(url: str, count: str, *partitions: str) -> None:
    columns = {}
    for number in partitions:
        with filled(url, count=int(count), partitions=int(number)) as store:
            columns[number] = measured(store, count=int(count)) | {"MB": (store.health(deep=False).used or 0) / 1e6}
    print(f"{count} sessions of {SAVES} saves, ms", *(f"{number} partitions" for number in partitions), sep=" | ")
    for row in columns[partitions[0]]:
        print(row, *(f"{column[row]:.2f}" for column in columns.values()), sep=" | ")


if __name__ == "__main__":
    main(*sys.argv[1:])
