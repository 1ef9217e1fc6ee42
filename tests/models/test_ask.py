"""Asking a model: what comes back, what is recorded, what is shown to the model, what an error is."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Literal

import pytest
from genai_prices import Usage, calc_price
from pydantic import BaseModel
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.output import NativeOutput, PromptedOutput

import perdure
from perdure import errors, limits, values
from perdure.models import Answer, ScriptedModel, ask, talk
from perdure.recovery import FailurePolicy, error_kinds
from tests.models.server import Asked, Refusal, Reply, serving


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(limits, "MODEL_BACKOFF_S", 0.001)


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def run(store, agent, session="q"):
    outcome = store.run(perdure.agent(agent), session)
    assert outcome.status == "completed", outcome
    return outcome.result


def bodies(store, kind, session="q"):
    return [entry.body for entry in store.log(session) if entry.kind == kind]


def calls(store, session="q"):
    return [
        {name: values.decode(value) for name, value in body["args"].items()}
        for body in bodies(store, "action_started", session)
        if body["of"] is None
    ]


# --- what comes back -------------------------------------------------------------------------------------------------


def test_a_text_comes_back_with_what_it_cost(store):
    script = ScriptedModel([{"match": "capital", "reply": "Oslo", "tokens": {"in": 30, "out": 2}, "usd": 0.25}])

    async def agent(s):
        return await ask(s, script, "the capital of Norway?", system="be short")

    assert run(store, agent) == Answer("Oslo", "Oslo", 30, 2, 0.25, "script")
    assert calls(store) == [{"model": "script:script", "system": "be short", "prompt": "the capital of Norway?"}]
    assert [body["cost"] for body in bodies(store, "action_finished")] == [{"tokens": 32.0, "usd": 0.25}]


@pytest.mark.parametrize(
    ("wanted", "reply", "output"),
    [
        (Person, {"name": "Ada", "age": 36}, Person(name="Ada", age=36)),
        (Person, 'Here it is:\n```json\n{"name": "Ada", "age": 36}\n```\nfine?', Person(name="Ada", age=36)),
        (Person, 'I think {"name": "Ada", "age": 36} fits', Person(name="Ada", age=36)),
        (PromptedOutput(Person), '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
        (NativeOutput(Person), '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
        (list[int], {"response": [1, 2]}, [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (int, {"response": 5}, 5),
        (int, "5", 5),
        (int, 5, 5),
        (bool, "```\ntrue\n```", True),
        (Literal["yes", "no"], "yes", "yes"),
        (Person | None, {"response": None}, None),
    ],
)
def test_a_reply_is_read_as_what_was_asked_for(store, wanted, reply, output):
    async def agent(s):
        found = (await ask(s, ScriptedModel([{"reply": reply}]), "x", output_type=wanted, retries=0)).output
        return found.model_dump() if isinstance(found, Person) else found

    expected = output.model_dump() if isinstance(output, Person) else output
    assert run(store, agent) == expected


@pytest.mark.parametrize(
    ("wanted", "reply", "problem"),
    [
        (str, " ", "The reply has no text."),
        (Person, "", "The reply has no text."),
        (Person, "sorry", "not valid JSON: Expecting value"),
        (Person, '{"name": "Ada", "age": 36', "not valid JSON: Expecting ',' delimiter"),
        (Person, {"name": "Ada", "age": "old"}, "age: Input should be a valid integer"),
        (Person, {"person": {"name": "Ada", "age": 36}}, "name: Field required"),
        (int, "5 or so", "not valid JSON: Extra data"),
    ],
)
def test_what_was_not_asked_for_is_an_error_that_says_what_is_wrong(store, wanted, reply, problem):
    async def agent(s):
        await ask(s, ScriptedModel([{"reply": reply, "tokens": 9}]), "x", output_type=wanted, retries=0)

    outcome = store.run(perdure.agent(agent), "q")
    assert outcome.status == "failed"
    assert isinstance(outcome.error, errors.InvalidOutputError)
    assert problem in outcome.error.text
    assert error_kinds.kind_of(outcome.error, of_action=True) == "invalid_output"
    assert [body["cost"] for body in bodies(store, "action_finished")] == [{"tokens": 9.0, "usd": 0.0}]


def test_a_type_without_a_schema_is_refused_before_anything_is_asked(store):
    async def agent(s):
        await ask(s, ScriptedModel(["x"]), "x", output_type=ScriptedModel)

    assert run_error(store, agent, errors.RefusedError).startswith("output_type=ScriptedModel")
    assert bodies(store, "action_started") == []


def run_error(store, agent, cls, session="q"):
    outcome = store.run(perdure.agent(agent), session)
    assert type(outcome.error) is cls, outcome
    return str(outcome.error)


def test_an_answer_is_stored_exactly(store):
    async def agent(s):
        s.state["answer"] = await ask(s, ScriptedModel(["hi"]), "x")
        return s.state["answer"]

    assert run(store, agent) == store.state_at("q")["answer"] == Answer("hi", "hi", 0, 0, 0.0, "script")


# --- what is wrong is shown to the model -----------------------------------------------------------------------------


def test_a_bad_reply_is_shown_to_the_model_with_what_is_wrong(store):
    script = ScriptedModel(
        [
            {"match": "^who$", "reply": "no idea", "tokens": 3},
            {"match": "not valid JSON", "reply": {"name": "Ada"}, "tokens": 4},
            {"match": "not valid JSON.*age: Field required", "reply": {"name": "Ada", "age": 36}, "tokens": 5},
        ]
    )

    async def agent(s):
        answer = await ask(s, script, "who", output_type=Person)
        return answer.output.model_dump(), answer.tokens_out

    assert run(store, agent) == ({"name": "Ada", "age": 36}, 12)
    problems = [call.get("problems", []) for call in calls(store)]
    assert [len(told) for told in problems] == [0, 1, 2]


def test_what_the_server_is_sent_has_the_reply_and_the_problem():
    def reply(asked: Asked) -> Reply:
        return '{"name": "Ada", "age": 36}' if "not valid JSON" in asked.said else "sorry"

    async def agent(s):
        return (await ask(s, server.model, "who", system="short", output_type=Person)).output.age

    with serving(reply) as server, perdure.open("memory:") as store:
        assert run(store, agent) == 36
        first, second = (asked.body["messages"] for asked in server.asked)
        told = " ".join(one["content"] for one in first if one["role"] == "system")
        assert "short" in told
        assert '"age"' in told  # the schema: a server that is named by its URL may know no tools
        assert second[: len(first)] == first
        assert [(one["role"], one["content"].partition(":")[0]) for one in second[len(first) :]] == [
            ("assistant", "sorry"),
            ("user", "The reply is not valid JSON"),
        ]


def test_a_history_is_sent_and_recorded_by_its_digest(store):
    told = [
        {"role": "user", "content": "I am Bo"},
        {"role": "assistant", "content": "hello Bo"},
        ModelRequest([UserPromptPart("and")]),
        ModelResponse([TextPart("yes")]),
    ]

    def reply(asked: Asked) -> Reply:
        return " ".join(str(one["content"]) for one in asked.body["messages"])

    async def agent(s):
        return (await ask(s, server.model, "who am I?", history=told)).output

    with serving(reply) as server:
        assert run(store, agent) == "I am Bo hello Bo and yes who am I?"
    (call,) = calls(store)
    assert call["history"]["messages"] == 4
    assert set(call["history"]) == {"messages", "bytes", "sha256"}


def test_a_message_made_again_at_another_time_is_the_same_history(store):
    async def agent(s):
        answer = await ask(s, ScriptedModel(["a"]), "x", history=[ModelRequest([UserPromptPart("and")])])
        if s.now() and stops.pop():
            raise ConnectionError("the first run ends here")
        return answer.output

    stops = [False, True]
    assert store.run(perdure.agent(agent), "q").status == "failed"
    assert store.run(perdure.agent(agent), "q").result == "a"
    assert len(bodies(store, "action_finished")) == 1


def test_histories_are_told_apart_by_what_a_model_is_told():
    told = [
        [ModelRequest([UserPromptPart("a")])],
        [ModelRequest([UserPromptPart("b")])],
        [ModelRequest([UserPromptPart("a")], instructions="x")],
        [ModelRequest([UserPromptPart(["a", BinaryContent(b"\xff\x00", media_type="image/png")])])],
        [ModelRequest([UserPromptPart(["a", BinaryContent(b"\xff\x01", media_type="image/png")])])],
        [ModelResponse([TextPart("a")])],
        [ModelResponse([ToolCallPart("look", {"at": 1}, tool_call_id="1")])],
        [ModelResponse([ToolCallPart("look", {"at": 2}, tool_call_id="1")])],
        [ModelRequest([ToolReturnPart("look", {"seen": [1]}, tool_call_id="1")])],
        [ModelRequest([ToolReturnPart("look", {"seen": [2]}, tool_call_id="1")])],
    ]
    digests = [talk.Talk("", tuple(history), "x").recorded()["history"]["sha256"] for history in told]
    assert len(set(digests)) == len(told)


@pytest.mark.parametrize("said", [{"role": "robot", "content": "x"}, {"role": "user", "content": 5}, "hello"])
def test_what_is_no_message_is_refused(store, said):
    async def agent(s):
        await ask(s, ScriptedModel(["a"]), "x", history=[said])

    assert "neither a message of pydantic-ai nor a mapping" in run_error(store, agent, errors.RefusedError)


# --- what is recorded ------------------------------------------------------------------------------------------------


def test_a_long_prompt_is_recorded_by_its_digest_and_its_ends(store, tmp_path):
    long = "begin " + "x" * 1_000_000 + " end"

    async def agent(s):
        for number in range(3):
            await ask(s, ScriptedModel([{"reply": "ok", "repeat": True}]), f"{long}{number}", system=long)
        return "done"

    assert run(store, agent) == "done"
    told = calls(store)
    assert [call["prompt"]["chars"] for call in told] == [len(long) + 1] * 3
    assert len({call["prompt"]["sha256"] for call in told}) == 3
    assert told[0]["prompt"]["start"].startswith("begin xxx")
    assert told[0]["prompt"]["end"].endswith("xxx end0")
    assert sum(len(values.encode(body)) for body in bodies(store, "action_started")) < 3 * 4096


def test_settings_that_may_hold_a_key_are_recorded_by_name_only():
    async def agent(s):
        settings = {"temperature": 0.0, "extra_headers": {"x-key": "sk-secret"}, "timeout": 5.0}
        return (await ask(s, server.model, "x", settings=settings)).output

    with serving(lambda _: "ok") as server, perdure.open("memory:") as store:
        assert run(store, agent) == "ok"
        assert server.asked[0].headers["x-key"] == "sk-secret"
        assert calls(store)[0]["settings"] == {"temperature": 0.0, "extra_headers": ["x-key"]}
        assert calls(store)[0]["model"] == "openai:small"  # not where it is: another day it is elsewhere


def test_the_price_is_that_of_the_table_and_nothing_where_it_knows_none():
    async def agent(s):
        return [(await ask(s, model, "x")).usd for model in (server.model, server.model.replace("small", "gpt-4o"))]

    known = float(calc_price(Usage(input_tokens=7, output_tokens=5), "gpt-4o", provider_id="openai").total_price)
    with serving(lambda _: "ok") as server, perdure.open("memory:") as store:
        assert run(store, agent) == [0.0, known]
        assert known > 0
        assert [body["cost"] for body in bodies(store, "action_finished")] == [
            {"tokens": 12.0, "usd": 0.0},
            {"tokens": 12.0, "usd": known},
        ]


# --- errors ----------------------------------------------------------------------------------------------------------


def refusing(*refusals: Refusal):
    left = list(refusals)
    return lambda _: left.pop(0) if left else "ok"


@pytest.mark.parametrize("policy", [None, FailurePolicy(backoff_s=0.001)])
def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(policy):
    async def agent(s):
        return (await ask(s, server.model, "x")).output

    with serving(refusing(Refusal(429, {"retry-after-ms": "300"}))) as server, perdure.open("memory:") as store:
        assert store.run(perdure.agent(failures=policy)(agent), "q").result == "ok"
        first, second = server.asked
        assert second.at_s - first.at_s >= 0.3


def test_what_may_pass_is_asked_again_as_often_as_settings_say():
    async def agent(s):
        await ask(s, server.model, "x", settings={"max_retries": 2})

    with serving(lambda _: Refusal(503)) as server, perdure.open("memory:") as store:
        outcome = store.run(perdure.agent(agent), "q")
        assert len(server.asked) == 3
        assert isinstance(outcome.error, errors.ModelFailedError)
        assert (outcome.error.kind, outcome.error.status, outcome.error.passes) == ("ModelUnavailableError", 503, True)
        assert error_kinds.kind_of(outcome.error, of_action=True) == "transient"


@pytest.mark.parametrize(
    ("refusal", "name", "kind"),
    [
        (Refusal(401), "ModelAuthenticationError", "fatal"),
        (Refusal(404), "ModelNotFoundError", "fatal"),
        (Refusal(429, body='{"error": {"code": "insufficient_quota"}}'), "ModelQuotaExceededError", "fatal"),
        (Refusal(400), "ModelRequestRejectedError", "tool_error"),
    ],
)
def test_what_does_not_pass_is_not_asked_again(refusal, name, kind):
    async def agent(s):
        await ask(s, server.model, "x")

    with serving(lambda _: refusal) as server, perdure.open("memory:") as store:
        outcome = store.run(perdure.agent(agent), "q")
        assert len(server.asked) == 1
        assert isinstance(outcome.error, errors.ModelFailedError)
        assert (outcome.error.kind, outcome.error.passes) == (name, False)
        assert error_kinds.kind_of(outcome.error, of_action=True) == kind


@pytest.mark.parametrize(
    ("body", "name", "kind"),
    [
        ("no JSON", "ModelAPIError", "tool_error"),
        ('{"object": "chat.completion"}', "UnexpectedModelBehavior", "invalid_output"),
        ('{"choices": []}', "UnexpectedModelBehavior", "invalid_output"),
        (
            '{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}',
            "UnexpectedModelBehavior",
            "invalid_output",
        ),
    ],
)
def test_a_server_that_replies_nonsense_is_told_as_such(body, name, kind):
    async def agent(s):
        await ask(s, server.model, "x")

    with serving(lambda _: Refusal(200, body=body)) as server, perdure.open("memory:") as store:
        outcome = store.run(perdure.agent(agent), "q")
        assert len(server.asked) == 1
        assert outcome.error.kind == name
        assert error_kinds.kind_of(outcome.error, of_action=True) == kind


def test_a_server_that_takes_too_long_is_asked_again():
    over, slow = threading.Event(), [True]

    async def agent(s):
        return (await ask(s, server.model, "x", settings={"request_timeout": 0.2})).output

    with serving(lambda _: "late" if slow and slow.pop() and over.wait(60) else "ok") as server:
        with perdure.open("memory:") as store:
            assert run(store, agent) == "ok"
            (failed, _) = bodies(store, "action_finished")
            assert values.decode(failed["value"]["attributes"]["kind"]) == "ModelRequestTimeout"
        over.set()


def test_a_server_that_is_not_there_is_asked_again():
    with serving(lambda _: "ok") as server:
        gone = server.model

    async def agent(s):
        await ask(s, gone, "x", settings={"max_retries": 1})

    with perdure.open("memory:") as store:
        outcome = store.run(perdure.agent(agent), "q")
        assert outcome.error.kind == "ModelConnectionError"
        assert [body["final"] for body in bodies(store, "action_finished")] == [False, True]


def test_an_error_that_the_code_caught_is_the_same_on_a_replay(store):
    script = ScriptedModel([{"match": "one", "error": 400}, {"match": "two", "reply": "?"}])
    caught: list[list[Any]] = []

    async def agent(s):
        found: list[Any] = []
        for prompt, wanted in (("one", str), ("two", int)):
            try:
                await ask(s, script, prompt, output_type=wanted, retries=0)
            except (errors.ModelFailedError, errors.InvalidOutputError) as error:
                told = {k: v for k, v in vars(error).items() if not k.startswith("__")}
                found.append((type(error).__name__, str(error), told))
        caught.append(found)
        if len(caught) == 1:
            raise ConnectionError("the first run ends here")

    assert store.run(perdure.agent(agent), "q").status == "failed"
    assert store.run(perdure.agent(agent), "q").status == "completed"
    assert [one[0] for one in caught[0]] == ["ModelFailedError", "InvalidOutputError"]
    assert caught[0] == caught[1]


def test_a_bad_reply_that_ended_the_run_is_asked_for_once_more(store):
    script = ScriptedModel(["bad one", "bad two", "bad three", {"reply": {"name": "Ada", "age": 36}}])
    agent = perdure.agent(lambda_of(script))
    first = store.run(agent, "q")
    assert isinstance(first.error, errors.InvalidOutputError)
    assert first.error.reply == "bad three"
    assert store.run(agent, "q").result == 36
    told = calls(store)
    assert [len(call.get("problems", [])) for call in told] == [0, 1, 2]
    assert len(bodies(store, "action_finished")) == 4


def lambda_of(script):
    async def agent(s):
        return (await ask(s, script, "who", output_type=Person)).output.age

    return agent


def test_a_bad_reply_inside_of_an_action_is_asked_for_once_more_and_nothing_else(store):
    script = ScriptedModel(["first", "bad", {"reply": {"name": "Ada", "age": 36}}])

    @perdure.agent
    async def agent(s):
        async def role():
            said = await ask(s, script, "say")
            person = await ask(s, script, "who", output_type=Person, retries=0)
            return [said.output, person.output.age]

        return await s.action(role, name="role", effect="repeatable")()

    assert isinstance(store.run(agent, "q").error, errors.InvalidOutputError)
    assert store.run(agent, "q").result == ["first", 36]
    finished = [body for body in bodies(store, "action_finished") if "cost" in body]
    assert [body["how"] for body in finished] == ["result", "error", "result"]


def test_a_handle_asks_too(store):
    async def use():
        async with store.aio.session("h") as s:
            s.state["said"] = (await ask(s, ScriptedModel(["hello"]), "x")).output

    asyncio.run(use())
    assert store.state_at("h") == {"said": "hello"}


def test_tokens_of_a_reply_that_failed_are_spent(store):
    agent = perdure.agent(failures=FailurePolicy(after=9, budget={"tokens": 25}))(
        lambda_of(ScriptedModel([{"reply": "bad", "tokens": 10, "repeat": True}]))
    )
    outcome = store.run(agent, "q")
    assert isinstance(outcome.error, errors.BudgetError)
    assert store.detail("q").spent["tokens"] == 30


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_utf_8_is_sent_and_recorded_with_backslashes(stream):
    async def agent(s):
        history = s.state["history"] = [{"role": "user", "content": "caf\udce9"}]
        first = await ask(s, server.model, "", history=history, stream=stream)
        history += [first.message(), {"role": "user", "content": "and \udce9"}]
        second = await ask(s, server.model, "ol\udce9", system="\udce9", history=history, stream=stream)
        return [first.text, second.text]

    with serving(lambda asked: f"half \ud83d of {asked.said}") as server, perdure.open("memory:") as store:
        assert run(store, agent) == ["half \\ud83d of caf\\udce9", "half \\ud83d of ol\\udce9"]
        (system, user, reply, *_) = server.asked[1].body["messages"]
        assert [system["content"], user["content"]] == ["\\udce9", "caf\\udce9"]
        assert reply["content"] == "half \\ud83d of caf\\udce9"
        assert len(server.asked) == 2, "each of them is paid for once"
