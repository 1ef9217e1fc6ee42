"""A server on loopback that speaks OpenAI's chat completions, counts what it is asked, and can refuse."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    """One request: when it came, its body, its headers."""

    at_s: float
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def said(self) -> str:
        """The newest text of the user."""
        texts = [one["content"] for one in self.body["messages"] if one["role"] in ("user", "tool")]
        return str(texts[-1])


@dataclass
class Refusal:
    """A reply that is none."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"error": {"message": "no"}}'


@dataclass
class Calls:
    """A reply that calls functions: (id, name, arguments as JSON), with a text or without."""

    calls: list[tuple[str, str, str]]
    text: str = ""


@dataclass
class Broken:
    """A stream that ends in the middle of a reply: `cut` (the connection), `silent` (no word of an end), or `error`."""

    text: str
    how: str


Reply = str | dict[str, Any] | Refusal | Calls | Broken


@dataclass
class Server:
    """`reply` says what comes of a request: a text, the arguments of the tool that is offered, calls, a refusal."""

    reply: Callable[[Asked], Reply]
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def model(self) -> str:
        """The name of its model."""
        return f"openai:small@http://127.0.0.1:{self.port}/v1"


USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def calls_of(body: dict[str, Any], reply: str | dict[str, Any] | Calls) -> list[dict[str, Any]]:
    """What a reply calls, as it is sent."""
    if isinstance(reply, dict):
        reply = Calls([("call_1", body["tools"][0]["function"]["name"], json.dumps(reply))])
    calls = reply.calls if isinstance(reply, Calls) else []
    return [
        {"index": at, "id": each, "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (each, name, arguments) in enumerate(calls)
    ]


def completion(body: dict[str, Any], reply: str | dict[str, Any] | Calls) -> dict[str, Any]:
    text = reply.text if isinstance(reply, Calls) else reply
    message: dict[str, Any] = {"role": "assistant", "content": text if isinstance(text, str) and text else None}
    if calls := calls_of(body, reply):
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": USAGE,
    }


def chunks(body: dict[str, Any], reply: str | dict[str, Any] | Calls | Broken) -> Iterator[dict[str, Any]]:
    """The same reply as a stream has it: a word at a time, the arguments of calls in two pieces."""
    own = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": body["model"]}

    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        return {**own, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    text = reply if isinstance(reply, str) else getattr(reply, "text", "")
    yield from (chunk(content=word) for word in re.findall(r"\s*\S+", text))
    if isinstance(reply, Broken):
        return
    for call in calls_of(body, reply):
        arguments = call["function"]["arguments"]
        yield chunk(tool_calls=[{**call, "function": {**call["function"], "arguments": arguments[:3]}}])
        yield chunk(tool_calls=[{"index": call["index"], "function": {"arguments": arguments[3:]}}])
    yield chunk("stop")
    yield {**own, "choices": [], "usage": USAGE}


@contextmanager
def serving(reply: Callable[[Asked], Reply]) -> Iterator[Server]:
    """Serves until the end of the block."""
    told = Server(reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = Asked(time.monotonic(), body, {k.lower(): v for k, v in self.headers.items()})
            told.asked.append(asked)
            found = told.reply(asked)
            if body.get("stream") and not isinstance(found, Refusal):
                self.stream(body, found)
                return
            assert not isinstance(found, Broken), "only a stream ends in the middle"
            status, headers = (found.status, found.headers) if isinstance(found, Refusal) else (200, {})
            data = (found.body if isinstance(found, Refusal) else json.dumps(completion(body, found))).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": len(data), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        def stream(self, body: dict[str, Any], found: Any) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            how = found.how if isinstance(found, Broken) else "done"
            ending = {"done": ["[DONE]"], "error": ['{"error": {"message": "overloaded", "code": 503}}']}.get(how, [])
            for data in (*map(json.dumps, chunks(body, found)), *ending):
                self.write(f"data: {data}\n\n".encode())
            if how == "cut":
                self.close_connection = True
            else:
                self.write(b"")

        def write(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        def log_message(self, *_: Any) -> None: ...

    class Listening(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None: ...  # a client that was killed

    httpd = Listening(("127.0.0.1", 0), Handler)
    told.port = httpd.server_address[1]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
