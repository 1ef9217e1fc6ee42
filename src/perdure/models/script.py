"""Scripted replies: what may be written in a script, and which replies fit a request. It knows no session."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from perdure import limits
from perdure.errors import ModelError

_KEYS: Final = ("match", "system", "role", "reply", "error", "tokens", "usd", "repeat", "calls", "wait")

ERRORS: Final = {"rate limit": 429, "overloaded": 529, "server error": 500, "timeout": None, "network": None}
"""Errors that have a name in a script, and their HTTP status; None for those that have none."""


@dataclass(frozen=True, slots=True)
class Call:
    """One scripted call of a tool; `arguments` are JSON, or a text that is meant to be none."""

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Line:
    """One scripted reply. `match` is searched in the prompt, `system` in the system text, `role` in the role's name.

    `reply` None: it says nothing beside its `calls`.
    """

    match: re.Pattern[str] | None = None
    system: re.Pattern[str] | None = None
    role: re.Pattern[str] | None = None
    reply: Any = None
    error: str | int | None = None
    retry_after_s: float = 0.0
    tokens: tuple[int, int] | None = None
    usd: float | None = None
    repeat: bool = False
    calls: tuple[Call, ...] = ()
    wait_s: float = 0.0

    @property
    def is_for_some(self) -> bool:
        """Whether it asks for something of the request, so that it goes before those that fit all."""
        return any((self.match, self.system, self.role))

    def fits(self, *, prompt: str, system: str, role: str, tools: Collection[str]) -> bool:
        """Whether it may answer a request that offers these tools."""
        if any(call.tool not in tools for call in self.calls):
            return False
        pairs = ((self.match, prompt), (self.system, system), (self.role, role))
        return all(pattern is None or pattern.search(text) is not None for pattern, text in pairs)

    def text(self) -> str:
        """The reply as a text."""
        if self.reply is None and self.calls:
            return ""
        return self.reply if isinstance(self.reply, str) else json.dumps(self.reply, ensure_ascii=False)


def fitting(lines: Sequence[Line], *, prompt: str, system: str, role: str, tools: Collection[str]) -> list[int]:
    """The numbers of the lines that fit a request, in the order in which they are given."""
    found = [i for i, line in enumerate(lines) if line.fits(prompt=prompt, system=system, role=role, tools=tools)]
    return sorted(found, key=lambda i: not lines[i].is_for_some)


def lines_of(replies: Iterable[Any], *, where: str) -> tuple[Line, ...]:
    """The lines of a script. Raises `ModelError`, with the number of the line (from 1) and what is wrong."""
    return tuple(_line(one, f"{where}, reply {number}") for number, one in enumerate(replies, 1))


def _line(told: Any, where: str) -> Line:
    if isinstance(told, str):
        return Line(reply=told)
    if not isinstance(told, Mapping):
        raise ModelError(f"{where}: it is a text, or a mapping with {', '.join(_KEYS)}; not {told!r:.100}")
    unknown = [key for key in told if key not in _KEYS]
    if unknown:
        raise ModelError(f"{where}: there is no {unknown[0]!r}; there are {', '.join(_KEYS)}")
    if ("reply" in told or "calls" in told) == ("error" in told):
        raise ModelError(f"{where}: it has either a reply, calls or both, or an error")
    error, retry_after_s = _error(told.get("error"), where)
    return Line(
        match=_pattern(told, "match", where),
        system=_pattern(told, "system", where),
        role=_pattern(told, "role", where),
        reply=told.get("reply"),
        error=error,
        retry_after_s=retry_after_s,
        tokens=_tokens(told.get("tokens"), where),
        usd=None if told.get("usd") is None else _number(told["usd"], f"{where}: usd"),
        repeat=bool(told.get("repeat", False)),
        calls=_calls(told["calls"], f"{where}: calls") if "calls" in told else (),
        wait_s=_wait_s(told.get("wait", 0), f"{where}: wait"),
    )


def _calls(told: Any, where: str) -> tuple[Call, ...]:
    if not isinstance(told, list) or not told:
        raise ModelError(f"{where}: it is a list of {{tool: NAME, args: {{…}}}}, not {told!r:.100}")
    return tuple(_call(one, where) for one in told)


def _call(told: Any, where: str) -> Call:
    match told:
        case {"tool": str(name), **rest} if not rest.keys() - {"args"}:
            args = rest.get("args", {})
            return Call(name, args if isinstance(args, str) else json.dumps(args, ensure_ascii=False))
    raise ModelError(f"{where}: one is {{tool: NAME, args: {{…}}}}, not {told!r:.100}")


def _wait_s(told: Any, where: str) -> float:
    wait_s = _number(told, where)
    if wait_s > limits.SCRIPT_WAIT_S_MAX:
        raise ModelError(f"{where}: it is at most {limits.SCRIPT_WAIT_S_MAX:g} seconds, not {told!r}")
    return wait_s


def _pattern(told: Mapping[str, Any], key: str, where: str) -> re.Pattern[str] | None:
    if told.get(key) is None:
        return None
    try:
        return re.compile(str(told[key]), re.DOTALL)
    except re.error as error:
        raise ModelError(f"{where}: {key} {told[key]!r} is no regular expression: {error}") from error


def _error(told: Any, where: str) -> tuple[str | int | None, float]:
    """(its name or HTTP status, after how many seconds to ask again)."""
    if told is None:
        return None, 0.0
    what, retry_after_s = told, 0.0
    if isinstance(told, Mapping):
        what = told.get("status", told.get("what"))
        retry_after_s = _number(told.get("retry_after", 0.0), f"{where}: retry_after")
    if (isinstance(what, str) and what in ERRORS) or (type(what) is int and 400 <= what <= 599):
        return what, retry_after_s
    raise ModelError(f"{where}: error is an HTTP status from 400 to 599, or one of {', '.join(ERRORS)}; not {what!r}")


def _tokens(told: Any, where: str) -> tuple[int, int] | None:
    if isinstance(told, Mapping):
        return int(_number(told.get("in", 0), where)), int(_number(told.get("out", 0), where))
    return None if told is None else (0, int(_number(told, f"{where}: tokens")))


def _number(told: Any, what: str) -> float:
    if isinstance(told, int | float) and not isinstance(told, bool) and told >= 0:
        return told
    raise ModelError(f"{what}: it is a number of 0 or more, not {told!r}")


def read(path: Path) -> list[Any]:
    """The replies in a file: YAML (a list, or a mapping with `replies`), or a JSON value in each line (`.jsonl`).

    Raises `ModelError`.
    """
    try:
        if path.stat().st_size > limits.SCRIPT_BYTES_MAX:
            raise ModelError(f"{path} is longer than {limits.SCRIPT_BYTES_MAX} bytes")
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        told = yaml.safe_load(text)
    except OSError as error:
        raise ModelError(f"the script {path} cannot be read: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ModelError(f"the script {path} cannot be read: {error}") from error
    found = told.get("replies") if isinstance(told, dict) else told
    if isinstance(found, list):
        return found
    raise ModelError(f"the script {path} is a list of replies, or a mapping with `replies`")
