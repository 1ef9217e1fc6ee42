"""The rows of the benchmark: what each figure is, its unit, and the reach, which is the most that it may be.

A figure's key names where it was measured. `beside` is the key of the same figure of the SQLite row, which says how
much of it is the disk's and the machine's. Knows nothing of how things are measured or shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from perdure.values import PROTOCOLS

WHO: Final = {
    "append": "append + fdatasync",
    "row": "SQLite row",
    "single": "single row",
    "automatic": "found automatically",
    "declared": "declared append-only",
}
CHAT: Final = (
    # figure, what, unit, reach automatic, reach declared
    ("late_over_row", "late save, p50 over the SQLite row", "x", 4.0, 1.7),
    ("late_over_early", "late over early save, p50", "x", 2.0, 1.2),
    ("max_over_p50", "slowest save over p50", "x", 15.0, 15.0),
    ("p99_over_p50", "p99 over p50", "x", 4.0, 4.0),
    ("cpu_thread", "CPU per late save, its thread", "ms", 0.45, 0.15),
    ("cpu_process", "CPU per late save, the process", "ms", 0.45, 0.15),
    ("disk_over_deltas", "bytes on disk over bytes of deltas", "x", 0.5, 0.5),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure that is asked for. `reach` is None for one that is there to compare with."""

    key: str
    section: str
    what: str
    unit: str
    reach: float | None = None
    beside: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A row as measured: the median over the rounds, and the rounds. `holds` is None where nothing is judged."""

    row: Row
    value: float
    rounds: tuple[float, ...]
    beside: float | None
    holds: bool | None


def _chat() -> Iterator[Row]:
    for who in ("append", "row", "automatic", "declared"):
        yield Row(f"w1.{who}.late", "w1", "late save, p50", "ms", who=WHO[who])
    for name, what, unit, automatic, declared in CHAT:
        for who, reach in (("automatic", automatic), ("declared", declared)):
            beside = "" if name == "late_over_row" else f"w1.row.{name}"
            yield Row(f"w1.{who}.{name}", "w1", what, unit, reach, beside, WHO[who])


def _crowd() -> Iterator[Row]:
    ways = (("threads", "16 threads", 0.67), ("processes", "4 processes", 1.47))
    for way, what, reach in ways:
        for who in ("append", "row", "declared"):
            yield Row(f"w3.{way}.{who}.each", "w3", f"{what}: time over saves", "ms", who=WHO[who])
        key = f"w3.{way}.declared"
        yield Row(
            f"{key}.each_over_row", "w3", f"{what}: the same over the SQLite row", "x", reach, who=WHO["declared"]
        )
        beside = f"w3.{way}.row.slowest"
        yield Row(f"{key}.slowest", "w3", f"{what}: slowest save", "ms", 100.0, beside, WHO["declared"])


def _calls() -> Iterator[Row]:
    for who in ("automatic", "declared"):
        key = f"w5.{who}"
        yield Row(f"{key}.late", "w5", "late call with the whole conversation, p50", "ms", who=WHO[who])
        over = "the same over a call with a small argument"
        yield Row(f"{key}.late_over_small", "w5", over, "x", 1.5, who=WHO[who])
        yield Row(f"{key}.disk_over_deltas", "w5", "everything journaled over the deltas", "x", 1.3, who=WHO[who])


def _protocols() -> Iterator[Row]:
    states = (("short", "200 KB of chat"), ("long", "3 MB of chat"), ("documents", "10 MB of documents"))
    figures = (("size", "encoded", "MB"), ("stored", "compressed", "MB"), ("encode", "encode", "ms"))
    for state, what in states:
        for protocol in PROTOCOLS:
            for name, does, unit in (*figures, ("decode", "decode", "ms")):
                yield Row(f"protocols.{state}.{protocol}.{name}", "protocols", f"{what}: {does}", unit, who=protocol)
            if protocol == "capnp" and state != "documents":
                yield Row(f"protocols.{state}.capnp.field", "protocols", f"{what}: read one field", "ms", who=protocol)


def _protection() -> Iterator[Row]:
    ways = (("none", "without protection"), ("default", "as by default"), ("all", "with a key"))
    figures = (
        ("cpu", "CPU per late save, its thread, p50"),
        ("late", "late save, p50"),
        ("restore", "restore 3 MB, CPU"),
    )
    for figure, what in figures:
        for way, who in ways:
            yield Row(f"protection.{way}.{figure}", "protection", what, "ms", who=who)
    yield Row("protection.added.cpu", "protection", "what all of it adds to a save, CPU", "ms", 0.15)
    yield Row("protection.added.late", "protection", "what all of it adds to a save", "ms")
    yield Row("protection.restore_over", "protection", "restore with all of it over one with none", "x", 1.4)


def _teams() -> Iterator[Row]:
    figures = (
        ("add", "add {} messages to a memory", "ms", None),
        ("step", "durable step of a team that remembers {}, CPU, p50", "ms", 1.0),
        ("mean", "mean of it for {}, with keyframes and the garbage collector", "ms", None),
        ("open", "go on with a team that remembers {}, and write its file", "ms", None),
        ("disk", "bytes on disk over bytes of its {} messages", "x", 2.0),
    )
    counts = {"ten": "10", "hundred": "100", "fifth": "{fifth}", "most": "{messages}"}
    for figure, what, unit, reach in figures:
        for name, count in counts.items():
            judged = reach if figure == "step" or name in ("fifth", "most") else None
            yield Row(f"team.{name}.{figure}", "team", what.format(count), unit, judged)
    what = "the same, {fifth} messages, an action of its own for each"
    yield Row("team.spoken.disk", "team", what, "x", 2.0)
    yield Row("team.step_over", "team", "step that remembers {messages} over one that remembers 10", "x", 1.5)


ROWS: Final = (
    *_chat(),
    Row("w2.automatic.p50", "w2", "save of 10 MB, p50", "ms", beside="w2.row.p50", who=WHO["automatic"]),
    Row("w2.automatic.p50_over_row", "w2", "save of 10 MB, p50 over the SQLite row", "x", 1.2, who=WHO["automatic"]),
    *_crowd(),
    Row("w4.latest", "w4", "open and restore the newest state", "ms", 10.0),
    Row("w4.again", "w4", "restore it again in the same process", "ms"),
    Row("w4.part", "w4", "open and restore a small part", "ms", 1.5),
    Row("w4.touch", "w4", "open the session, first touch of a small part", "ms", 1.5),
    Row("w4.step", "w4", "restore any step", "ms", 10.0),
    Row("w4.list", "w4", "list the restore points", "ms", 5.0),
    *_calls(),
    Row("fork.fork", "fork", "fork of a session at any point", "ms", 1.0, "fork.save"),
    Row("fork.first", "fork", "first opening of a fork", "ms"),
    Row("fork.near", "fork", "difference of neighbouring points", "ms", 2.0),
    Row("fork.far", "fork", "difference of the first and a late point", "ms"),
    Row("resume.script", "resume", "resume a script with {calls} answered calls", "ms", 500.0),
    Row("resume.stepwise", "resume", "resume steps with {calls} answered calls", "ms", 10.0),
    Row("many.automatic.last", "many", "last of {many} saves, p50", "ms", beside="many.row.last"),
    Row(
        "many.automatic.last_over_first",
        "many",
        "{many} saves, last thousand over first",
        "x",
        1.2,
        "many.row.last_over_first",
    ),
    Row(
        "many.automatic.cpu_last_over_first",
        "many",
        "the same in CPU of its thread",
        "x",
        1.2,
        "many.row.cpu_last_over_first",
    ),
    Row("moved.mb", "moved", "size of the session that is moved, as stored", "MB"),
    Row("moved.export", "moved", "export of a session, verified, for 50 MB", "ms", 1000.0),
    Row("moved.import", "moved", "import of it, verified, for 50 MB", "ms", 1000.0),
    Row("files.bare.p50", "files", "append of as many bytes + fdatasync, p50", "ms"),
    Row("files.store.p50", "files", "append to a store of files, p50", "ms"),
    Row("files.store.p50_over_bare", "files", "the second over the first", "x", 1.5),
    Row("names.first", "names", "first capture of a workspace of {names} files, CPU", "ms", 10_000.0),
    Row("names.unchanged", "names", "capture with nothing changed, CPU", "ms", 500.0),
    Row("names.one", "names", "capture with one file changed, CPU", "ms", 600.0),
    Row("names.one_kb", "names", "what is stored for that file", "KB", 100.0),
    Row("names.process", "names", "the first capture of a new process, nothing changed, CPU", "ms"),
    Row("gc.seconds", "gc", "collect {snapshots} snapshots, ten stay", "s", 20.0),
    Row("gc.left", "gc", "bytes of the file after it over those before", "x"),
    Row("gc.slowest", "gc", "slowest save of another session meanwhile", "ms"),
    Row("gc.beside", "gc", "save of another session meanwhile, p50", "ms", None, "gc.alone"),
    *_protocols(),
    *_protection(),
    *_teams(),
    Row("import.ms", "import", "import perdure", "ms", 150.0),
    Row("import.store", "import", "import perdure and load its SQLite store", "ms"),
    Row("import.optional", "import", "of numpy, typer and rich, imported by it", "", 0.0),
)
