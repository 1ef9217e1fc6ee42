"""Metrics as a scrape sees them: what was done and how the store stands, in names and labels that are bounded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import perdure
from perdure import limits
from perdure.errors import DamageError, RefusedError, StoreFailedError
from perdure.ops import measures
from perdure.ops.measures import MEASURES, OTHER
from perdure.ops.overview import look_over
from perdure.recovery import FailurePolicy, ProgressPolicy
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.testing.broken import Passing

PAGE = (Path(__file__).resolve().parents[2] / "docs/metrics.md").read_text()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "agents.db")


def scraped(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What the parser of Prometheus reads: the value of each name with labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return scraped(text)[name, tuple(sorted(labels.items()))]


@perdure.action(effect="once")
def pay(amount: int) -> int:
    return amount


@perdure.action(effect="repeatable", retries=1, backoff_s=0.0)
def flaky(errors: list[int]) -> int:
    del errors
    if FAILS.pop():
        raise OSError("no")
    return 1


FAILS: list[bool] = []


@perdure.agent
def working(s: perdure.Session) -> str:
    s.state["paid"] = s.call(pay, 3)
    s.save()
    s.call(flaky, [])
    return str(s.ask("more?", key="more"))


def worked(store: AgentStore, session: str = "a") -> None:
    FAILS[:] = [False, True]
    store.run(working, session)
    store.answer(session, "more", "yes")
    assert store.run(working, session).status == "completed"


def test_a_scrape_tells_what_was_done_by_the_five_names_and_the_others(url):
    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        worked(store)
        text = metrics.text()
    assert value(text, "snapshot_duration_seconds_count") == 2
    assert value(text, "snapshot_duration_seconds_sum") > 0
    assert value(text, "snapshot_size_bytes_count") == 2
    assert value(text, "recovery_duration_seconds_count") == 1
    assert value(text, "recovery_success_total", status="waiting") == 1
    assert value(text, "recovery_failure_total", error="damage") == 0
    assert value(text, "perdure_actions_total", action="pay", effect="once", how="result") == 1
    assert value(text, "perdure_actions_total", action="flaky", effect="repeatable", how="error") == 1
    assert value(text, "perdure_action_errors_total", action="flaky", error="OSError") == 1
    assert value(text, "perdure_action_retries_total", action="flaky") == 1
    assert value(text, "perdure_action_duration_seconds_count", action="flaky", effect="repeatable") == 2
    assert value(text, "perdure_runs_total", status="completed") == 1
    assert value(text, "perdure_questions_total") == value(text, "perdure_decisions_total", kind="answered") == 1
    assert value(text, "perdure_runs_running") == value(text, "perdure_actions_running") == 0
    assert value(text, "perdure_leases_held") == 0
    assert value(text, "perdure_sessions", status="completed") == value(text, "perdure_store_up") == 1


def test_records_and_bytes_are_those_of_the_log(url):
    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        worked(store)
        found = scraped(metrics.text())
        records = list(store.log("a"))
    told = {dict(labels)["kind"]: count for (name, labels), count in found.items() if name == "perdure_records_total"}
    assert told == {kind: sum(r.kind == kind for r in records) for kind in {r.kind for r in records}}
    assert found["perdure_store_records", ()] == found["perdure_largest_session_records", ()] == len(records)
    assert found["perdure_journal_bytes_total", ()] > 0


def test_every_measure_is_scraped_and_nothing_else_is(url):
    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        worked(store)
        families = {family.name: family for family in text_string_to_metric_families(metrics.text())}
    names = {name.removesuffix("_total"): measure for name, measure in MEASURES.items()}
    there = {name: family for name, family in families.items() if not name.endswith("_created")}
    assert set(there) == set(names)
    for name, family in there.items():
        assert family.type == names[name].kind
        assert {label for s in family.samples for label in s.labels} - {"le"} <= set(names[name].labels)


@pytest.mark.parametrize("measure", MEASURES.values(), ids=lambda measure: measure.name)
def test_the_page_tells_of_each_with_its_kind_and_labels(measure: measures.Measure):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{measure.name}` |")]
    _, _, kind, labels, what, _ = (cell.strip() for cell in row.split("|"))
    assert kind == measure.kind
    assert tuple(re.findall(r"`(\w+)`", labels)) == measure.labels
    assert what


def test_the_page_tells_of_no_other():
    assert set(re.findall(r"^\| `((?:perdure|snapshot|recovery)_\w+)` \|", PAGE, re.MULTILINE)) == set(MEASURES)


def test_names_of_actions_beyond_the_bound_are_other_and_no_session_is_ever_a_label(url, monkeypatch):
    monkeypatch.setattr(limits, "LABELS_COUNT_MAX", 2)
    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        for n in range(4):
            with store.session(f"very-own-{n}") as s:
                s.action(pay, name=f"pay-{n}")(n)
        text = metrics.text()
    actions = {dict(labels)["action"] for name, labels in scraped(text) if name == "perdure_actions_total"}
    assert actions == {"pay-0", "pay-1", OTHER}
    assert value(text, "perdure_actions_total", action=OTHER, effect="once", how="result") == 2
    assert "very-own" not in text


def test_a_prefix_goes_before_the_five_names_only(url):
    with perdure.open(url) as store:
        metrics = store.metrics(own=True, prefix="agents_")
        worked(store)
        text = metrics.text()
    assert value(text, "agents_snapshot_size_bytes_count") == 2
    assert "\nperdure_runs_running" in text
    assert "\nsnapshot" not in text


def test_a_rollback_a_failed_run_and_effects_left_standing_are_counted(url):
    def agent(s: perdure.Session) -> None:
        s.checkpoint("start")
        if s.strategy is None:
            s.call(pay, 1)
            s.rollback("start", reason="no", strategy="slower")
        raise ValueError("still no")

    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        store.run(agent, "a")
        text = metrics.text()
    assert value(text, "perdure_rollbacks_total", by="agent", strategy="slower") == 1
    assert value(text, "perdure_effects_standing_total") == 1
    assert value(text, "perdure_runs_total", status="failed") == 1
    assert value(text, "perdure_sessions", status="failed") == 1


def test_what_actions_cost_what_failed_and_what_was_chosen_is_counted(url):
    @perdure.action(effect="repeatable", cost=lambda reply: {"usd": 0.5, "tokens": len(reply)})
    def ask() -> str:
        return "seven!!"

    @perdure.action(effect="repeatable")
    def read() -> str:
        raise ValueError("no")

    @perdure.agent(failures=FailurePolicy(after=1, strategies=("fast", "slow")))
    def agent(s: perdure.Session) -> str:
        if s.strategy == "slow":
            return s.call(ask)
        return s.call(read)

    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        assert store.run(agent, "a").status == "completed"
        text = metrics.text()
    action = "ask"
    assert value(text, "perdure_cost_total", action=action, unit="usd") == 0.5
    assert value(text, "perdure_cost_total", action=action, unit="tokens") == 7
    found = scraped(text)
    assert sum(count for (name, _), count in found.items() if name == "perdure_failures_total") == 1
    assert value(text, "perdure_choices_total", do="next") == 1
    assert value(text, "perdure_rollbacks_total", by="policy", strategy="slow") == 1


@pytest.mark.parametrize("retries", [1, 0], ids=["tried-again-at-once", "entry-run-again"])
def test_what_is_paid_for_at_the_second_attempt_is_counted_under_the_name_of_the_action(url, retries):
    busy = [ConnectionError("busy")]

    @perdure.action(effect="repeatable", cost=lambda _: {"usd": 0.5, "refund": -1.0})
    def ask() -> str:
        if busy:
            raise busy.pop()
        return "seven"

    @perdure.agent(failures=FailurePolicy(retries=retries, backoff_s=0.001))
    def agent(s: perdure.Session) -> str:
        return s.call(ask)

    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        assert store.run(agent, "a").result == "seven"
        text = metrics.text()
    costs = {key: count for key, count in scraped(text).items() if key[0] == "perdure_cost_total"}
    assert costs == {("perdure_cost_total", (("action", "ask"), ("unit", "usd"))): 0.5}
    assert value(text, "perdure_action_retries_total", action="ask") == 1
    assert value(text, "perdure_records_total", kind="status") > 0, "what comes behind a refund is counted"


def test_an_agent_that_goes_in_circles_is_counted(url):
    @perdure.action(effect="repeatable")
    def model(messages: list[str]) -> str:
        del messages
        return "look"

    @perdure.action(effect="repeatable")
    def look() -> str:
        return "nothing"

    @perdure.agent(progress=ProgressPolicy(repeat_count=3, reply_count=0))
    def agent(s: perdure.Session) -> None:
        for _ in range(3):
            s.call(model, ["what next?"])
            s.call(look)

    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        before = value(metrics.text(), "perdure_judged_total", what="circling")
        store.run(agent, "a")
        assert before == 0 < value(metrics.text(), "perdure_judged_total", what="circling")


class Failing(Passing):
    error: Exception | None = None

    def append(self, *args, **kwargs):
        if self.error is not None:
            raise self.error
        return super().append(*args, **kwargs)

    def heads(self, **kwargs):
        if self.error is not None:
            raise self.error
        return super().heads(**kwargs)


def test_failed_saves_failed_restores_and_a_store_that_is_down_are_seen(url, monkeypatch):
    monkeypatch.setattr(limits, "OVERVIEW_S", 0.0)
    backend = Failing(open_store(url))
    with AgentStore(backend) as store:
        metrics = store.metrics(own=True)
        with store.session("a") as s:
            s.state["n"] = 1
            backend.error = StoreFailedError("full")
            with pytest.raises(StoreFailedError):
                s.save()
            down = metrics.text()
            backend.error = None
        backend.read = lambda *_a, **_k: (_ for _ in ()).throw(DamageError("damaged"))
        with pytest.raises(DamageError):
            store.session("a")
        text = metrics.text()
    assert value(down, "perdure_commit_failures_total", error="store-failed") == 1
    assert value(down, "perdure_store_up") == 0
    assert value(text, "perdure_store_up") == 1
    assert value(text, "recovery_failure_total", error="damage") == 1


def test_what_waits_and_what_nobody_runs_any_more_is_seen_with_its_age(url):
    def hangs() -> None:
        raise KeyboardInterrupt

    def asks(s: perdure.Session) -> None:
        s.ask("sure?")

    with perdure.open(url) as store:
        store.run(asks, "asks")
        with pytest.raises(KeyboardInterrupt):
            store.run(lambda s: s.call(hangs), "doubt")
        killed = store.backend.lease("doubt")
        found = look_over(store.backend)
        assert (found.statuses["waiting"], found.statuses["interrupted"]) == (1, 1)
        assert (found.questions.count, found.doubts.count, found.ownerless.count) == (1, 0, 1)
        assert not killed.owner
        outcome = store.run(lambda s: s.call(hangs), "doubt")
        assert outcome.status == "waiting"
        text = store.metrics(own=True, counts=False).text()
    assert value(text, "perdure_in_doubt_actions") == value(text, "perdure_open_questions") == 1
    assert value(text, "perdure_in_doubt_age_seconds") > 0
    assert value(text, "perdure_sessions_without_owner") == 0


def test_one_that_runs_elsewhere_is_running_and_what_is_not_counted_is_not_shown(url):
    with perdure.open(url) as other, other.session("a"), perdure.open(url) as store:
        text = store.metrics(own=True, counts=False).text()
    assert value(text, "perdure_sessions", status="running") == 1
    assert "perdure_runs_total" not in text


def test_a_look_is_not_repeated_for_scrapes_that_come_close_together(url, monkeypatch):
    looks = []
    with perdure.open(url) as store:
        heads = store.backend.heads
        monkeypatch.setattr(store.backend, "heads", lambda **kwargs: looks.append(1) or heads(**kwargs))
        metrics = store.metrics(own=True)
        metrics.text()
        metrics.text()
    assert len(looks) == 1


def test_a_look_reads_no_log(url, monkeypatch):
    with perdure.open(url) as store:
        worked(store)
        monkeypatch.setattr(store.backend, "read", lambda *_a, **_k: pytest.fail("a log was read"))
        assert look_over(store.backend).statuses["completed"] == 1


def test_two_stores_have_one_registry_and_the_same_twice_is_refused(tmp_path):
    with perdure.open(str(tmp_path / "a.db")) as one, perdure.open(str(tmp_path / "b.db")) as two:
        registry = CollectorRegistry()
        metrics = one.metrics(registry=registry)
        with pytest.raises(RefusedError, match="also"):
            two.metrics(registry=registry)
        metrics.also(two)
        worked(one)
        worked(two)
        text = metrics.text()
        assert value(text, "perdure_runs_total", status="completed") == 2
        assert value(text, "perdure_sessions", status="completed") == 2
        metrics.close()
        two.metrics(registry=registry).close()
        worked(one, "after")
    assert metrics.text() == ""


def test_it_is_served_on_this_machine_alone_and_written_to_a_file_whole(url, tmp_path):
    with perdure.open(url) as store:
        metrics = store.metrics(own=True)
        served = metrics.serve(0)
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics") as answer:
            text = answer.read().decode()
        served.stop()
        metrics.write(tmp_path / "perdure.prom")
    assert value(text, "perdure_store_up") == 1
    assert value((tmp_path / "perdure.prom").read_text(), "perdure_store_up") == 1
    assert [path.name for path in tmp_path.glob("*.prom*")] == ["perdure.prom"]


def test_many_threads_count_right(url):
    with perdure.open(url) as store:
        metrics = store.metrics(own=True)

        def work(name: str) -> None:
            with store.session(name) as s:
                for n in range(25):
                    s.call(pay, n)

        threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert value(metrics.text(), "perdure_actions_total", action="pay", effect="once", how="result") == 100


def test_the_command_prints_serves_and_writes(url, tmp_path):
    with perdure.open(url) as store:
        worked(store)

    def program(*words: str) -> str:
        command = [sys.executable, "-m", "perdure.cli", "metrics", "--store", url, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert value(program(), "perdure_sessions", status="completed") == 1
    found = {(each["name"], *each["labels"].values()): each["value"] for each in json.loads(program("--json"))}
    assert found["perdure_sessions", "completed"] == 1
    program("--file", str(tmp_path / "a.prom"))
    assert value((tmp_path / "a.prom").read_text(), "perdure_store_up") == 1
    command = [sys.executable, "-m", "perdure.cli", "metrics", "--store", url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_unbuffered()) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[2].rstrip(";")
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - it is ours
            assert value(answer.read().decode(), "perdure_store_up") == 1
        serving.terminate()
        assert serving.wait(30) == 0


def _unbuffered() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def test_without_the_extra_it_is_named():
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import perdure\n"
        "store = perdure.open('memory:')\n"
        "try: store.metrics()\n"
        "except perdure.PerdureError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "metrics need an extra that is not installed: pip install 'perdure[metrics]'\n"
