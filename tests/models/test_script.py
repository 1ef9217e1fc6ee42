"""Scripted models: what may be written, which reply comes next, also after another process took over."""

from __future__ import annotations

import asyncio
import json

import pytest
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

import perdure
from perdure import errors, limits, values
from perdure.models import ScriptedModel, ask
from perdure.recovery import ProgressPolicy


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(limits, "MODEL_BACKOFF_S", 0.001)


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def asks(model, *prompts, **options):
    @perdure.agent
    async def agent(s):
        return [(await ask(s, model, prompt, **options)).output for prompt in prompts]

    return agent


def said(store, model, *prompts, session="q", **options):
    outcome = store.run(asks(model, *prompts, **options), session)
    assert outcome.status == "completed", outcome
    return outcome.result


# --- which reply comes next ------------------------------------------------------------------------------------------


def test_replies_come_in_order_those_that_ask_for_something_first(store):
    script = ScriptedModel(
        ["any one", {"match": "red|blue", "reply": "colour one"}, "any two", {"match": "^blue", "reply": "colour two"}]
    )
    assert said(store, script, "blue", "green", "blue", "blue") == ["colour one", "any one", "colour two", "any two"]


def test_the_system_text_and_the_role_choose_too(store):
    script = ScriptedModel(
        [
            {"system": "short", "reply": "yes", "repeat": True},
            {"role": "^Engineer/Write", "reply": "code", "repeat": True},
            {"role": "^Critic$", "reply": "bad", "repeat": True},
            "nobody",
        ]
    )

    @perdure.agent
    async def agent(s):
        async def turn(role):
            async def write():
                return (await ask(s, script, "go on")).output

            return await s.action(write, name="Write", effect="repeatable")() if role == "Engineer" else await write()

        roles = [await s.action(turn, name=role, effect="repeatable")(role) for role in ("Engineer", "Critic")]
        return [*roles, (await ask(s, script, "go on", system="be short")).output, (await ask(s, script, "x")).output]

    assert store.run(agent, "q").result == ["code", "bad", "yes", "nobody"]


def test_each_role_reads_the_script_by_itself(store):
    script = ScriptedModel(["one", "two"])

    @perdure.agent
    async def agent(s):
        async def turn():
            return [(await ask(s, script, "x")).output, (await ask(s, script, "x")).output]

        async with s.parallel() as p:
            turns = [p.action(turn, name=name, effect="repeatable")() for name in ("a", "b")]
        return [await each for each in turns]

    assert store.run(agent, "q").result == [["one", "two"], ["one", "two"]]


def test_calls_of_one_role_at_the_same_time_get_a_reply_each(store):
    script = ScriptedModel(["one", "two", "three"])

    @perdure.agent
    async def agent(s):
        return [one.output for one in await asyncio.gather(*(ask(s, script, f"{n}") for n in range(3)))]

    assert store.run(agent, "q").result == ["one", "two", "three"]


def test_an_error_counts_so_that_the_next_try_gets_the_next_reply(store):
    script = ScriptedModel([{"error": "rate limit"}, {"error": "timeout"}, {"error": "network"}, "at last"])
    assert said(store, script, "x") == ["at last"]
    finished = [entry for entry in store.log("q") if entry.kind == "action_finished" and entry["how"] == "error"]
    assert [values.decode(entry["value"]["attributes"]["kind"]) for entry in finished] == [
        "ModelRateLimitError",
        "ModelTimeoutError",
        "ModelConnectionError",
    ]


def test_what_an_earlier_step_was_given_is_not_given_again(tmp_path):
    """Steps answer nothing from earlier ones: only the log knows what they were told."""

    @perdure.steps
    async def agent(s):
        script = ScriptedModel(["one", "two", "three"])
        said = s.state.setdefault("said", [])
        said.append((await ask(s, script, "the same")).output)
        if len(said) in stops:
            stops.remove(len(said))
            raise ConnectionError("this run ends here")
        if len(said) == 3:
            s.complete(said)

    stops = [2, 3]
    for status in ("failed", "failed", "completed"):
        with perdure.open(str(tmp_path / "agents.db")) as store:
            outcome = store.run(agent, "q")
            assert outcome.status == status
    assert outcome.result == ["one", "two", "three"]


def test_after_a_rollback_the_script_goes_on(store):
    script = ScriptedModel(["one", "two"])

    @perdure.agent
    async def agent(s):
        await s.checkpoint("start")
        strategy = s.strategy
        output = (await ask(s, script, f"by {strategy}")).output
        if strategy is None:
            await s.rollback("start", strategy="another")
        return output

    assert store.run(agent, "q").result == "two"


def test_without_a_session_the_object_counts():
    script = ScriptedModel(["one", {"reply": {"a": 1}}])

    async def twice():
        request = [ModelRequest.user_text_prompt("x")]
        return [(await script.request(request, None, ModelRequestParameters())).text for _ in range(2)]

    assert asyncio.run(twice()) == ["one", '{"a": 1}']


def test_a_script_without_a_reply_says_for_what(store):
    outcome = store.run(asks(ScriptedModel([{"match": "red", "reply": "x"}], name="plan"), "blue " * 99), "q")
    assert isinstance(outcome.error, errors.ModelError)
    assert str(outcome.error).startswith("plan: no reply fits; the request begins with 'blue blue")
    assert len(str(outcome.error)) < 250
    outcome = store.run(asks(ScriptedModel(["x"]), "a", "b"), "r")
    assert "the 1 replies that fit were given" in str(outcome.error)


def test_nothing_is_recorded_of_a_request_without_a_reply_and_it_is_made_on_a_resume(store):
    replies = ["one"]

    @perdure.agent
    async def agent(s):
        return [(await ask(s, ScriptedModel(replies), prompt)).output for prompt in ("a", "b")]

    assert store.run(agent, "q").status == "failed"
    replies.append("two")
    assert store.run(agent, "q").result == ["one", "two"]


# --- calls -----------------------------------------------------------------------------------------------------------

LOOK, RING = (ToolDefinition(name=name) for name in ("look", "ring"))


def test_calls_are_given_only_where_all_their_tools_are_offered(store):
    script = ScriptedModel(
        [
            {"calls": [{"tool": "look", "args": {"at": "ä"}}, {"tool": "ring", "args": "{broken"}]},
            {"reply": "with", "calls": [{"tool": "look"}], "repeat": True},
            "text",
        ]
    )

    @perdure.agent
    async def agent(s):
        found = []
        for tools in ((), [LOOK], [RING, LOOK], [LOOK]):
            answer = await ask(s, script, "x", tools=tools)
            found.append((answer.text, [(call.name, call.arguments) for call in answer.calls]))
        return found

    assert store.run(agent, "q").result == [
        ("text", []),
        ("with", [("look", "{}")]),
        ("", [("look", '{"at": "ä"}'), ("ring", "{broken")]),
        ("with", [("look", "{}")]),
    ]


def test_without_a_prompt_it_is_searched_for_what_the_history_ends_with(store):
    script = ScriptedModel(
        [
            {"match": "before", "reply": "never", "repeat": True},
            {"match": "^seen\nalso seen\nand\\?$", "reply": "both"},
            {"match": "^only$", "reply": "one"},
        ]
    )
    called = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ("a", "b")]
    ends = [
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "tool", "tool_call_id": "b", "content": "also seen"},
        {"role": "user", "content": "and?"},
    ]

    @perdure.agent
    async def agent(s):
        before = [{"role": "user", "content": "before"}, {"role": "assistant", "content": None, "tool_calls": called}]
        one = await ask(s, script, "", history=[*before, *ends])
        two = await ask(s, script, "only", history=[*before, *ends[:2]])
        return [one.text, two.text]

    assert store.run(agent, "q").result == ["both", "one"]


def test_a_reply_in_pieces_is_the_reply():
    script = ScriptedModel(
        [{"reply": " a b\n\nc  d e ", "calls": [{"tool": "look"}], "tokens": {"in": 3, "out": 4}}] * 2
    )
    request = [ModelRequest.user_text_prompt("x")]
    offered = ModelRequestParameters(function_tools=[LOOK])

    async def both():
        whole = await script.request(request, None, offered)
        async with script.request_stream(request, None, offered) as stream:
            pieces = [event async for event in stream]
        return whole, stream.get(), pieces

    whole, spelled, pieces = asyncio.run(both())
    assert [part.part_kind for part in spelled.parts] == ["text", "tool-call"]
    assert (spelled.text, spelled.usage) == (whole.text, whole.usage) == (" a b\n\nc  d e ", whole.usage)
    assert (spelled.state, spelled.provider_details) == ("complete", {"script_line": 1})
    assert len(pieces) > len(spelled.parts)


# --- files -----------------------------------------------------------------------------------------------------------

REPLIES = [{"match": "a", "reply": {"deep": [1, 2]}}, "plain"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "- {match: a, reply: {deep: [1, 2]}}\n- plain\n"),
        ("s.yml", "replies:\n- match: a\n  reply: {deep: [1, 2]}\n- plain\n"),
        ("s.json", json.dumps(REPLIES)),
        ("s.jsonl", "".join(f"{json.dumps(one)}\n\n" for one in REPLIES)),
    ],
)
def test_a_script_is_a_file(store, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    model = f"script:{tmp_path / name}"
    assert said(store, model, "a", "b") == ['{"deep": [1, 2]}', "plain"]
    started = [e for e in store.log("q") if e.kind == "action_started"]
    assert {values.decode(e["args"]["model"]) for e in started} == {f"script:{name}"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {repyl: x}", "reply 1: there is no 'repyl'; there are match, system, role"),
        ("- x\n- 5", "reply 2: it is a text, or a mapping"),
        ("- {match: a}", "reply 1: it has either a reply, calls or both, or an error"),
        ("- {reply: a, error: 429}", "reply 1: it has either a reply, calls or both, or an error"),
        ("- {error: 200}", "error is an HTTP status from 400 to 599, or one of rate limit"),
        ("- {error: [timeout]}", "error is an HTTP status from 400 to 599"),
        ("- {match: '(', reply: a}", "match '(' is no regular expression"),
        ("- {reply: a, usd: -1}", "usd: it is a number of 0 or more, not -1"),
        ("- {calls: []}", "reply 1: calls: it is a list of {tool: NAME, args: {…}}, not []"),
        ("- {calls: [{args: {}}]}", "calls: one is {tool: NAME, args: {…}}, not {'args': {}}"),
        ("- {calls: [{tool: a, arg: {}}]}", "calls: one is {tool: NAME, args: {…}}, not"),
        ("- {calls: [{tool: a}], error: 429}", "it has either a reply, calls or both, or an error"),
        ("- {reply: a, wait: 61}", "wait: it is at most 60 seconds, not 61"),
        ("- {reply: a, wait: soon}", "wait: it is a number of 0 or more, not 'soon'"),
        ("- {reply: a, tokens: many}", "tokens: it is a number of 0 or more, not 'many'"),
        ("a: b", "is a list of replies, or a mapping with `replies`"),
        ("- [", "cannot be read"),
        ("- !!python/object:os.system x", "cannot be read"),
    ],
)
def test_what_a_script_may_not_say_is_told(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(errors.ModelError) as error:
        perdure.models.resolve(f"script:{tmp_path / 's.yaml'}")
    assert message in str(error.value)


def test_a_script_that_is_not_there_or_too_long_is_told(tmp_path, monkeypatch):
    with pytest.raises(errors.ModelError, match="cannot be read: No such file"):
        perdure.models.resolve(f"script:{tmp_path / 's.yaml'}")
    monkeypatch.setattr(limits, "SCRIPT_BYTES_MAX", 5)
    (tmp_path / "s.yaml").write_text("- plain")
    with pytest.raises(errors.ModelError, match="longer than 5 bytes"):
        perdure.models.resolve(f"script:{tmp_path / 's.yaml'}")


# --- who reads along -------------------------------------------------------------------------------------------------


def test_a_run_in_circles_is_known_by_the_questions_between(store, caplog):
    script = ScriptedModel([{"reply": "look again", "repeat": True}])

    @perdure.agent(progress=ProgressPolicy())
    async def agent(s):
        for number in range(5):
            await ask(s, script, f"and now? {number}")
            await s.action(len, name="look", effect="repeatable")("the folder")

    assert store.run(agent, "q").status == "completed"
    assert "q goes in circles: the same call with the same result: look, 5 times" in caplog.text
