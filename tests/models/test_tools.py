"""Conversations with tools: what is offered, what is called, what is sent back, what is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition

import perdure
from perdure import errors, limits, values
from perdure.models import Answer, ScriptedModel, ToolCall, ask
from perdure.recovery import problems
from perdure.tools import Toolbox

box = Toolbox()


@box.tool(effect="repeatable")
def look(at: int) -> str:
    """Looks at a place."""
    return f"seen {at}"


@box.tool(effect="repeatable")
def ring() -> str:
    """Rings."""
    return "rung"


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


def refused(store, agent, cls=errors.RefusedError):
    outcome = store.run(perdure.agent(agent), "q")
    assert type(outcome.error) is cls, outcome
    return str(outcome.error)


def asked(store, session="q"):
    started = [entry for entry in store.log(session) if entry.kind == "action_started" and entry["name"] == "model"]
    return [{name: values.decode(value) for name, value in entry["args"].items()} for entry in started]


def replying(*replies: Any):
    """A model that gives these parts, one list after the other, and what it was sent."""
    sent: list[tuple[list[Any], AgentInfo]] = []

    def reply(messages: list[Any], info: AgentInfo) -> ModelResponse:
        sent.append((messages, info))
        found = replies[len(sent) - 1]
        return found if isinstance(found, ModelResponse) else ModelResponse(found)

    return FunctionModel(reply, model_name="told"), sent


async def converse(s, model, prompt="go", **options):
    """Asks, and calls what is called, until there is a text."""
    history = s.state["history"] = [{"role": "user", "content": prompt}]
    while True:
        answer = await ask(s, model, "", history=history, tools=box, **options)
        history.append(answer.message())
        if not answer.calls:
            return answer.text
        results = await box.call_all(s, [(call.name, call.arguments) for call in answer.calls])
        for call, result in zip(answer.calls, results, strict=True):
            history.append({"role": "tool", "tool_call_id": call.id, "content": result.text})


# --- what comes back -------------------------------------------------------------------------------------------------


def test_calls_come_in_order_with_text_or_without(store):
    model, sent = replying(
        [
            TextPart("a moment"),
            ToolCallPart("look", '{"at": 2}', tool_call_id="b"),
            ToolCallPart("ring", None, tool_call_id="a"),
        ],
        [ToolCallPart("look", {"at": 1}, tool_call_id="c")],
    )

    async def agent(s):
        return [await ask(s, model, "go", tools=box) for _ in range(2)]

    first, second = run(store, agent)
    assert first.output == first.text == "a moment"
    assert first.calls == (ToolCall("b", "look", '{"at": 2}'), ToolCall("a", "ring", "{}"))
    assert (second.text, second.calls) == ("", (ToolCall("c", "look", '{"at": 1}'),))
    assert [tool.name for tool in sent[0][1].function_tools] == ["look", "ring"]
    assert sent[0][1].function_tools[0].parameters_json_schema == dict(box["look"].schema)


def test_a_reply_with_neither_is_shown_to_the_model(store):
    model, sent = replying([TextPart(" ")], [ToolCallPart("ring", {}, tool_call_id="a")])

    async def agent(s):
        return await ask(s, model, "go", tools=box)

    assert [call.name for call in run(store, agent).calls] == ["ring"]
    assert "The reply has no text." in sent[1][0][-1].parts[0].content


def test_calls_of_tools_that_were_not_offered_are_no_reply(store):
    model, _ = replying([ToolCallPart("ring", {}, tool_call_id="a")])

    async def agent(s):
        await ask(s, model, "go", retries=0)

    assert "no text" in refused(store, agent, errors.InvalidOutputError)


def test_broken_json_is_handed_on_and_the_model_told(store):
    model, sent = replying([ToolCallPart("look", '{"at": 1', tool_call_id="a")], [TextPart("well")])

    async def agent(s):
        return await converse(s, model)

    assert run(store, agent) == "well"
    told = sent[1][0][-1].parts[0]
    assert isinstance(told, ToolReturnPart)
    assert "no JSON" in str(told.content)


def test_a_call_that_was_cut_off_before_its_arguments_is_not_one_without_any(store):
    cut = ModelResponse([ToolCallPart("ring", "", tool_call_id="a")], finish_reason="length")
    model, sent = replying(cut, [TextPart("well")])

    async def agent(s):
        answer = await ask(s, model, "go", tools=box)
        return answer.text, answer.calls

    assert run(store, agent) == ("well", ())
    (told,) = sent[1][0][-1].parts
    assert (told.tool_name, told.tool_call_id) == ("ring", "a")
    assert "before the arguments" in told.content


def test_ids_are_made_unique_in_the_same_way_each_time(store):
    replies = [
        [ToolCallPart("look", {"at": n}, tool_call_id=one) for n, one in enumerate(("x", "", "x"))],
        [ToolCallPart("ring", {}), ToolCallPart("ring", {}, tool_call_id="x")],
        [ToolCallPart("ring", {}, tool_call_id="call_7"), ToolCallPart("ring", {}, tool_call_id="")],
        [TextPart("done")],
    ]
    model, sent = replying(*replies, *replies)

    async def agent(s):
        await converse(s, model)
        return [call["id"] for message in s.state["history"] for call in message.get("tool_calls", ())]

    first = run(store, agent)
    assert first == ["x", "call_2", "call_3", "call_4", "call_5", "call_7", "call_8"]
    assert run(store, agent, "again") == first
    results = [part for message in sent[3][0] for part in message.parts if isinstance(part, ToolReturnPart)]
    assert [part.tool_call_id for part in results] == first


def test_an_answer_with_calls_is_stored_exactly(store):
    model, _ = replying([ThinkingPart("hm", signature="s", provider_name="p"), ToolCallPart("ring", {})])

    async def agent(s):
        s.state["answer"] = await ask(s, model, "go", tools=box)
        return s.state["answer"]

    found = run(store, agent)
    assert store.state_at("q")["answer"] == found
    assert found.calls == (ToolCall("call_1", "ring", "{}"),)


OLD_ANSWER = bytes.fromhex(
    "c74e0193ae706572647572652e416e737765720186a66f7574707574a161a474657874a161a9746f6b656e735f696e01aa746f6b656e735f6f757402a3757364cb3fe0000000000000a56d6f64656ca16d"
)
"""`Answer("a", "a", 1, 2, 0.5, "m")`, as it was stored before there were calls."""


def test_an_answer_of_an_older_release_is_read():
    assert values.decode(OLD_ANSWER) == Answer("a", "a", 1, 2, 0.5, "m", calls=(), kept=None)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_type": int, "tools": box}, "replies in text"),
        ({"tools": [look]}, "is no ToolDefinition"),
        ({"tools": [ToolDefinition(name="a"), ToolDefinition(name="a")]}, "two of the name 'a'"),
        ({"history": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}, "the call 'x', which no message"),
        ({"history": [{"role": "assistant", "content": None}]}, "content, tool_calls, or both"),
        ({"history": [{"role": "assistant", "content": "a", "tool_calls": [{"id": "x"}]}]}, "content, tool_calls"),
        ({"history": [{"role": "assistant", "content": "a", "perdure": {"parts": 5}}]}, "is damaged"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"prompt": "", "history": [{"role": "assistant", "content": "a"}]}, "the prompt is empty"),
    ],
)
def test_what_is_none_is_refused_and_nothing_is_recorded(store, options, message):
    async def agent(s):
        await ask(s, ScriptedModel(["x"]), **{"prompt": "go", **options})

    assert message in refused(store, agent)
    assert asked(store) == []


CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ("a", "b")
    ],
}


def result(call: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call, "content": f"of {call}"}


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([CALLED, result("a")], "no result"),
        ([CALLED, result("a"), result("b"), result("b")], "more than one result"),
        ([CALLED, result("a"), {"role": "user", "content": "well?"}, result("b")], "b"),
    ],
)
def test_a_history_that_providers_refuse_is_not_sent(store, history, message):
    model, sent = replying([TextPart("x")])

    async def agent(s):
        await ask(s, model, "go", history=history, tools=box)

    told = refused(store, agent)
    assert message in told
    assert "perdure.recovery.completed" in told
    assert sent == []
    assert [entry.kind for entry in store.log("q")].count("action_finished") == 0


# --- what is sent back -----------------------------------------------------------------------------------------------


def test_a_conversation_of_plain_messages_is_sent_as_providers_want_it(store):
    model, sent = replying(
        [TextPart("a moment"), *(ToolCallPart("look", f'{{"at": {n}}}', tool_call_id=f"id{n}") for n in (1, 2))],
        [TextPart("done")],
    )

    async def agent(s):
        return await converse(s, model, system="be short")

    assert run(store, agent) == "done"
    history = store.state_at("q")["history"]
    assert history[1] == {
        "role": "assistant",
        "content": "a moment",
        "tool_calls": [
            {"id": "id1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
            {"id": "id2", "type": "function", "function": {"name": "look", "arguments": '{"at": 2}'}},
        ],
    }
    assert history[2:4] == [
        {"role": "tool", "tool_call_id": "id1", "content": "seen 1"},
        {"role": "tool", "tool_call_id": "id2", "content": "seen 2"},
    ]
    assert problems(history, shape="openai") == []
    messages = sent[1][0]
    assert problems(messages, shape="pydantic_ai") == []
    prompt, reply, results = messages
    assert [type(part) for part in reply.parts] == [TextPart, ToolCallPart, ToolCallPart]
    assert [(part.tool_name, part.tool_call_id, part.content) for part in results.parts] == [
        ("look", "id1", "seen 1"),
        ("look", "id2", "seen 2"),
    ]
    assert results.instructions == "be short"
    assert prompt.parts[0].content == "go"


def test_what_follows_results_is_in_one_request_with_them(store):
    model, sent = replying([TextPart("done")])
    history = [{"role": "user", "content": "go"}, CALLED, result("a"), result("b"), {"role": "user", "content": "and?"}]

    async def agent(s):
        return (await ask(s, model, "well?", history=history, tools=box)).text

    assert run(store, agent) == "done"
    first, _, last = sent[0][0][:3]
    assert [part.content for part in first.parts] == ["go"]
    assert [part.content for part in last.parts] == ["of a", "of b", "and?"]


def test_a_history_of_the_callers_is_not_changed(store):
    own = ModelRequest([UserPromptPart("go")], instructions="be long")
    model, sent = replying([TextPart("a")], [TextPart("b")])

    async def agent(s):
        return [(await ask(s, model, "", history=[own], system=system)).text for system in ("be short", "")]

    assert run(store, agent) == ["a", "b"]
    assert own.instructions == "be long"
    assert [messages[-1].instructions for messages, _ in sent] == ["be short", "be long"]


SIGNED = [
    ThinkingPart("hm", signature="sig", provider_name="function"),
    ToolCallPart("look", '{"at": 1}', tool_call_id="a", provider_name="function", provider_details={"seal": "s"}),
]


@pytest.mark.parametrize(
    ("change", "is_whole"),
    [
        (lambda message: message, True),
        (lambda message: {name: value for name, value in message.items() if name != "perdure"}, False),
        (lambda message: message | {"content": "shortened"}, False),
    ],
)
def test_thinking_goes_back_as_it_came_unless_its_message_was_changed(store, change, is_whole):
    model, sent = replying(ModelResponse(SIGNED), [TextPart("done")])

    async def agent(s):
        history = s.state["history"] = [{"role": "user", "content": "go"}]
        answer = await ask(s, model, "", history=history, tools=box)
        history += [change(answer.message()), {"role": "tool", "tool_call_id": "a", "content": "seen"}]
        return (await ask(s, model, "", history=history, tools=box)).text

    assert run(store, agent) == "done"
    parts = sent[1][0][1].parts
    assert ([part.part_kind for part in parts] == ["thinking", "tool-call"]) is is_whole
    if is_whole:
        assert (parts[0].signature, parts[1].provider_details) == ("sig", {"seal": "s"})
    assert parts[-1].args == '{"at": 1}'
    assert problems(store.state_at("q")["history"], shape="openai") == []


def test_a_plain_reply_keeps_nothing_beside(store):
    model, _ = replying([TextPart("a"), ToolCallPart("ring", {}, tool_call_id="x")])

    async def agent(s):
        return (await ask(s, model, "go", tools=box)).message()

    assert set(run(store, agent)) == {"role", "content", "tool_calls"}


# --- what is recorded ------------------------------------------------------------------------------------------------


def test_names_and_a_digest_of_tools_are_recorded(store):
    model, _ = replying(*[[TextPart("x")]] * 4)
    same = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.schema))
        for tool in box
    ]
    other = [
        ToolDefinition(name=tool.name, description="other", parameters_json_schema=dict(tool.schema)) for tool in box
    ]

    async def agent(s):
        for tools in (box, same, other, ()):
            await ask(s, model, "go", tools=tools)

    run(store, agent)
    first, second, third, fourth = (call.get("tools") for call in asked(store))
    assert first["names"] == third["names"] == ["look", "ring"]
    assert first == second
    assert first["sha256"] != third["sha256"]
    assert fourth is None


def test_other_tools_are_another_request(store):
    model, sent = replying([TextPart("a")], [TextPart("b")])
    offered, lives = [["look"], ["look", "ring"]], []

    async def agent(s):
        lives.append(1)
        answer = await ask(s, model, "go", tools=box.only(*offered[len(lives) - 1]))
        if len(lives) == 1:
            raise ConnectionError("the first run ends here")
        return answer.text

    assert store.run(perdure.agent(agent), "q").status == "failed"
    outcome = store.run(perdure.agent(agent), "q")
    assert outcome.status != "completed"
    assert "tools" in str(outcome.error)
    assert len(sent) == 1


def test_a_resumed_conversation_needs_no_model(store):
    model, sent = replying([ToolCallPart("ring", {})], [TextPart("done")])
    seen = []

    async def agent(s):
        text = await converse(s, model if not seen else FunctionModel(nobody, model_name="told"))
        seen.append([dict(message) for message in s.state["history"]])
        if len(seen) == 1:
            raise ConnectionError("the first run ends here")
        return text

    def nobody(messages, info):
        raise AssertionError("asked again")

    assert store.run(perdure.agent(agent), "q").status == "failed"
    assert store.run(perdure.agent(agent), "q").result == "done"
    assert seen[0] == seen[1]
    assert len(sent) == 2
