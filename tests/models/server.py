"""A server on loopback that speaks OpenAI's chat completions, counts what it is asked, and can refuse."""

from __future__ import annotations

import json
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


Reply = str | dict[str, Any] | Refusal


@dataclass
class Server:
    """`reply` says what comes of a request: a text, the arguments of the tool that is offered, or a refusal."""

    reply: Callable[[Asked], Reply]
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def model(self) -> str:
        """The name of its model."""
        return f"openai:small@http://127.0.0.1:{self.port}/v1"


def completion(body: dict[str, Any], reply: str | dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else None}
    if not isinstance(reply, str):
        name = body["tools"][0]["function"]["name"]
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(reply)}}
        message["tool_calls"] = [call]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


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
            status, headers = (found.status, found.headers) if isinstance(found, Refusal) else (200, {})
            data = (found.body if isinstance(found, Refusal) else json.dumps(completion(body, found))).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": len(data), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

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
