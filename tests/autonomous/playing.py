"""Scripted agents: what a model says is written down, the tools are real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import perdure
from perdure import autonomous
from perdure.models import ScriptedModel
from perdure.tools import Toolbox, files, notes, people, shell

DONE = {"done": True}


def call(tool: str, **args: Any) -> dict[str, Any]:
    """A call of a tool, in a script."""
    return {"tool": tool, "args": args}


def says(*calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A reply that calls tools, in a script."""
    return {"calls": [*calls], **more}


def task(id_: str, title: str = "", **more: Any) -> dict[str, Any]:
    """A task of a plan, in a script."""
    return {"id": id_, "title": title or f"do {id_}", **more}


def plan(*tasks: Mapping[str, Any]) -> dict[str, Any]:
    """The reply that is a plan."""
    return {"match": "Split this goal", "reply": {"tasks": [*tasks]}}


def judged(**verdict: Any) -> dict[str, Any]:
    """The reply of a judge."""
    return {"match": "Judge whether", "reply": verdict or DONE}


def tools(folder: Path) -> Toolbox:
    """Those of the default agent, with commands that may be run again."""
    return Toolbox.of(files(folder), shell(folder, effect="repeatable"), people(), notes())


def agent(script: Sequence[Any], options: Mapping[str, Any] | None = None, **fields: Any) -> Callable[..., Any]:
    """An agent that follows a script. `options` are those of the declaration."""

    def make() -> autonomous.Agent:
        return autonomous.Agent(**{"model": ScriptedModel(script), "tools": tools, **fields})

    return autonomous.agent(**(options or {}))(make)


def given(folder: Path, goal: str = "make a greeting", **more: Any) -> dict[str, Any]:
    """The input of an agent that works in a folder."""
    return {"goal": goal, "workspace": str(folder), **more}


def history(store: perdure.AgentStore, session: str = "q") -> list[dict[str, Any]]:
    """What its model would be told, as of its newest step."""
    return store.state_at(session)["history"]  # type: ignore[no-any-return]
