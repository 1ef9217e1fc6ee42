"""`gc` by a timetable: done once whoever looks, made up for once, ended at once, not ended by errors."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Retention, clock, limits
from perdure.errors import PerdureError, RefusedError, StoreFailedError
from perdure.ops import collection
from perdure.ops.house import notes
from perdure.ops.scheduled import Job
from perdure.ops.timetable import Timetable
from perdure.runtime import schedule as schedules
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.lease import new_owner
from perdure.stores.ids import SCHEDULE
from perdure.testing.lives import forked

NIGHTLY = Timetable("0 3 * * *")
KEEP = Retention(keep_last=2)


class Now:
    """The wall clock of this process; moved by hand."""

    def __init__(self, text: str) -> None:
        self.at = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)

    def to(self, text: str) -> None:
        self.at = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    found = Now("2026-03-01 12:00")
    monkeypatch.setattr(clock, "now_us", lambda: int(found.at.timestamp() * 1e6))
    return found


@pytest.fixture(params=["{}/agents.db", "file://{}/agents"], ids=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param.format(tmp_path))


@pytest.fixture
def store(url: str) -> Iterator[AgentStore]:
    with open_agent_store(url) as found:
        yield found


def saves(store: AgentStore, *, times: int = 8, session: str = "s") -> None:
    with store.session(session) as s:
        for n in range(times):
            s.state["text"] = os.urandom(100)
            s.state["n"] = n
            s.save()


def job(store: AgentStore, timetable: Timetable = NIGHTLY, **options: Any) -> Job:
    return Job(store.keeper, new_owner(), limits.LEASE_S, timetable, KEEP, **options)


def what(store: AgentStore) -> list[str]:
    return [entry["what"] for entry in notes(store.backend, SCHEDULE)]


def test_it_is_done_when_it_is_due_and_once(store: AgentStore, now: Now) -> None:
    saves(store)
    mine, theirs = job(store), job(store)
    assert mine.run_if_due() is None, "from now on it counts"
    now.to("2026-03-02 02:59")
    assert (mine.run_if_due(), theirs.run_if_due()) == (None, None)
    now.to("2026-03-02 03:00")
    report = mine.run_if_due()
    assert report is not None
    assert report.sessions[0].snapshots == 6
    assert (mine.run_if_due(), theirs.run_if_due()) == (None, None)
    assert what(store) == ["begun", "done"]
    assert [info.id for info in store.sessions()] == ["s"]
    assert store.doctor(deep=True).ok


def test_what_everybody_missed_is_made_up_for_once(url: str, now: Now) -> None:
    with open_agent_store(url) as store:
        assert job(store).run_if_due() is None
    now.to("2026-03-09 12:00")  # nobody was there for a week
    with open_agent_store(url) as store:
        assert job(store).run_if_due() is not None
        assert job(store).run_if_due() is None
        now.to("2026-03-10 03:30")
        assert job(store).run_if_due() is not None
    with open_agent_store(url) as store:
        for _ in range(40):  # whatever number of notes there are
            now.at += dt.timedelta(days=1)
            assert job(store).run_if_due() is not None
        assert job(store).run_if_due() is None


def test_other_timetables_and_retentions_count_by_themselves(store: AgentStore, now: Now) -> None:
    hourly = Timetable("0 * * * *")
    jobs = [job(store), job(store, hourly)]
    assert [one.run_if_due() for one in jobs] == [None, None]
    now.to("2026-03-01 13:05")
    assert [one.run_if_due() is not None for one in jobs] == [False, True]
    assert jobs[0].name != jobs[1].name == job(store, hourly).name


def test_while_another_process_is_at_it_nobody_else_does_it(url: str, now: Now) -> None:
    """One is killed in the middle of it, in a process of its own: the next who looks does it."""
    with open_agent_store(url) as store:
        saves(store)
        job(store).run_if_due()
    now.to("2026-03-02 04:00")
    in_it: list[bool] = []

    def look_meanwhile() -> None:
        if not in_it:
            in_it.append(True)
            with open_agent_store(url) as other:
                assert job(other).run_if_due() is None
                assert job(other).due() is not None
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> bytes:
        with open_agent_store(url) as store:
            job(store).run_if_due(between=look_meanwhile)
        return b""

    assert forked(work)[1] == signal.SIGKILL
    with open_agent_store(url) as store:
        assert what(store) == ["begun"]
        report = job(store).run_if_due()
        assert report is not None
        assert report.sessions[0].kept == 2
        assert what(store) == ["begun", "done"]


def test_one_that_stands_still_elsewhere_is_replaced_when_its_lease_is_over(
    store: AgentStore, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = job(store)
    mine.run_if_due()
    now.to("2026-03-02 04:00")
    seconds = 100.0
    monkeypatch.setattr(clock, "monotonic_s", lambda: seconds)
    store.backend.claim(SCHEDULE, owner="on another machine", seen=store.backend.lease(SCHEDULE))
    assert mine.run_if_due() is None
    seconds += limits.LEASE_S - 1
    assert mine.run_if_due() is None
    seconds += 2
    assert mine.run_if_due() is not None


def test_a_clock_that_was_ahead_for_once_does_not_stop_it(store: AgentStore, now: Now) -> None:
    mine = job(store)
    mine.run_if_due()
    now.to("2036-01-01 12:00")
    assert mine.run_if_due() is not None
    now.to("2026-03-02 12:00")
    fresh = job(store)
    assert fresh.run_if_due() is None
    now.to("2026-03-03 03:01")
    assert fresh.run_if_due() is not None
    assert fresh.run_if_due() is None


BERLIN = Timetable("30 2 * * *", "Europe/Berlin")


@pytest.mark.parametrize(
    ("timetable", "after", "due"),
    [
        (NIGHTLY, "2026-03-01T03:00+00:00", "2026-03-02T03:00:00+00:00"),
        (BERLIN, "2026-03-28T12:00+00:00", "2026-03-29T03:00:00+02:00"),  # half past two is left out that night
        (BERLIN, "2026-10-24T12:00+00:00", "2026-10-25T02:30:00+02:00"),  # and there twice in this one
        (BERLIN, "2026-10-25T00:30+00:00", "2026-10-26T02:30:00+01:00"),
    ],
)
def test_zones_and_clocks_that_change(timetable: Timetable, after: str, due: str) -> None:
    assert timetable.next_after(dt.datetime.fromisoformat(after)).isoformat() == due
    when = dt.datetime.fromisoformat(due)
    for later in (when, when + dt.timedelta(seconds=1), when + dt.timedelta(hours=20)):
        assert timetable.newest_before(later) == when.astimezone(dt.UTC)


@pytest.mark.parametrize("cron", ["", "soon", "99 * * * *", "0 0 30 2 *"])
def test_what_is_no_timetable_is_refused(store: AgentStore, cron: str) -> None:
    with pytest.raises(RefusedError):
        store.schedule_gc(cron, KEEP)
    with pytest.raises(RefusedError, match="time zone"):
        store.schedule_gc("0 3 * * *", KEEP, zone="Nowhere/At_All")


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Everything is due at every look; looks come as soon as they can. Set when one has been."""
    looked = threading.Event()
    monkeypatch.setattr(Job, "due", lambda self: clock.now_utc())
    for name in ("LOOK_S", "AGAIN_S"):
        monkeypatch.setattr(schedules, name, 0.01)
    return looked


@pytest.mark.usefixtures("due")
def test_errors_are_told_and_do_not_end_it(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    saves(store)
    job(store)._note(clock.now_utc(), "begun")
    told: list[PerdureError] = []
    done = threading.Event()
    heads = store.backend.heads

    def failing(**options: Any) -> Any:
        if len(told) < 2:
            raise StoreFailedError("the disk is away")
        return heads(**options)

    monkeypatch.setattr(store.backend, "heads", failing)
    with store.schedule_gc("* * * * *", KEEP, on_error=told.append, on_done=lambda _: done.set()) as schedule:
        assert done.wait(20)
        assert "at work" in repr(schedule)
    assert [type(error) for error in told] == [StoreFailedError, StoreFailedError]
    assert "ended" in repr(schedule)


@pytest.mark.usefixtures("due")
def test_what_a_callback_raises_is_raised_by_close(store: AgentStore) -> None:
    job(store)._note(clock.now_utc(), "begun")

    def wrong(_: object) -> None:
        raise KeyError("a bug")

    schedule = store.schedule_gc("* * * * *", KEEP, on_done=wrong)
    assert schedule.wait(20)
    with pytest.raises(KeyError, match="a bug"):
        schedule.close()
    schedule.close()


@pytest.mark.usefixtures("due")
def test_it_ends_in_the_middle_of_gc(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE_RECORDS", 2)
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    saves(store, times=40)
    job(store)._note(clock.now_utc(), "begun")
    began, go_on, amend = threading.Event(), threading.Event(), collection.amend

    def slow(*args: Any, **options: Any) -> None:
        amend(*args, **options)
        began.set()
        go_on.wait(20)

    monkeypatch.setattr(collection, "amend", slow)

    async def ended() -> None:
        async with store.aio.schedule_gc("* * * * *", KEEP) as schedule:
            assert await asyncio.to_thread(began.wait, 20)
            schedule.stop()
            go_on.set()

    asyncio.run(ended())
    assert len(store.snapshots("s")) > 2, "it was not done to its end"
    assert what(store) == ["begun"]
    assert store.verify("s", read_data=True).ok
    assert store.backend.lease(SCHEDULE).owner == ""
    assert store.gc(retention=KEEP, dry_run=False).sessions[0].kept == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stays_until_a_signal_comes(tmp_path: Path, number: signal.Signals) -> None:
    url = str(tmp_path / "agents.db")
    with open_agent_store(url) as store:
        saves(store)
        began = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        Job(store.keeper, new_owner(), 10.0, Timetable("0 3 * * *"), KEEP, began=began)._note(began, "begun")
    words = [sys.executable, "-m", "perdure.cli", "gc", "--yes", "--json", "--store", url]
    if number == signal.SIGINT:
        words += ["--every", "0 3 * * *", "--keep-last", "2"]
    else:
        config = tmp_path / "perdure.yaml"
        config.write_text("retention: {schedule: '0 3 * * *', keep_last: 2}\n")
        words = [*words[:3], "--config", str(config), *words[3:], "--scheduled"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()  # it was due long ago
        child.send_signal(number)
        _, err = child.communicate(timeout=60)
    assert json.loads(line)["sessions"][0]["snapshots"] == 6
    assert (child.returncode, "next: " in err) == (0, True)
    with open_agent_store(url) as store:
        assert len(store.snapshots("s")) == 2
