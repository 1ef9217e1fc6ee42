"""Every section acts: what it says changes what is done, and what an agent declares is stronger."""

from __future__ import annotations

import json
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import limits
from perdure.cli.app import main
from perdure.errors import ConfigError, HookFailedError, KeyNeededError, RefusedError, SecretFoundError
from perdure.ops.config.sections import SECTIONS
from perdure.recovery import FailurePolicy, Hooks, ProgressPolicy, RestorePolicy
from perdure.runtime.store import AgentStore
from perdure.stores.keys import new_key


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("STORE", "CONFIG", "KEY", "WITNESS", "PASSWORD", "PROTOCOL", "SECRETS"):
        monkeypatch.delenv(f"PERDURE_{name}", raising=False)
    return tmp_path


def opened(text: str, **given: Any) -> AgentStore:
    Path("perdure.yaml").write_text(text)
    return perdure.open(**given)


@perdure.agent
def agent(s: perdure.Session) -> str:
    s.state["n"] = s.call(len, "four")
    s.save()
    return "done"


def test_the_store_is_that_of_the_file(here: Path) -> None:
    with opened("storage: {url: mine.db, lease_s: 3, busy_s: 2, witness: told}") as store:
        assert store.run(agent, "a").result == "done"
        assert store._lease_s == 3
    assert (here / "mine.db").exists()
    assert (here / "told").exists()


def test_a_url_alone_reads_no_file_and_one_with_a_configuration_goes_before_its(here: Path) -> None:
    Path("perdure.yaml").write_text("storage: {url: mine.db}\nrecovery: {use: exact}\n")
    with perdure.open("other.db") as store:
        assert store.settings.recovery is None
    with perdure.open("other.db", config="perdure.yaml") as store:
        assert store.settings.recovery == RestorePolicy("exact")
    with perdure.open("third.db", config=store.settings) as store:
        assert store.settings.recovery == RestorePolicy("exact")
    assert not (here / "mine.db").exists()
    assert (here / "third.db").exists()


def test_tiers_are_those_of_the_file(here: Path) -> None:
    with opened("storage: {url: 'tiered:', hot: hot.db, cold: cold.db}") as store:
        store.run(agent, "a")
    assert (here / "hot.db").exists()
    assert (here / "cold.db").exists()


def test_a_server_is_given_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def open_store(url: str, **options: Any) -> Any:
        given.update(options, url=url)
        raise InterruptedError

    monkeypatch.setattr("perdure.runtime.store.open_store", open_store)
    with pytest.raises(InterruptedError):
        opened("storage: {url: 'redis://me@host/0', password: secret://env/P}")
    assert given["password"] == perdure.Secret("secret://env/P")


def test_keyframes_are_made_as_often_as_the_file_says() -> None:
    def made(text: str) -> int:
        with opened(text) as store:
            with store.session("s") as s:
                for n in range(12):
                    s.state["n"] = n
                    s.save()
            return len(store.backend.keyframes("s"))

    assert made("storage: {url: 'memory:'}\nstate: {keyframe_deltas: 3}") > made("storage: {url: 'memory:'}")


def test_what_is_written_is_encoded_as_the_file_says() -> None:
    with opened("storage: {url: 'memory:'}\nserialization: {protocol: json}") as store:
        assert store.backend.protocol == "json"
    with opened("storage: {url: 'memory:'}\nserialization: {protocol: json}", protocol="msgpack") as store:
        assert store.backend.protocol == "msgpack"


def test_the_store_is_sealed_and_secrets_are_masked(here: Path) -> None:
    (here / "key").write_text(new_key())
    with opened("storage: {url: a.db}\nsecurity: {keys: 'file:key'}") as store:
        store.run(agent, "a")
    with pytest.raises(KeyNeededError):
        perdure.open("a.db")
    secret = "sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9" * 3
    for how in ("refuse", "mask"):
        with opened(f"storage: {{url: 'memory:'}}\nsecurity: {{secrets: {how}}}") as store, store.session("s") as s:
            s.state["text"] = secret
            if how == "refuse":
                with pytest.raises(SecretFoundError):
                    s.save()
                s.state["text"] = ""
            s.save()


def test_policies_stand_in_for_what_an_agent_does_not_declare() -> None:
    text = "storage: {url: 'memory:'}\nrecovery: {use: exact}\nprogress: {repeat_count: 9}\nfailure_policy: {after: 2}"

    @perdure.agent(restore="latest_valid", progress=ProgressPolicy(repeat_count=8))
    def declaring(s: perdure.Session) -> None:
        pass

    with opened(text) as store:
        plain, own = store._agent(agent), store._agent(declaring)
    assert (plain.restore, plain.progress) == (RestorePolicy("exact"), ProgressPolicy(repeat_count=9))
    assert plain.failures == FailurePolicy(after=2)
    assert (own.restore, own.progress, own.failures) == (
        "latest_valid",
        ProgressPolicy(repeat_count=8),
        FailurePolicy(after=2),
    )


def test_every_policy_of_an_agent_has_a_field_of_it_to_stand_in_for() -> None:
    fields = {section.agent for section in SECTIONS.values()} - {None}
    assert fields <= set(perdure.agent(agent).__perdure_agent__.__dataclass_fields__)  # type: ignore[attr-defined]


def test_failures_are_met_as_the_file_says() -> None:
    tried: list[Any] = []

    def failing(s: perdure.Session) -> None:
        s.save()
        tried.append(s.strategy)
        raise ValueError("not this way")

    text = (
        "storage: {url: 'memory:'}\nfailure_policy: {after: 1, strategies: [one, two], kinds: {ValueError: tool_error}}"
    )
    with opened(text) as store:
        assert store.run(failing, "a").status == "failed"
    assert len(tried) > 1


def test_snapshots_are_made_as_the_file_says() -> None:
    def calling(s: perdure.Session) -> None:
        for n in range(6):
            s.state["n"] = s.call(len, "x" * n)

    def made(text: str) -> int:
        with opened(f"storage: {{url: 'memory:'}}\n{text}") as store:
            store.run(calling, "a")
            return len(store.snapshots("a"))

    assert made("snapshot: {every_actions: 2}") > made("")


def test_gc_keeps_what_the_file_says() -> None:
    def kept(text: str) -> int:
        with opened(text) as store:
            with store.session("s") as s:
                for n in range(20):
                    s.state["n"] = n
                    s.save()
            return sum(one.kept for one in store.gc().sessions)

    few, many = (kept(f"storage: {{url: 'memory:'}}\nretention: {{keep_last: {n}}}") for n in (2, 15))
    assert few < many


def test_gc_is_scheduled_until_the_store_is_closed() -> None:
    store = opened("storage: {url: a.db}\nretention: {schedule: '0 3 * * *', zone: Europe/Berlin}")
    assert store.ending is not None
    store.close()
    with pytest.raises(RefusedError):
        opened("storage: {url: a.db}\nretention: {schedule: whenever}")


def test_the_journal_is_mirrored(here: Path) -> None:
    with opened("storage: {url: a.db}\njournal: {path: done.ndjson, max_bytes: 10 KB, backups: 2}") as store:
        store.run(agent, "a")
    (line,) = (here / "done.ndjson").read_text().splitlines()
    assert json.loads(line)["session"] == "a"


def test_metrics_are_served_and_alerts_watched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=r"perdure.yaml:2: metrics.port: cannot be listened at"):
            opened(f"storage: {{url: a.db}}\nmetrics: {{port: {port}}}\n")
    with opened(f"storage: {{url: a.db}}\nmetrics: {{port: {port}}}\nalerts: {{every_s: 1h}}\n") as store:
        store.run(agent, "a")
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert "perdure_runs_total" in text


def test_hooks_have_the_time_of_the_file_unless_they_say_another() -> None:
    @perdure.agent(hooks=Hooks(warm=lambda _scene: None))
    def plain(s: perdure.Session) -> None:
        pass

    @perdure.agent(hooks=Hooks(warm=lambda _scene: None, timeout_s=7.0))
    def own(s: perdure.Session) -> None:
        pass

    def limits_of(text: str) -> list[float]:
        with opened("storage: {url: 'memory:'}\n" + text) as store:
            return [store._agent(fn).hooks.limit_s for fn in (plain, own)]

    assert limits_of("hooks: {timeout_s: 2min}") == [120.0, 7.0]
    assert limits_of("") == [limits.HOOK_S, 7.0]
    with pytest.raises(ConfigError, match="above 0"):
        opened("hooks: {timeout_s: 0}")


def test_a_hook_that_takes_longer_than_the_file_says_ends_the_run() -> None:
    over = threading.Event()

    @perdure.agent(hooks=Hooks(reconnect=lambda _scene: over.wait(30)))
    def slow(s: perdure.Session) -> None:
        s.save()
        if s.restored is None:
            raise KeyboardInterrupt

    with opened("storage: {url: 'memory:'}\nhooks: {timeout_s: 0.05}") as store:
        with pytest.raises(KeyboardInterrupt):
            store.run(slow, "a")
        late = store.run(slow, "a")
        over.set()
        assert isinstance(late.error, HookFailedError)
        assert "did not come to its end in 0.05 s" in str(late.error)


COMMANDED = """
import perdure

@perdure.action(effect="repeatable")
def look(what):
    return what

@perdure.agent
def agent(s):
    s.checkpoint("start")
    look(s.strategy or "first")
    return s.ask("Go on?", key="go")
"""


def command(*words: str) -> int:
    """What a command ends with."""
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


@pytest.fixture
def commanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("agents.py").write_text(COMMANDED)


@pytest.mark.usefixtures("commanded")
def test_the_commands_that_run_agents_mirror_the_journal() -> None:
    Path("perdure.yaml").write_text("storage: {url: a.db}\njournal: {path: j.ndjson}\n")

    def mirrored() -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in Path("j.ndjson").read_text().splitlines()]
        return [(line["session"], line["result"]) for line in lines]

    assert command("run", "agents.py:agent", "--session", "a") == 75
    assert mirrored() == [("a", "first")]
    assert command("retry", "a", "--strategy", "second") == 75
    assert mirrored()[1:] == [("a", "second")]
    assert command("replay", "a", "--drive", "--into", "b", "--at", "start") == 75
    assert ("b", "first") in mirrored()[2:] or ("b", "second") in mirrored()[2:]


@pytest.mark.usefixtures("commanded")
def test_alerts_are_judged_by_the_limits_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("perdure.yaml").write_text("storage: {url: a.db}\n")
    assert command("run", "agents.py:agent", "--session", "a") == 75
    quiet = "storage: {url: a.db}\nalerts: {free_bytes_min: null, store_bytes_max: null, question_s_max: "
    for limit, comes in (("1d", 0), ("0", 79)):
        Path("perdure.yaml").write_text(f"{quiet}{limit}}}\n")
        assert command("alerts", "check") == comes
        assert command("alerts", "check", "--store", "a.db") == comes
    capsys.readouterr()
    assert command("alerts", "rules") == 0
    assert "perdure_open_questions_age_seconds) > 0" in capsys.readouterr().out


@pytest.mark.usefixtures("commanded")
def test_a_timetable_is_said_or_configured(capsys: pytest.CaptureFixture[str]) -> None:
    Path("perdure.yaml").write_text("storage: {url: a.db}\nretention: {keep_last: 2}\n")
    assert command("run", "agents.py:agent", "--session", "a") == 75
    for words, says in (
        (("--scheduled", "--yes"), "no timetable is configured"),
        (("--scheduled",), "say --yes"),
        (("--scheduled", "--every", "0 3 * * *", "--yes"), "one of them"),
        (("a", "--scheduled", "--yes"), "leave SESSION out"),
    ):
        assert command("gc", *words) == 2
        assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())
