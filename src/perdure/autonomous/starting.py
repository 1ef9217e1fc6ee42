"""An agent is started by what a person types: a goal and what it may spend; or gone on with, if that is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.autonomous.given import given_in
from perdure.autonomous.steps import WORKSPACE, declared
from perdure.errors import EntryError, InputDiffersError, RefusedError
from perdure.models import resolve
from perdure.models.names import checked_model
from perdure.session.keeping.opening import NO_INPUT, find, opening_of
from perdure.session.keeping.snapshot import Reader
from perdure.workspace.folder import folder_of

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore

_MORE: Final = {
    "budget": "more is sent to it: perdure send {session} --message '{{\"usd\": 1}}'",
    "rules": 'one more is sent to it: perdure send {session} --message \'{{"rule": "TEXT"}}\'',
    "model": "what it asks is changed by hand: perdure state {session} --set 'agent.model=\"NAME\"'; "
    "then perdure resume {session} --accept-change",
}

_NO_MODEL: Final = (
    "no model is named: --model openai:gpt-5 (any of pydantic-ai's; the key is in OPENAI_API_KEY), "
    "--model script:FILE (scripted replies), or --model local (a small one on this machine)"
)


def check_agent(fn: Any, target: str) -> None:
    """Raises `EntryError` for a function that makes no agent."""
    if not hasattr(fn, "make"):
        raise EntryError(f"{target} is no agent: declare a function that returns one with @perdure.autonomous.agent")


def started(
    store: AgentStore,
    agent: Callable[..., Any],
    session: str,
    *,
    said: Mapping[str, Any],
    workspace: str | Path | None = None,
) -> tuple[Callable[..., Any], Any]:
    """The function and the input of a run: of a new session, or of one that goes on. `said` is what its input says.

    A session that is there keeps what it was started with; another `workspace` is where its folder is now. Without one
    a new session works in `workspace/SESSION`. Raises `InputDiffersError` for another goal, model or limit,
    `RefusedError` for what no input can say; for a new session without a model, and `ModelError` for one that cannot be
    asked.
    """
    given = {name: value for name, value in said.items() if value not in (None, (), {})}
    if "model" in given:
        given["model"] = checked_model(given["model"])
    wanted = given_in(given)
    if find(store.backend, session) is None:
        if wanted.model is not None:
            resolve(wanted.model)  # a name that means nothing is told before it is recorded
        elif agent.make().model is None:  # type: ignore[attr-defined]
            raise RefusedError(_NO_MODEL)
        folder = Path("workspace", session) if workspace is None else Path(workspace)
        return agent, {**given, "workspace": str(folder.absolute())}
    recorded = given_in(values.decode(opening_of(Reader(store.backend, session))["input"]))
    for name in given:
        was, now = getattr(recorded, name), getattr(wanted, name)
        if now != was:
            hint = _MORE.get(name, "give another session (--id), or fork it").format(session=session)
            told = f"with {was!r}" if was else "without"
            raise InputDiffersError(f"{session} was started {told}, not with {name} {now!r}; {hint}")
    return agent if workspace is None else _moved(agent, Path(workspace).absolute()), NO_INPUT


def _moved(agent: Any, folder: Path) -> Callable[..., Any]:
    """The agent, with its files in this folder from now on."""
    before = folder_of(agent.options.get("workspace", WORKSPACE))
    return declared(agent.make, {**agent.options, "workspace": replace(before, at=folder, stays=False)})
