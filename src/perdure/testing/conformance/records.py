"""What is appended is found again, exactly: records, index, look-up, listings, chunks."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from perdure.errors import MissingError
from perdure.log import GENESIS, KINDS, Base, Record, verified
from perdure.stores import Batch, Head, Point
from perdure.testing.conformance.tools import BODIES, Log, Place, records_after, refused, same


class RecordChecks(Place):
    """Records and what is kept beside them."""

    def test_records_come_back_exactly(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            for kind in KINDS:
                log.records += (batch := log.next(*BODIES, kind=kind))
                store.append("s", Batch(batch), epoch=1, head=len(log.records) - len(BODIES))
            same(list(store.read("s")), log.records)
            same(store.head("s"), Head("s", "s", len(log.records), log.records[-1].chain, 1, b""))

    def test_a_record_is_kept_as_it_is_given(self, tmp_path: Path) -> None:
        odd = Record("s", 1, 7, "note", 1 << 62, b"body", b"\0" * 31 + b"!")
        with self.open(tmp_path) as store:
            store.create("s", owner="me")
            store.append("s", Batch((odd, replace(odd, seq=2, epoch=1, time_us=0))), epoch=1, head=0)
            same(list(store.read("s")), [odd, replace(odd, seq=2, epoch=1, time_us=0)])

    def test_a_range_is_read(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(*(b"%d" % n for n in range(9)))
            for after in range(11):
                same(list(store.read("s", after=after)), log.records[after:])
                for upto in range(12):
                    same(list(store.read("s", after=after, upto=upto)), log.records[after:upto])

    def test_a_read_ends_where_the_log_ended_when_it_began(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", b"2", b"3")
            reading = store.read("s")
            first = next(reading)
            log.append(b"4")
            same([first, *reading], log.records[:3])

    def test_records_are_read_in_the_order_asked(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", b"2", b"3")
            same([record.seq for record in store.read_at("s", [3, 1, 3])], [3, 1, 3])
            same(store.read_at("s", []), [])
            for missing in (4, 0, -1, 1 << 40):
                with refused(MissingError, naming=str(missing)):
                    store.read_at("s", [1, missing])

    def test_points_are_listed_by_seq_and_replaced(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            odd = Point(2, 1, 4, "half \ud83d, zero \0, whole 😀", 0)
            log.append(b"1", b"2", b"3", points=(Point(3, 2, 3, None, 1 << 60), odd, Point(1, 0, 1, "", 5)))
            same(store.points("s"), [Point(1, 0, 1, "", 5), odd, Point(3, 2, 3, None, 1 << 60)])
            log.append(points=(Point(3, 2, 2, "named later", 6),))
            same(store.points("s")[2], Point(3, 2, 2, "named later", 6))

    def test_keyframes_are_listed_and_replaced(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", b"2", b"3", b"4", keyframes=((3, 4), (1, 2)))
            same(store.keyframes("s"), [(1, 2), (3, 4)])
            log.append(b"5", keyframes=((1, 5),))
            same(store.keyframes("s"), [(1, 5), (3, 4)])

    def test_marks_are_found(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log, other = Log(store), Log(store, "t")
            log.append(b"1", b"2", marks=((b"m", 2), (b"m", 1), (b"\0", 1), (b"m", 2)))
            log.append(b"3", marks=((b"m", 3), (b"m", 1)))
            other.append(b"1", marks=((b"m", 1),))
            same([store.find("s", mark) for mark in (b"m", b"\0", b"", b"M")], [[1, 2, 3], [1], [], []])
            same(store.find("t", b"m"), [1])
            same([*map(list, sorted(store.marks("t")))], [[b"m", 1]])
            same(sorted(seq for mark, seq in store.marks("s") if mark == b"m"), [1, 2, 3])

    def test_a_summary_stands_until_the_next(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", summary=b"\0running")
            log.append(b"2")
            same([head.summary for head in (store.head("s"), *store.heads())], [b"\0running"] * 2)
            log.append(summary=b"done")
            same(store.head("s"), Head("s", "s", 2, log.records[-1].chain, 1, b"done"))

    def test_listings_begin_with_what_was_written_last(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            logs = {name: Log(store, name) for name in ("a/1", "a/2", "A/3", "a_4", "b")}
            for name in ("a/2", "b", "a/1", "a/1", "A/3", "a/2"):
                logs[name].append(b"x")
            same([head.session for head in store.heads()], ["a/2", "A/3", "a/1", "b", "a_4"])
            same([head.session for head in store.heads(prefix="a/")], ["a/2", "a/1"])
            same(
                [[head.session for head in store.heads(prefix=one)] for one in ("a_", "%", "*", "a/1x")],
                [["a_4"], [], [], []],
            )

    def test_chunks_are_shared_in_a_family_only(self, tmp_path: Path) -> None:
        chunks = {sha256(body).digest(): body for body in BODIES}
        with self.open(tmp_path) as store:
            for session, family in (("root", None), ("fork", "root"), ("stranger", None)):
                store.create(session, owner="me", family=family)
            same([store.head(name).family for name in ("root", "fork", "stranger")], ["root", "root", "stranger"])
            store.put_chunks("root", chunks, epoch=1)
            store.put_chunks("fork", chunks, epoch=1)
            same(store.chunks("fork", chunks), chunks)
            same(store.chunks("root", []), {})
            with refused(MissingError, naming=next(iter(chunks)).hex()):
                store.chunks("stranger", chunks)

    def test_chunks_of_a_batch_come_with_it(self, tmp_path: Path) -> None:
        chunks = {sha256(body).digest(): body for body in BODIES}
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", chunks=chunks)
            same(store.chunks("s", chunks), chunks)
            log.append(b"2", chunks={b"d" * 32: b"damaged"})
            log.append(b"3", chunks={b"d" * 32: b"right"})
            first = records_after(log.records, "f", (b"4",), kind="opened")
            store.fork("f", Batch(first, chunks={b"f" * 32: b"of a fork"}), base=Base("s", 3), epoch=2)
        with self.open(tmp_path) as store:
            same(store.chunks("s", [b"d" * 32, b"f" * 32]), {b"d" * 32: b"right", b"f" * 32: b"of a fork"})
            same(len(store.chunk_sizes("f")), len(chunks) + 2)

    def test_a_missing_chunk_is_named(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            store.create("s", owner="me")
            store.put_chunks("s", {b"d" * 32: b"content"}, epoch=1)
            with refused(MissingError, naming=(b"e" * 32).hex()):
                store.chunks("s", [b"d" * 32, b"e" * 32])

    def test_putting_a_chunk_again_repairs_it(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            store.create("s", owner="me")
            for content in (b"damaged", b"right", b"right"):
                store.put_chunks("s", {b"d" * 32: content}, epoch=1)
            same(store.chunks("s", [b"d" * 32]), {b"d" * 32: b"right"})

    def test_ten_thousand_records(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            for start in range(0, 10_000, 500):
                points = tuple(Point(start + n, start + n - 1, 1, None, n) for n in range(1, 501))
                log.append(*(b"%d" % n for n in range(start, start + 500)), points=points)
            checked = verified(store.read("s"), session="s", after=0, previous=GENESIS)
            same(sum(1 for _ in checked), 10_000)
            same((list(store.read("s", after=9_990)), len(store.points("s"))), (log.records[9_990:], 10_000))

    def test_a_body_of_64_megabytes(self, tmp_path: Path) -> None:
        body = bytes(range(256)) * (1 << 18)
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"small", body, b"small")
            store.put_chunks("s", {b"d" * 32: body}, epoch=1)
        with self.open(tmp_path) as store:
            same([len(record.body) for record in store.read("s")], [5, len(body), 5])
            same(
                (store.read_at("s", [2])[0].body == body, store.chunks("s", [b"d" * 32])[b"d" * 32] == body),
                (True, True),
            )
