"""What looks like a secret does not get into a store without keys, and the run sees what is stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import RefusedError, SecretFoundError, SecretMissingError, UnstorableError

TOKEN = "sk-" + "proj-" + "aB3dE6gH9k" * 4
MASK = "[secret]"
LOGIN = {"user": "ann", "access_token": TOKEN}


@pytest.fixture(params=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:///{tmp_path}/store"


def opened(url: str, secrets: str | None = None) -> perdure.AgentStore:
    return perdure.open(url, secrets=secrets)


def login(user: str) -> dict[str, str]:
    return LOGIN | {"user": user}


def fail(text: str) -> None:
    raise ValueError(text)


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[None]:
    """Nothing of the token is in any file, at the end."""
    yield
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes(), path


def test_a_secret_in_the_state_is_refused_with_its_path_and_nothing_is_written(url: str, clean: None) -> None:
    with opened(url) as store:
        with store.session("a") as s:
            s.state["plan"] = {"clients": [{"password": "hunter2"}]}
            with pytest.raises(SecretFoundError, match=r"^\$\.plan\.clients\[0\]\.password: ") as raised:
                s.save()
            assert "hunter2" not in str(raised.value)
            s.state["plan"]["clients"][0]["password"] = perdure.Secret("secret://env/DB_PASSWORD")
            s.save()
        assert store.state_at("a")["plan"]["clients"][0]["password"].reference == "secret://env/DB_PASSWORD"


@pytest.mark.parametrize("policy", ["refuse", "mask"])
def test_a_result_is_kept_with_a_mask_and_never_paid_twice(url: str, policy: str, clean: None) -> None:
    calls: list[str] = []

    def log_in(user: str) -> dict[str, str]:
        calls.append(user)
        return login(user)

    def agent(s: perdure.Session) -> Any:
        found = s.call(log_in, "ann")
        if len(seen) == 0:
            seen.append(found)
            raise OSError("cut")
        return found

    seen: list[Any] = []
    with opened(url, policy) as store:
        assert store.run(agent, "a").status == "failed"
        outcome = store.run(agent, "a")
        assert outcome.result == seen[0] == {"user": "ann", "access_token": MASK}
        assert calls == ["ann"]


@pytest.mark.parametrize("policy", ["refuse", "mask"])
def test_an_error_is_the_same_live_and_replayed_and_quotes_no_secret(url: str, policy: str, clean: None) -> None:
    told: list[str] = []

    def bad() -> None:
        raise ValueError(f"no access with {TOKEN}")

    def agent(s: perdure.Session) -> None:
        try:
            s.call(bad)
        except ValueError as error:
            told.append(f"{error!r} {error.__cause__!r}")
        if len(told) == 1:
            raise OSError("cut")

    with opened(url, policy) as store:
        store.run(agent, "a")
        store.run(agent, "a")
    assert told == [f"ValueError('no access with {MASK}') None"] * 2


def test_an_argument_is_refused_before_the_effect(url: str, clean: None) -> None:
    happened: list[str] = []

    def post(text: str) -> None:
        happened.append(text)

    with opened(url) as store, store.session("a") as s:
        with pytest.raises(SecretFoundError, match="argument text of"):
            s.action(post, name="post")(TOKEN)
        assert happened == []
        s.call(login, "ann")  # and the session goes on


def test_an_argument_is_masked_in_the_record_and_not_for_the_function(url: str, clean: None) -> None:
    got: list[str] = []
    with opened(url, "mask") as store:
        with store.session("a") as s:
            s.action(got.append, name="post")(TOKEN)
        assert got == [TOKEN]
        assert store.action("a", 3).arguments == {"object": MASK} or MASK in str(store.action("a", 3))


def test_a_key_and_what_an_undo_needs_are_never_masked(url: str, clean: None) -> None:
    def post(text: str) -> None:
        raise AssertionError(text)

    def unpost(text: str) -> None:
        raise AssertionError(text)

    with opened(url, "mask") as store:
        with store.session("a") as s:
            with pytest.raises(SecretFoundError, match="key of"):
                s.action(post, key=("k", TOKEN))("x")
            with pytest.raises(SecretFoundError, match="argument text"):
                s.action(post, undo=unpost)(TOKEN)
        with pytest.raises(SecretFoundError, match="id"):
            store.session(f"s-{TOKEN[:3]}".replace("s-sk-", TOKEN))


def test_a_state_is_masked_in_memory_once_and_said(url: str, clean: None, caplog: pytest.LogCaptureFixture) -> None:
    with opened(url, "mask") as store:
        with store.session("a") as s:
            inner = {"api_key": "abc-123-def", "text": f"use {TOKEN} here"}
            s.state["config"] = {"clients": [inner, (TOKEN, 1)]}
            s.state["token"] = TOKEN
            with caplog.at_level(logging.WARNING, "perdure.secrets"):
                s.save()
            assert s.state["config"]["clients"][0] is inner
            live = {"config": s.state["config"], "token": s.state["token"]}
            assert s.save() is None
        assert store.state_at("a") == live
        assert live["config"]["clients"] == [{"api_key": MASK, "text": f"use {MASK} here"}, (MASK, 1)]
        notes = [entry for entry in store.log("a") if entry.kind == "note"]
        assert [note["topic"] for note in notes] == ["masked"]
        assert "$.config.clients[0].api_key" in notes[0]["paths"]
    assert caplog.text.count("masked") == 1
    assert TOKEN not in caplog.text


@dataclass
class Typed:
    name: str = ""
    token: str = ""
    notes: list[str] = field(default_factory=list)


def test_a_typed_state_sees_what_is_stored(url: str, clean: None) -> None:
    with opened(url, "mask") as store:
        with store.session("a", state=Typed) as s:
            s.state.token, s.state.notes = TOKEN, [TOKEN]
            s.save()
            assert (s.state.token, s.state.notes) == (MASK, [MASK])
        assert store.state_at("a") == {"name": "", "token": MASK, "notes": [MASK]}


def test_input_labels_questions_messages_answers_and_results_are_refused(url: str, clean: None) -> None:
    def ask(s: perdure.Session) -> Any:
        return s.ask("which?", key="which")

    def receive(s: perdure.Session) -> Any:
        return s.receive()

    with opened(url) as store:
        with pytest.raises(SecretFoundError, match=r"^input\.api_key"):
            store.run(ask, "a", input={"api_key": "abcdef"})
        with pytest.raises(SecretFoundError, match="label"):
            store.run(ask, "a", labels={"k": TOKEN})
        assert list(store.sessions()) == []
        assert store.run(ask, "a").status == "waiting"
        with pytest.raises(SecretFoundError, match="answer"):
            store.answer("a", "which", TOKEN)
        with pytest.raises(SecretFoundError, match="message"):
            store.send("a", {"text": TOKEN})
        store.answer("a", "which", "this")
        outcome = store.run(result_of_a_script, "b")
        assert isinstance(outcome.error, SecretFoundError)


def result_of_a_script(s: perdure.Session) -> str:
    return s.call(str, "x ") + TOKEN


def test_input_and_messages_are_masked_for_the_run_too(url: str, clean: None) -> None:
    def agent(s: perdure.Session) -> Any:
        return [s.input, s.labels, s.ask("which?", key="which")]

    with opened(url, "mask") as store:
        given = {"input": {"api_key": "abcdef"}, "labels": {"k": TOKEN}}
        store.run(agent, "a", **given)
        store.answer("a", "which", TOKEN)
        assert store.run(agent, "a", **given).result == [{"api_key": MASK}, {"k": MASK}, MASK]
        assert store.run(agent, "a", **given).result == [{"api_key": MASK}, {"k": MASK}, MASK]


def test_chunks_of_a_stream_are_masked(url: str, clean: None) -> None:
    def chunks() -> Iterator[str]:
        yield "one "
        yield TOKEN

    with opened(url) as store, store.session("a") as s:
        assert list(s.stream(chunks)) == ["one ", MASK]


def test_allow_stores_what_it_is_given(url: str) -> None:
    with opened(url, "allow") as store:
        with store.session("a") as s:
            assert s.call(login, "ann") == LOGIN
            s.state["token"] = TOKEN
        assert store.state_at("a") == {"token": TOKEN}


def test_another_policy_is_refused(url: str) -> None:
    with pytest.raises(RefusedError, match="refuse, mask, allow"):
        opened(url, "hide")


def test_a_secret_goes_through_state_arguments_results_and_input_as_its_reference(
    url: str, clean: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_TEST_TOKEN", TOKEN)
    held = perdure.Secret("secret://env/PERDURE_TEST_TOKEN")
    used: list[str] = []

    def use(key: perdure.Secret) -> perdure.Secret:
        used.append(key.reveal())
        return key

    def agent(s: perdure.Session) -> Any:
        s.state["key"] = s.input
        assert s.call(use, s.state["key"]) == held
        if len(used) == 1 and not s.state.get("again"):
            monkeypatch.setenv("PERDURE_TEST_TOKEN", TOKEN + "rotated")
            raise OSError("cut")
        return s.state["key"]

    with opened(url) as store:
        store.run(agent, "a", input=held)
        monkeypatch.setenv("PERDURE_TEST_TOKEN", TOKEN)
        assert used == [TOKEN]
        assert store.state_at("a") in ({}, {"key": held})
    with opened(url) as store:
        assert store.run(final, "a2", input=held).result == held
        with store.session("b") as s:
            s.state["x"] = {"key": held}
            assert s.save() is not None
            s.state["x"]["key"] = perdure.Secret("secret://env/PERDURE_TEST_TOKEN")
            s.save()
            s.state["y"] = perdure.Secret(value=TOKEN)
            with pytest.raises(UnstorableError, match=r"\$\.y: .*secret://env/NAME"):
                s.save()
            del s.state["y"]
        monkeypatch.delenv("PERDURE_TEST_TOKEN")
        with pytest.raises(SecretMissingError, match="PERDURE_TEST_TOKEN"):
            store.state_at("b")["x"]["key"].reveal()


def final(s: perdure.Session) -> Any:
    s.state["key"] = s.input
    return s.state["key"]


def test_the_snapshot_that_tells_of_an_error_holds_no_secret(url: str, clean: None) -> None:
    def agent(s: perdure.Session) -> None:
        s.state["config"] = {"api_key": TOKEN, "model": "m"}
        s.save()

    with opened(url) as store:
        outcome = store.run(agent, "a")
        assert isinstance(outcome.error, SecretFoundError)
        assert TOKEN not in str(outcome)


@pytest.mark.parametrize("policy", ["refuse", "mask"])
def test_in_an_event_loop_it_is_the_same(url: str, policy: str, clean: None) -> None:
    async def sign_in(user: str) -> dict[str, str]:
        return login(user)

    async def agent(s: perdure.AsyncSession) -> Any:
        found = [await s.call(sign_in, "ann")]
        async with s.parallel() as block:
            both = [block.call(sign_in, name) for name in ("bob", "eve")]
        found += [await one for one in both]
        s.state["found"] = found
        await s.save()
        s.state["found"][0]["access_token"] = TOKEN
        if policy == "refuse":
            with pytest.raises(SecretFoundError, match="access_token"):
                await s.save()
            s.state["found"][0]["access_token"] = "none"
        else:
            await s.save()
        return s.state["found"]

    with opened(url, policy) as store:
        outcome = store.run(agent, "a")
        assert outcome.error is None
        kept = "none" if policy == "refuse" else MASK
        assert [one["access_token"] for one in outcome.result] == [kept, MASK, MASK]
