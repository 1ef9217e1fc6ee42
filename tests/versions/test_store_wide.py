"""All sessions of a store are brought to one version: told first, done one by one; what cannot be is left as it is."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure.errors import RefusedError, SecretFoundError, SessionUnknownError
from perdure.session.keeping import migration as graph
from tests.versions.test_migrations import chain, noting, worker

VERSIONS = ("1", "2", "3", "4", "5")


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    monkeypatch.setattr(graph, "_steps", {})


@pytest.fixture(params=["memory:", "sqlite", "file"])
def store(request, tmp_path):
    urls = {"sqlite": f"sqlite:///{tmp_path}/a.db", "file": f"file:///{tmp_path}/a"}
    with perdure.open(urls.get(request.param, request.param)) as opened:
        yield opened


def fill(store) -> None:
    """Five versions, each with a session; one of a script, one that is over, one that a step in the middle refuses."""
    chain(*VERSIONS)
    perdure.migration("2", "4")(noting("4 from 2"))
    for version in VERSIONS:
        store.run(worker(version, fail=True), f"at {version}")
    store.run(worker("1"), "over")
    store.run(perdure.agent(version="1")(lambda s: s.ask("?", key="k")), "script")
    with store.session("odd", version="1") as s:
        s.state["odd"] = True

    @perdure.migration("3", "4")
    def refuses_odd(state):
        if state.get("odd"):
            raise ValueError("it is odd")
        noting("4")(state)

    graph._steps.pop(("", "2", "4"))


def logs(store):
    return {info.id: [*store.log(info.id)] for info in store.sessions()}


@pytest.fixture
def _odd(monkeypatch):
    """The step from 3 to 4 may be declared anew by `fill`."""
    monkeypatch.setattr(graph, "_check", lambda step: None)


@pytest.mark.usefixtures("_odd")
def test_a_dry_run_tells_what_would_be_done_and_writes_nothing(store):
    fill(store)
    before = logs(store)
    dry = store.migrate("5", fn=worker("5"), dry_run=True)
    assert logs(store) == before
    told = {one.session: (one.what, one.source, one.steps) for one in dry.sessions}
    assert told == {
        "at 1": ("migrated", "1", ("2", "3", "4", "5")),
        "at 2": ("migrated", "2", ("3", "4", "5")),
        "at 3": ("migrated", "3", ("4", "5")),
        "at 4": ("migrated", "4", ("5",)),
        "at 5": ("current", "5", ()),
        "odd": ("failed", "1", ()),
        "over": ("over", "1", ()),
        "script": ("script", "1", ()),
    }
    assert "3 to 4" in next(one.why for one in dry.sessions if one.what == "failed")
    assert next(one.changes for one in dry.sessions if one.session == "at 4") == ("set $.came",)
    done = store.migrate("5", fn=worker("5"))
    assert [(one.session, one.what, one.steps) for one in done.sessions] == [
        (one.session, one.what, one.steps) for one in dry.sessions
    ]
    assert store.state_at("at 1") == {"a": 1, "came": ["2", "3", "4", "5"]}
    assert store.state_at("odd") == {"odd": True}
    with store.session("odd", version="1") as s:
        assert s.state == {"odd": True}
    assert [store.verify(info.id).ok for info in store.sessions()] == [True] * 8


@pytest.mark.usefixtures("_odd")
def test_done_again_it_does_only_what_is_left(store):
    fill(store)
    heard: list[str] = []
    part = store.migrate(
        "5", fn=worker("5"), on_each=lambda one: heard.append(one.session), stop=lambda: len(heard) == 2
    )
    assert part.stopped
    assert heard == ["at 1", "at 2"]
    whole = store.migrate("5", fn=worker("5"))
    assert whole.counts == {"current": 3, "migrated": 2, "failed": 1, "over": 1, "script": 1}
    assert store.migrate("5", fn=worker("5"), prefix="at ").counts == {"current": 5}


def test_what_is_held_is_told_and_left(store):
    chain("1", "2")
    with store.session("h", version="1") as s:
        s.state["n"] = 1
    with store.session("h", version="1"):
        for dry_run in (True, False):
            (one,) = store.migrate("2", session="h", dry_run=dry_run).sessions
            assert (one.what, "held" in one.why) == ("held", True)
    assert store.migrate("2", session="h").counts == {"migrated": 1}


def test_only_sessions_of_the_function_that_is_named_are_meant(store):
    chain("1", "2")

    for name in ("one", "two"):
        agent = worker("1", fail=True)
        agent.__module__, agent.__qualname__ = "acme.agents", name
        store.run(agent, name)
    new = worker("2")
    new.__module__, new.__qualname__ = "acme.agents", "one"
    assert {o.session: o.what for o in store.migrate("2", fn=new).sessions} == {"one": "migrated", "two": "other"}
    assert store.migrate("2", fn=new, session="two").counts == {"migrated": 1}
    assert {o.session: o.what for o in store.migrate("3").sessions} == {"one": "failed", "two": "failed"}


def test_a_secret_that_a_step_would_put_there_is_told_by_the_dry_run_too(store):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    perdure.migration("1", "2")(lambda state: {**state, "note": secret})
    with store.session("h", version="1") as s:
        s.state["n"] = 1
    for dry_run in (True, False):
        (one,) = store.migrate("2", dry_run=dry_run).sessions
        assert (one.what, "$.note" in one.why, secret in one.why) == ("failed", True, False)
    with pytest.raises(SecretFoundError):
        store.edit("h", {"note": secret})
    assert store.state_at("h") == {"n": 1}


def test_a_version_is_a_short_text(store):
    for version in (1, "x" * 1000):
        with pytest.raises(RefusedError, match="version"):
            store.session("h", version=version)


def test_one_that_is_named_must_be_there(store):
    with pytest.raises(SessionUnknownError):
        store.migrate("2", session="nobody")


def test_in_an_event_loop(store):
    chain("1", "2")
    with store.session("h", version="1") as s:
        s.state["n"] = 1
    assert asyncio.run(store.aio.migrate("2")).counts == {"migrated": 1}
    assert asyncio.run(store.aio.edit("h", {"n": 2})) == [*store.log("h")][-1].seq
    assert store.state_at("h") == {"n": 2, "came": ["2"]}
