"""What an agent is started with, as it is recorded: the goal, what it may spend, which folder it works in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from perdure import limits
from perdure.errors import RefusedError
from perdure.tools.internet.addresses import Allowed
from perdure.tools.toolbox import Approve

NAMES: Final = ("goal", "model", "workspace", "rules", "budget", "approve", "window", "allow")
"""What the input of an agent may say."""

UNITS: Final = ("steps", "seconds", "tokens", "usd")
"""What a budget may bound: requests to models, seconds in actions, tokens, money; over all branches and restarts."""


@dataclass(frozen=True, slots=True)
class Given:
    """The input of an agent. What is None, or empty, is as the code declares it.

    `budget` by unit; `approve` says before which calls a person is asked; `window` is how many tokens the model takes;
    `allow` are hosts that it may fetch pages from, beside the tools that its code gives it.
    """

    goal: str
    model: str | None = None
    workspace: str | None = None
    rules: tuple[str, ...] = ()
    budget: Mapping[str, float] = field(default_factory=dict)
    approve: Approve | None = None
    window: int | None = None
    allow: tuple[str, ...] = ()


def given_in(told: Any) -> Given:
    """What an input says: a goal, or a mapping. Raises `RefusedError` for what none can say."""
    said = {"goal": told} if isinstance(told, str) else told
    if not isinstance(said, Mapping):
        raise RefusedError(f"the input of an agent is its goal, a text, or has {', '.join(NAMES)}; not {said!r:.100}")
    if unknown := [name for name in said if name not in NAMES]:
        raise RefusedError(f"the input of an agent has no {unknown[0]!r}; it is a goal, or has {', '.join(NAMES)}")
    if not isinstance(said.get("goal"), str) or not said["goal"].strip():
        raise RefusedError("an agent begins with a goal: give it as the input, a text")
    texts = {name: _texts(name, said.get(name, ())) for name in ("rules", "allow")}
    Allowed.of(texts["allow"], ())
    if said.get("approve") is not None and said["approve"] not in get_args(Approve):
        raise RefusedError(f"approve={said['approve']!r}: it is one of {', '.join(get_args(Approve))}")
    window = said.get("window")
    if window is not None and (type(window) is not int or window < limits.WINDOW_TOKENS_MIN):
        raise RefusedError(f"window={window!r}: it is a number of tokens from {limits.WINDOW_TOKENS_MIN} on")
    return Given(**{**said, **texts, "budget": checked_budget(said.get("budget") or {})})


def _texts(name: str, told: Any) -> tuple[str, ...]:
    if not isinstance(told, list | tuple) or not all(isinstance(one, str) for one in told):
        raise RefusedError(f"{name} is a list of texts, not {told!r:.100}")
    return tuple(told)


def checked_budget(told: Any) -> dict[str, float]:
    """How much may be spent, by unit. Raises `RefusedError`."""
    if not isinstance(told, Mapping):
        raise RefusedError(f"a budget has amounts by unit ({', '.join(UNITS)}), not {told!r:.100}")
    for unit, most in told.items():
        if unit not in UNITS:
            raise RefusedError(f"a budget has no {unit!r}; its units are {', '.join(UNITS)}")
        if type(most) not in (int, float) or not 0 <= most < math.inf:
            raise RefusedError(f"budget: {unit}={most!r}: it is a number from 0 on")
    return dict(told)


def folder_of(session: Any) -> Path:
    """The folder that a session works in, as its input says; else `workspace/ID`. It is made if it is not there."""
    folder = Path(given_in(session.input).workspace or Path("workspace", session.id))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
