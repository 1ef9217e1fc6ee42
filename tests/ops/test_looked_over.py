"""What `doctor` reads without `deep` and says that it did not read; growth, retention, and code that takes no state."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import clock, limits
from perdure.errors import RefusedError
from perdure.ops import growing
from perdure.ops.config.sections import RetentionSettings, Storage
from perdure.ops.config.settings import Settings
from perdure.ops.scheduled import Job
from perdure.ops.timetable import Timetable
from perdure.runtime.configured import open_with
from perdure.runtime.entry import load
from perdure.session.keeping import migration
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import Opening, hold
from tests.ops.test_doctor import change, dead_owner, filled, key, made
from tests.session.test_wheel import wish

__all__ = ["filled", "made"]  # fixtures


class Clock:
    """The wall clock, moved by hand."""

    def __init__(self, text: str) -> None:
        self.at = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)

    def passes(self, **delta: float) -> None:
        self.at += dt.timedelta(**delta)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock("2026-03-01 12:00")
    monkeypatch.setattr(clock, "now_us", lambda: int(found.at.timestamp() * 1e6))
    return found


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with perdure.open(tmp_path / "a.db") as opened:
        yield opened


def found(store: Any, kind: str, **options: Any) -> list[Any]:
    return [one for one in store.doctor(**options).findings if one.kind == kind]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_damage_in_the_middle_is_found_without_reading_all(made: Any) -> None:
    change(made, "UPDATE records SET body = zeroblob(40) WHERE key = ?", key(made, 20))
    (one,) = found(made.store, "damage")
    assert "20" in one.what


def test_what_is_not_read_is_told_and_found_with_deep(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOOK_RECORDS", 5)
    change(made, "UPDATE records SET body = zeroblob(40) WHERE key = ?", key(made, 20))
    light = made.store.doctor()
    assert light.ok
    assert light.read == 5 * light.sessions
    told = {option: what for what, option in light.not_read}
    assert f"{light.records - light.read:,} of {light.records:,} records" in told["--deep"]
    deep = made.store.doctor(deep=True, code="recorded")
    assert not deep.ok
    assert deep.not_read == ()
    assert deep.records == light.records
    whole = made.store.doctor(deep=True)
    assert [option for _, option in whole.not_read] == ["--code recorded"]


def test_each_session_is_told_of_once_it_was_looked_at(made: Any) -> None:
    heard: list[tuple[int, int]] = []
    made.store.doctor(on_each=lambda done, total: heard.append((done, total)))
    assert heard == [(1, 2), (2, 2)]


# --- for how long -----------------------------------------------------------------------------------------------------


def test_each_finding_says_for_how_long(store: Any, now: Clock) -> None:
    store.run(lambda s: s.ask("Go on?"), "asks")
    store.run(lambda _: 1 / 0, "fails")
    store.backend.release(store.backend.create("empty", owner="me"))
    now.passes(hours=2)
    ages = {one.kind: one.age_s for one in store.doctor().findings}
    assert ages == {"question": 7200.0, "failed": 7200.0, "empty": None}
    store.send("asks", "hello")
    store.pause("asks")
    ages = {one.kind: one.age_s for one in store.doctor().findings}
    assert ages["inbox"] == 0.0, "since its newest record"


def test_what_was_asked_of_a_process_that_is_gone_is_told(store: Any) -> None:
    def dies(s: perdure.Session) -> None:
        s.checkpoint("start")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(dies, "s")
    assert not found(store, "asked")
    store.backend.send("s", wish("rollback"))
    (one,) = found(store, "asked")
    assert "rollback by alex" in one.what
    assert one.mend == ("resume", "s")
    store.rollback("s", "start")
    assert not found(store, "asked")


def test_a_session_that_nobody_runs_any_more_is_told_until_somebody_does(store: Any, now: Clock) -> None:
    def dies(s: perdure.Session) -> None:
        if s.input:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(dies, "s", input=1)
    (one,) = found(store, "owner")
    assert (one.mend, one.needs_person) == (("resume", "s"), True)
    hold(store.backend, Opening("s", form="script", create=False), owner=dead_owner(), let_go=store.backend.release)
    now.passes(minutes=5)
    (one,) = found(store, "owner", fix=True)
    assert (one.mended, one.age_s) == (True, 300.0)
    (one,) = found(store, "owner", fix=True)
    assert not one.mended, "that its lease was given back makes nobody run it"
    assert one.needs_person
    store.cancel("s")
    assert not found(store, "owner")


def test_an_owner_of_another_machine_that_stands_still_is_told_and_keeps_its_lease(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.run(lambda s: s.ask("Go on?"), "s")
    hold(store.backend, Opening("s", form="script", create=False), owner="elsewhere", let_go=store.backend.release)
    assert not found(store, "owner")
    monkeypatch.setattr(store.backend, "still_s", lambda _lease: 1000.0)
    (one,) = found(store, "owner", fix=True)
    assert "has not moved for 1,000 s" in one.what
    assert not one.mended
    assert store.backend.lease("s").owner == "elsewhere"


# --- growth -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs count as long from some records on."""
    monkeypatch.setattr(growing, "STEP", 10)


def saves(store: Any, now: Clock, *, times: int, each_s: float, session: str = "s") -> None:
    with store.session(session) as s:
        for n in range(times):
            now.passes(seconds=each_s)
            s.state["n"] = n
            s.save()


@pytest.mark.usefixtures("soon")
def test_a_log_that_grows_quickly_is_told_with_its_rate(
    store: Any, now: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves(store, now, times=60, each_s=120)
    assert not found(store, "growing"), "720 a day are not many"
    monkeypatch.setattr(limits, "GROWTH_DAY_RECORDS", 700)
    (one,) = found(store, "growing")
    assert (one.severity, one.session, one.mend[:2]) == ("warning", "s", ("gc", "s"))
    rate = float(one.what.split()[4].replace(",", ""))
    assert 700 < rate < 800, one.what
    now.passes(days=2)
    assert not found(store, "growing"), "nothing was written to it for a day"


@pytest.mark.usefixtures("soon")
def test_a_log_whose_bodies_are_large_is_told_by_its_bytes(
    store: Any, now: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves(store, now, times=60, each_s=120)
    monkeypatch.setattr(limits, "GROWTH_DAY_BYTES", 10_000)
    assert found(store, "growing")


@pytest.mark.usefixtures("soon")
def test_of_a_burst_no_rate_is_made(store: Any, now: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROWTH_DAY_RECORDS", 1000)
    saves(store, now, times=60, each_s=1)
    assert not found(store, "growing"), "all of it was written in a minute"
    now.passes(hours=10)
    saves(store, now, times=60, each_s=1)
    assert not found(store, "growing"), "about 120 records in ten hours"


# --- retention --------------------------------------------------------------------------------------------------------


def configured(tmp_path: Path, **retention: Any) -> Any:
    """The store of a configuration, with nothing at work: as a command opens it."""
    storage = Storage(url=str(tmp_path / "a.db"))
    return open_with(Settings(storage=storage, retention=RetentionSettings(**retention)), given={})


def test_a_retention_that_was_never_carried_out_is_told_once_there_is_something_to_do(
    tmp_path: Path, now: Clock
) -> None:
    with configured(tmp_path, keep_last=3) as store:
        saves(store, now, times=3, each_s=1)
        assert not found(store, "retention"), "nothing could go"
        saves(store, now, times=9, each_s=1)
        now.passes(days=1)
        (one,) = found(store, "retention")
        assert (one.severity, one.mend, one.needs_person) == ("warning", ("gc", "--yes"), True)
        assert one.age_s >= 86_400
        store.gc()
        assert found(store, "retention"), "a dry run is no gc"
        store.gc(dry_run=False)
        assert not found(store, "retention")


def test_a_schedule_that_is_not_at_work_is_told(tmp_path: Path, now: Clock) -> None:
    with configured(tmp_path, keep_last=3, schedule="0 3 * * *") as store:
        (one,) = found(store, "retention")
        assert "never was" in one.what
        retention = store.configured.retention
        job = Job(store.keeper, new_owner(), limits.LEASE_S, Timetable("0 3 * * *"), retention.policy())
        job.due()  # a program began
        assert not found(store, "retention")
        now.passes(hours=14)  # 2 in the morning
        assert not found(store, "retention")
        now.passes(hours=1.5)
        assert not found(store, "retention"), "half an hour late is not late"
        now.passes(hours=4)
        (one,) = found(store, "retention")
        assert "never done" in one.what
        assert one.age_s == 4.5 * 3600
        assert job.run_if_due() is not None
        assert not found(store, "retention")
    with perdure.open(tmp_path / "a.db") as plain:
        assert not found(plain, "retention")
        now.passes(days=2)
        (one,) = found(plain, "retention")
        assert "last done 2026-03-02 03:00 UTC" in one.what, "also without the configuration: the store remembers"


def test_without_a_retention_nothing_is_told(store: Any, now: Clock) -> None:
    saves(store, now, times=30, each_s=1)
    assert not found(store, "retention")


# --- code that takes no state -----------------------------------------------------------------------------------------

AGENTS = """
import perdure


@perdure.steps(version="{version}")
def worker(s):
    if not s.state:
        s.state["n"] = 1
    else:
        s.ask("Go on?")


{more}
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the code that is there from now on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(migration, "_steps", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would not notice what is written within a second

    def write(version: str, more: str = "") -> Any:
        for name in [name for name in sys.modules if name.startswith("perdure_entry")]:
            monkeypatch.delitem(sys.modules, name)
        Path("worker_code.py").write_text(AGENTS.format(version=version, more=more))
        return load("worker_code.py:worker")

    return write


def test_a_state_that_the_code_cannot_take_is_told(store: Any, code: Any) -> None:
    store.run(code("1"), "old")
    assert not found(store, "unmigratable", code="recorded")
    code("2")
    assert not found(store, "unmigratable"), "the code is asked only where that is said"
    (one,) = found(store, "unmigratable", code="recorded")
    assert (one.severity, one.session) == ("warning", "old")
    assert "version 1" in one.what
    assert "version 2" in one.what
    assert one.mend == ("migrate", "--to", "2", "--session", "old", "--dry-run")
    worker = code("2", 'perdure.migration("1", "2")(lambda state: 1 / 0)')
    assert not found(store, "unmigratable", code=worker), "there is a way"
    (one,) = found(store, "unmigratable", code=worker, deep=True)
    assert "division by zero" in one.what, "which does not lead there"
    before = store.info("old")
    worker = code("2", 'perdure.migration("1", "2")(lambda state: {**state, "m": 2})')
    assert not found(store, "unmigratable", code=worker, deep=True)
    assert store.info("old") == before


def test_a_session_whose_code_is_not_here_is_told(store: Any, code: Any) -> None:
    store.run(code("1"), "old")
    Path("worker_code.py").write_text("raise RuntimeError('no key')\n")
    for name in [name for name in sys.modules if name.startswith("perdure_entry")]:
        del sys.modules[name]
    (one,) = found(store, "code", code="recorded")
    assert "no key" in one.what
    store.cancel("old")
    assert not found(store, "code", code="recorded"), "one that is over needs none"
    with pytest.raises(RefusedError, match="recorded"):
        store.doctor(code="worker_code.py:worker")
