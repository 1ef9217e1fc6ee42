"""Alerts fire and clear, here and in Prometheus by the same rules, and ask for no metric that is not there."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path

import promql_parser
import pytest
import yaml

import perdure
from perdure import clock, limits
from perdure.errors import RefusedError, StoreFailedError
from perdure.ops import Alert, AlertPolicy, Alerts, Rule
from perdure.ops.alerts import dashboard, reading
from perdure.ops.alerts.rules_file import rules_file
from perdure.ops.measures import MEASURES
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.stores.contract import Health
from perdure.testing.broken import Passing

PAGE = (Path(__file__).resolve().parents[2] / "docs/alerts.md").read_text()
RULES = AlertPolicy().rules()
SERIES = {series for measure in MEASURES.values() for series in measure.series}


class Ticking:
    """A clock that goes on when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(clock, "monotonic_s", lambda: self.now_s)
        monkeypatch.setattr(limits, "OVERVIEW_S", 0.0)


class Place(Passing):
    """A store that says of its disk what it is told, and fails when it is told."""

    said = Health(used=0, free=1 << 40)
    error: Exception | None = None

    def health(self, *, deep: bool) -> Health:
        return self.said

    def append(self, *args, **kwargs):
        if self.error is not None:
            raise self.error
        return super().append(*args, **kwargs)

    def heads(self, **kwargs):
        if self.error is not None:
            raise self.error
        return super().heads(**kwargs)


@pytest.fixture
def time(monkeypatch):
    return Ticking(monkeypatch)


@pytest.fixture
def place(tmp_path):
    return Place(open_store(str(tmp_path / "agents.db")))


@pytest.fixture
def store(place, time):
    with AgentStore(place) as opened:
        yield opened


def watched(store: AgentStore, **limits_of: float) -> tuple[Alerts, list[tuple[str, bool]]]:
    told: list[tuple[str, bool]] = []
    alerts = Alerts(
        store.metrics(own=True),
        AlertPolicy(**limits_of),
        on_change=lambda alert: told.append((alert.rule.name, alert.fires)),
    )
    return alerts, told


# --- firing and clearing --------------------------------------------------------------------------------------------


def test_a_full_disk_fires_at_its_limit_and_clears_only_well_above_it(store, place, time, caplog):
    alerts, told = watched(store, free_bytes_min=1000)
    assert alerts.check() == ()
    with caplog.at_level(logging.INFO, "perdure.alerts"):
        for free in (1000, 999, 1001, 1249, 1250, 1250):
            place.said = Health(used=0, free=free)
            time.now_s += 30
            alerts.check()
    assert told == [("PerdureDiskFull", True), ("PerdureDiskFull", False)]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "perdure gc" in caplog.records[0].getMessage()


def test_failed_saves_fire_and_clear_once_none_has_failed_for_a_window(store, place, time):
    alerts, told = watched(store, is_down_s_max=None)
    alerts.check()
    with store.session("a") as s:
        s.state["n"] = 1
        place.error = StoreFailedError("full")
        with pytest.raises(StoreFailedError):
            s.save()
        place.error = None
        s.save()
    for _ in range(12):
        time.now_s += 60
        alerts.check()
    assert told == [("PerdureFailedSaves", True), ("PerdureFailedSaves", False)]


def test_slow_saves_fire_after_a_while_and_clear_when_they_are_fast_or_there_are_none(store, place, time, monkeypatch):
    alerts, told = watched(store, save_s_max=0.5)
    append = place.append

    def slow(*args, **kwargs):
        time.now_s += 0.9
        return append(*args, **kwargs)

    with store.session("a") as s:

        def saves() -> None:
            for n in range(3):
                s.state["n"] = time.now_s + n
                s.save()
            time.now_s += 30
            alerts.check()

        saves()
        monkeypatch.setattr(place, "append", slow)
        saves()
        assert told == []
        saves()
        saves()
        assert told == [("PerdureSlowSaves", True)]
        monkeypatch.undo()
        monkeypatch.setattr(clock, "monotonic_s", lambda: time.now_s)
        time.now_s += 400
        alerts.check()
        time.now_s += 400
        alerts.check()
    assert told == [("PerdureSlowSaves", True), ("PerdureSlowSaves", False)]


def test_growth_fires_on_its_rate_not_on_the_size(store, place, time):
    alerts, told = watched(store, growth_bytes_per_hour_max=3600, store_bytes_max=None)
    used = 10**12
    for grows in [0] * 3 + [60] * 14 + [0] * 70:  # a byte a second is allowed
        used += 2 * grows
        place.said = Health(used=used, free=1 << 40)
        time.now_s += 60
        alerts.check()
    assert told == [("PerdureGrowth", True), ("PerdureGrowth", False)]


def test_a_session_without_owner_fires_when_it_has_been_so_for_long_and_clears_when_it_is_resumed(store, time):
    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(lambda s: s.call(killed), "a")
    alerts, told = watched(store, ownerless_s_max=0.0)
    alerts.check()
    assert told == [("PerdureWithoutOwner", True)]
    store.run(lambda s: s.call(killed), "a")
    alerts.check()
    assert told[-1] == ("PerdureWithoutOwner", False)


def test_what_waits_for_a_person_for_too_long_fires(store, time):
    store.run(lambda s: s.ask("sure?", key="sure"), "a")
    alerts, told = watched(store, question_s_max=0.0)
    alerts.check()
    assert told == [("PerdureUnanswered", True)]


def test_a_store_that_is_down_fires_after_its_time_and_what_is_unknown_stays_as_it_was(store, place, time):
    alerts, told = watched(store, is_down_s_max=60, free_bytes_min=1000)
    place.said = Health(used=0, free=1)
    alerts.check()
    place.error = StoreFailedError("gone")
    for _ in range(4):
        time.now_s += 30
        alerts.check()
    assert told == [("PerdureDiskFull", True), ("PerdureStoreDown", True)]
    place.error = None
    alerts.check()
    assert told[-1] == ("PerdureStoreDown", False)
    assert [alert.rule.name for alert in alerts.firing] == ["PerdureDiskFull"]


def test_somebody_who_is_told_and_raises_stops_nothing(store, place, caplog):
    def broken(_alert: Alert) -> None:
        raise ZeroDivisionError

    place.said = Health(used=1 << 60, free=1)
    alerts = Alerts(store.metrics(own=True), on_change=broken)
    with caplog.at_level(logging.ERROR, "perdure.alerts"):
        assert {alert.rule.name for alert in alerts.check()} == {"PerdureDiskFull", "PerdureStoreLarge"}
    assert len(caplog.records) == 2


def test_watching_looks_by_itself_until_it_is_stopped(place):
    told = threading.Event()
    place.said = Health(used=0, free=1)
    with AgentStore(place) as store:
        alerts = Alerts(store.metrics(own=True), AlertPolicy(every_s=3600), on_change=lambda _alert: told.set())
        stop = alerts.watch()
        assert told.wait(30)
        stop()


def test_a_limit_of_none_is_never_and_one_that_makes_no_sense_is_refused():
    none = {f.name: None for f in dataclasses.fields(AlertPolicy) if "None" in str(f.type)}
    assert AlertPolicy(**none).rules() == ()
    for wrong in (
        {"free_bytes_min": -1},
        {"clears_at": 0.0},
        {"clears_at": 2.0},
        {"every_s": 0.0},
        {"save_s_max": True},
    ):
        with pytest.raises(RefusedError, match=next(iter(wrong))):
            AlertPolicy(**wrong)


@pytest.mark.parametrize(
    ("share", "buckets", "expected"),
    [
        (0.5, {1.0: 10, 2.0: 10, float("inf"): 10}, 0.5),
        (0.99, {1.0: 0, 2.0: 100, float("inf"): 100}, 1.99),
        (0.99, {1.0: 0, 2.0: 0, float("inf"): 5}, 2.0),
        (0.99, {1.0: 0, float("inf"): 0}, None),
        (0.99, {}, None),
    ],
)
def test_a_quantile_is_what_prometheus_makes_of_the_buckets(share, buckets, expected):
    assert reading.quantile(share, buckets) == pytest.approx(expected)


# --- the files ------------------------------------------------------------------------------------------------------


def names_in(expression: str) -> set[str]:
    """The series that an expression asks for, as the parser of PromQL reads it."""
    promql_parser.parse(expression.replace("$__rate_interval", "5m"))  # raises for what is none
    return set(re.findall(r"\b(?:perdure|snapshot|recovery|agents)_\w+", expression))


def test_each_rule_of_the_file_is_one_that_prometheus_reads_and_asks_for_a_metric_that_is_there():
    (group,) = yaml.safe_load(rules_file(RULES))["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [rule.name for rule in RULES]
    for rule in group["rules"]:
        assert names_in(rule["expr"]) <= SERIES
        assert set(rule) == {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
        assert re.fullmatch(r"\d+s", rule["for"])


def test_the_labels_that_a_rule_asks_for_are_those_of_its_metric():
    for rule in RULES:
        assert set(rule.where) <= set(MEASURES[rule.metric].labels)
        assert rule.limit == rule.clears or (rule.clears < rule.limit) == (rule.side == "above")


def test_a_prefix_goes_into_both_files():
    assert "agents_snapshot_duration_seconds_bucket" in rules_file(RULES, prefix="agents_")
    text = dashboard.dashboard(prefix="agents_")
    assert "agents_snapshot_size_bytes_bucket" in text
    assert "agents_perdure" not in text


def test_the_dashboard_shows_every_metric_and_no_other():
    shown = json.loads(dashboard.dashboard())
    graphs = [panel for panel in shown["panels"] if panel["type"] == "timeseries"]
    asked = {name for panel in graphs for target in panel["targets"] for name in names_in(target["expr"])}
    assert asked <= SERIES
    assert {p["id"] for p in shown["panels"]} == set(range(1, len(shown["panels"]) + 1))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in shown["panels"])
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in shown["panels"]]
    assert len(places) == len(set(places))


def test_the_page_tells_of_each_rule_and_each_limit():
    assert set(re.findall(r"^\| `(Perdure\w+)` \|", PAGE, re.MULTILINE)) == {rule.name for rule in RULES}
    assert {f.name for f in dataclasses.fields(AlertPolicy)} <= set(re.findall(r"`(\w+)`", PAGE))


# --- the command ----------------------------------------------------------------------------------------------------


def program(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure.cli", "alerts", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_tells_whether_somebody_needs_to_look(tmp_path, monkeypatch):
    url = str(tmp_path / "agents.db")
    with perdure.open(url) as store:
        store.run(lambda s: s.ask("sure?"), "a")
    quiet = program("check", "--store", url)
    assert (quiet.returncode, quiet.stdout) == (0, "nobody needs to look\n")
    with perdure.open(url) as store:
        monkeypatch.setattr(clock, "now_us", lambda: 1)
        store.run(lambda s: s.ask("sure?"), "b")
    loud = program("--store", url)
    assert loud.returncode == 79
    assert loud.stdout.startswith("warning: PerdureUnanswered: ")
    (found,) = json.loads(program("check", "--store", url, "--json").stdout)
    assert (found["alert"], found["limit"]) == ("PerdureUnanswered", 86_400.0)


def test_the_command_prints_the_files():
    assert yaml.safe_load(program("rules").stdout)["groups"][0]["name"] == "perdure"
    assert json.loads(program("dashboard").stdout)["title"] == "perdure"


def test_a_rule_of_ones_own_is_judged_like_any_other(store, place, time):
    rule = Rule(
        name="Any", metric="perdure_sessions", where={"status": "idle"}, limit=0, clears=0, says="Some are idle."
    )
    alerts = Alerts(store.metrics(own=True), rules=[rule])
    assert alerts.check() == ()
    store.session("a").close(save=True)
    (alert,) = alerts.check()
    assert alert.text() == "Any: 1, above 0. Some are idle."
    assert promql_parser.parse(rule.condition())
