"""Conversations as a list of events, written down in each provider's shape.

An event is ("user", text), ("model", text, [(id, name), …]) or ("results", [(id, name, value), …], text).
"""

from __future__ import annotations

import json

from hypothesis import strategies as st


def openai(events):
    made = []
    for event in events:
        match event:
            case "user", text:
                made.append({"role": "user", "content": text})
            case "model", text, calls:
                made.append({"role": "assistant", "content": text})
                if calls:
                    made[-1]["tool_calls"] = [
                        {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps({"x": i})}}
                        for i, name in calls
                    ]
            case "results", results, text:
                made += [{"role": "tool", "tool_call_id": i, "content": value} for i, _, value in results]
                made += [{"role": "user", "content": text}] if text else []
    return made


def responses(events):
    made = []
    for event in events:
        match event:
            case "user", text:
                made.append({"role": "user", "content": text})
            case "model", text, calls:
                made.append({"type": "reasoning", "id": f"r{len(made)}", "summary": []})
                if text:
                    made.append({"role": "assistant", "content": text})
                made += [
                    {"type": "function_call", "call_id": i, "name": name, "arguments": json.dumps({"x": i})}
                    for i, name in calls
                ]
            case "results", results, text:
                made += [{"type": "function_call_output", "call_id": i, "output": value} for i, _, value in results]
                made += [{"role": "user", "content": text}] if text else []
    return made


def anthropic(events):
    made = []
    for event in events:
        match event:
            case "user", text:
                made.append({"role": "user", "content": text})
            case "model", text, calls:
                blocks = [{"type": "text", "text": text}] if text or not calls else []
                blocks += [{"type": "tool_use", "id": i, "name": name, "input": {"x": i}} for i, name in calls]
                made.append({"role": "assistant", "content": blocks})
            case "results", results, text:
                blocks = [{"type": "tool_result", "tool_use_id": i, "content": value} for i, _, value in results]
                blocks += [{"type": "text", "text": text}] if text else []
                made += [{"role": "user", "content": blocks}] if blocks else []
    return made


def google(events, *, ids=True):
    made = []

    def named(i, **told):
        return {**told, "id": i} if ids else told

    for event in events:
        match event:
            case "user", text:
                made.append({"role": "user", "parts": [{"text": text}]})
            case "model", text, calls:
                parts = [{"text": text}] if text or not calls else []
                parts += [{"function_call": named(i, name=name, args={"x": i})} for i, name in calls]
                made.append({"role": "model", "parts": parts})
            case "results", results, text:
                parts = [{"function_response": named(i, name=name, response={"result": v})} for i, name, v in results]
                parts += [{"text": text}] if text else []
                made += [{"role": "user", "parts": parts}] if parts else []
    return made


def pydantic_ai(events):
    made = []

    def asked(parts):
        made.extend([{"kind": "request", "parts": parts}] if parts else [])

    for event in events:
        match event:
            case "user", text:
                asked([_prompt(text)])
            case "model", text, calls:
                parts = [{"part_kind": "thinking", "content": "hm"}] if calls else []
                parts += [{"part_kind": "text", "content": text}]
                parts += [
                    {"part_kind": "tool-call", "tool_call_id": i, "tool_name": n, "args": {"x": i}} for i, n in calls
                ]
                made.append({"kind": "response", "parts": parts, "timestamp": "2026-01-01T00:00:00Z"})
            case "results", results, text:
                parts = [
                    {**_answer(name), "tool_call_id": i, "tool_name": name, "content": v} for i, name, v in results
                ]
                asked(parts + ([_prompt(text)] if text else []))
    return made


def _prompt(text):
    """What goes to the model and is no result: a prompt to try again is one too, if it names no tool."""
    return {"part_kind": "retry-prompt" if text == "go on" else "user-prompt", "content": text}


def _answer(name):
    return {"part_kind": "retry-prompt" if name == "read" else "tool-return"}


WRITE = {
    "openai": openai,
    "responses": responses,
    "anthropic": anthropic,
    "google": google,
    "pydantic_ai": pydantic_ai,
}

TOOLS = ("search", "send", "read")

texts = st.sampled_from(["hello", "go on", "what now?", "so"])
ids = st.integers(0, 5).map(lambda n: (f"c{n}", TOOLS[n % 3]))
"""Few ids, so that they are used again; an id always means the same tool."""

any_events = st.lists(
    st.one_of(
        st.tuples(st.just("user"), texts),
        st.tuples(st.just("model"), texts, st.lists(ids, max_size=3)),
        st.tuples(
            st.just("results"),
            st.lists(st.tuples(ids, texts).map(lambda t: (*t[0], t[1])), max_size=3),
            st.one_of(st.just(""), texts),
        ),
    ),
    max_size=9,
).map(lambda events: [("user", "begin"), *events])
"""Anything at all: results without calls, before them, doubled, in any order, and ids used again."""


@st.composite
def crashed(draw):
    """A good conversation that lost some of its results, as a crash leaves it."""
    events, number = [("user", "begin")], 0
    for _ in range(draw(st.integers(1, 4))):
        calls = [(f"c{number + n}", TOOLS[n % 3]) for n in range(draw(st.sampled_from([1, 3])))]
        number += len(calls)
        events.append(("model", draw(texts), calls))
        there = [(i, name, f"result {i}") for i, name in calls if draw(st.booleans())]
        events.append(("results", there, ""))
        events += [("user", "and?")] if draw(st.booleans()) else []
    return events
