"""Messages and replies of the model packages, as people have them. Run: `replies.py write PACKAGE`, `replies.py read`.

Each in a process of its own, in which nothing but the package itself is imported.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from perdure import values

COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    "a_field_of_next_year": {"x": [1]},
}
RESPONSE = {
    "id": "r",
    "created_at": 1.0,
    "model": "m",
    "object": "response",
    "output": [
        {
            "id": "o",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": []}],
        },
        {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}"},
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "c",
    "content": [
        {"type": "text", "text": "hi", "citations": None},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


def openai() -> dict[str, Any]:
    chat = importlib.import_module("openai.types.chat")
    construct = importlib.import_module("openai._models").construct_type
    response = importlib.import_module("openai.types.responses").Response
    return {
        "validated": chat.ChatCompletion.model_validate(COMPLETION),
        "as a client makes it": construct(type_=chat.ChatCompletion, value=COMPLETION),
        "with fields missing": chat.ChatCompletion.construct(id="x"),
        "message": chat.ChatCompletion.model_validate(COMPLETION).choices[0].message,
        "chunk": construct(type_=chat.ChatCompletionChunk, value={**COMPLETION, "object": "chat.completion.chunk"}),
        "response": construct(type_=response, value=RESPONSE),
    }


def anthropic() -> dict[str, Any]:
    types = importlib.import_module("anthropic.types")
    construct = importlib.import_module("anthropic._models").construct_type
    return {
        "validated": types.Message.model_validate(MESSAGE),
        "as a client makes it": construct(type_=types.Message, value=MESSAGE),
        "block": types.Message.model_validate(MESSAGE).content[2],
    }


def langchain_core() -> dict[str, Any]:
    m = importlib.import_module("langchain_core.messages")
    documents = importlib.import_module("langchain_core.documents")
    outputs = importlib.import_module("langchain_core.outputs")
    prompts = importlib.import_module("langchain_core.prompt_values")
    calls = [{"name": "f", "args": {"a": 1}, "id": "t"}]
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    reply = m.AIMessage(content="x", tool_calls=calls, usage_metadata=usage)
    chunks = [{"name": "f", "args": "{", "id": "t", "index": 0}]
    return {
        "reply": reply,
        "human": m.HumanMessage(content=[{"type": "text", "text": "a"}]),
        "system": m.SystemMessage(content="s", additional_kwargs={"a": 1}),
        "tool": m.ToolMessage(content="r", tool_call_id="t", artifact={"x": (1, 2)}),
        "chunk": m.AIMessageChunk(content="x", tool_call_chunks=chunks),
        "document": documents.Document(page_content="x", metadata={"a": 1}),
        "result": outputs.LLMResult(generations=[[outputs.ChatGeneration(message=reply)]]),
        "prompt": prompts.ChatPromptValue(messages=[m.HumanMessage(content="a")]),
        "text": reply.text,
    }


def pydantic_ai() -> dict[str, Any]:
    m = importlib.import_module("pydantic_ai.messages")
    usage = importlib.import_module("pydantic_ai.usage")
    image = m.BinaryContent(data=b"123", media_type="image/png")
    returned = m.ToolReturnPart(tool_name="f", content={"a": 1}, tool_call_id="t")
    asked = [m.SystemPromptPart("s"), m.UserPromptPart(["a", image, m.ImageUrl(url="http://x/y.png")]), returned]
    said = [m.TextPart("x"), m.ThinkingPart("t"), m.ToolCallPart("f", {"a": 1})]
    return {
        "request": m.ModelRequest(parts=asked),
        "response": m.ModelResponse(parts=said, usage=usage.RequestUsage(input_tokens=1), model_name="m"),
        "usage": usage.RunUsage(requests=1, input_tokens=2),
    }


MADE: dict[str, Callable[[], dict[str, Any]]] = {
    made.__name__: made for made in (openai, anthropic, langchain_core, pydantic_ai)
}


def write(package: str) -> None:
    """What each value is and how it is stored, in both codecs."""
    told = {
        name: [f"{type(value).__qualname__} {value!r}", *(_text(value, codec) for codec in ("msgpack", "json"))]
        for name, value in MADE[package]().items()
    }
    sys.stdout.write(json.dumps({"package": package, "told": told}))


def _text(value: Any, codec: str) -> str:
    return base64.b64encode(values.encode(value, codec=codec)).decode()


def read(given: str) -> None:
    """The same of what was read back."""
    found = json.loads(given)
    importlib.import_module(found["package"])
    again = {}
    for name, (_, *stored) in found["told"].items():
        packed, plain = (
            values.decode(base64.b64decode(s), codec=c) for s, c in zip(stored, ("msgpack", "json"), strict=True)
        )
        again[name] = [f"{type(packed).__qualname__} {packed!r}", _text(plain, "msgpack"), _text(packed, "json")]
    sys.stdout.write(json.dumps({"package": found["package"], "told": again}))


if __name__ == "__main__":
    write(sys.argv[2]) if sys.argv[1] == "write" else read(sys.stdin.read())
