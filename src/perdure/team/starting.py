"""A team is started by what a person types: an idea and what it may cost; or gone on with, if that is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import EntryError, InputDiffersError
from perdure.models import resolve
from perdure.models.names import checked_model
from perdure.session.keeping.opening import NO_INPUT, find, opening_of
from perdure.session.keeping.snapshot import Reader
from perdure.team.given import given_in
from perdure.team.steps import check_idea, declared

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore
    from perdure.team.team import Team

_MORE: Final = {
    "n_round": "more rounds are given by: perdure team rounds {session} N",
    "investment": "more money is given by: perdure team invest {session} USD",
    "model": "what it asks is changed by hand: perdure state {session} --set 'team.model=\"NAME\"' "
    "--set team.model_given=true; then perdure resume {session} --accept-change",
}


def check_team(fn: Any, target: str) -> None:
    """Raises `EntryError` for a function that makes no team."""
    if not hasattr(fn, "hire"):
        raise EntryError(f"{target} is no team: declare a function that returns one with @perdure.team.agent")


def started(
    store: AgentStore,
    team: Callable[..., Any],
    session: str,
    *,
    idea: str,
    model: str | None = None,
    rounds: int | None = None,
    investment: float | None = None,
    workspace: str | Path | None = None,
) -> tuple[Callable[..., Any], Any]:
    """The function and the input of a run: of a new session, or of one that goes on.

    A session that is there keeps what it was started with; another `workspace` is where its folder is now. Without one
    a new session works in `workspace/SESSION`. Raises `InputDiffersError` for another idea, model or limit; for a
    new session `ModelError` for a model that cannot be asked.
    """
    model = model and checked_model(model)
    said = {"idea": idea, "model": model, "n_round": rounds, "investment": investment}
    given = {name: value for name, value in said.items() if value is not None}
    if find(store.backend, session) is None:
        if model is not None:
            resolve(model)  # a name that means nothing is told before it is recorded
        folder = Path("workspace", session) if workspace is None else Path(workspace)
        return team, given | {"workspace": str(folder.absolute())}
    _check_same(store, session, given)
    return team if workspace is None else _moved(team, workspace), NO_INPUT


def _check_same(store: AgentStore, session: str, given: dict[str, Any]) -> None:
    state = store.state_at(session, parts=["team"])
    recorded = given_in(values.decode(opening_of(Reader(store.backend, session))["input"]))
    if "team" in state:
        check_idea(session, given["idea"], state)
        recorded = {**recorded, "idea": given["idea"]}
    for name, value in given.items():
        if value != recorded.get(name):
            hint = _MORE.get(name, "give another session (--id), or fork it").format(session=session)
            was = "without" if recorded.get(name) is None else f"with {recorded[name]!r}"
            raise InputDiffersError(f"{session} was started {was}, not with {name} {value!r}; {hint}")


def _moved(team: Callable[..., Any], workspace: str | Path) -> Callable[..., Any]:
    def hire(state: Mapping[str, Any]) -> Team:
        hired: Team = team.hire(state)  # type: ignore[attr-defined]
        hired.move(workspace)
        return hired

    return declared(hire, team, team.options)  # type: ignore[attr-defined]
