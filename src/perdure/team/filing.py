"""A team as one file, told from its log; and a session that goes on from such a file alone.

What people and MetaGPT read of a file is the team as its log leaves it. Beside that it holds, for us, the state of the
last round that ended and the records since, so that a session which begins from it goes on exactly as the first one
would have. Where there is none (MetaGPT's own files), or what people read was edited, the readable part counts.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import DamageError, TeamFileError
from perdure.recovery.carried import resumed
from perdure.session.keeping.opening import find
from perdure.team import file, form, names, stored
from perdure.team import message as messages
from perdure.team.memory import IGNORED_ID
from perdure.team.role import Role
from perdure.team.scene import Scene, scene
from perdure.team.workplace import STORAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from perdure.runtime.store import AgentStore
    from perdure.team.action import Action
    from perdure.team.memory import Memory
    from perdure.team.team import Team

KEPT: Final = ("rounds_left", "workspace", "workspace_said", "model", "model_given")
"""Facts of a team that only our part of a file has."""

OWN: Final = ("name", "profile", "goal", "constraints", "desc", "is_human", "role_id")
ACTION: Final = ("name", "i_context", "prefix", "desc", "llm_name_or_type")
NOT_SAID: Final = (*OWN, "recovered", "enable_memory")


def write(store: AgentStore, session: str, hire: Callable[[Mapping[str, Any]], Team], path: Any = None) -> Path:
    """Writes the file of a team: into its workspace, or where `path` says. Its path. For a thread without event loop.

    Raises as `scene` and `file.write` do; then the file is as it was.
    """
    found = asyncio.run(scene(store.backend, session, hire))
    summary = find(store.backend, session)
    made = filed(found, session=session, entry="" if summary is None else summary.entry)
    return file.write(found.folder / STORAGE if path is None else path, made)


# --- to a file --------------------------------------------------------------------------------------------------------


def filed(found: Scene, *, session: str, entry: str) -> form.TeamFile:
    """The file of a team as its log leaves it."""
    team, facts = found.team, found.state["team"]
    spent = facts["spent"]
    cost = form.CostFile(
        total_prompt_tokens=int(spent.get("tokens_in", 0)),
        total_completion_tokens=int(spent.get("tokens_out", 0)),
        max_budget=facts["investment"],
        total_cost=spent.get("usd", 0.0),
        token_costs=facts.get("token_costs"),
    )
    shown = form.TeamFile(
        env=form.EnvironmentFile(
            desc=team.env.desc,
            roles={
                profile: _role(role, cut_off=profile in found.cut_off or role.recovered)
                for profile, role in team.env.roles.items()
            },
            history=team.env.history,
        ),
        investment=facts["investment"],
        idea=facts["idea"],
        context=form.TeamContextFile(cost=cost),
    )
    block = {"session": session, "entry": entry, **_exact(found, shown)}
    return dataclasses.replace(shown, perdure=block)


def _role(role: Role, *, cut_off: bool) -> form.RoleFile:
    dumped = role.dump()
    latest = role.latest_observed_msg if cut_off else None
    kept = [m for m in role.rc.memory.storage if latest is None or m.id != latest.id]
    return form.RoleFile(
        **{name: getattr(role, name) for name in OWN},
        states=role.states,
        actions=[_action(action) for action in role.actions],
        rc=form.RoleContextFile(
            memory=_memory(role.rc.memory, kept),
            working_memory=_memory(role.rc.working_memory, role.rc.working_memory.storage),
            state=role.rc.state if cut_off else -1,
            watch=dumped["watch"],
            react_mode=dumped["react_mode"],
            max_react_loop=dumped["max_react_loop"],
        ),
        addresses=dumped["addresses"],
        planner=_planner(dumped["planner"]),
        latest_observed_msg=None if latest is None else messages.dump(latest),
        class_name=dumped["class"],
        more=_json(dumped["fields"], without=NOT_SAID),
    )


def _action(action: Action) -> form.ActionFile:
    fields = action.dump()
    own = {name: fields[name] for name in ACTION if name in fields}
    if not isinstance(own.get("i_context"), str):
        own["i_context"] = _json({"i_context": own.get("i_context", "")}).get("i_context", "")
    return form.ActionFile(**own, class_name=names.full_name(type(action)), more=_json(fields, without=ACTION))


def _memory(memory: Memory, kept: Any) -> form.MemoryFile:
    return form.MemoryFile.of([messages.dump(message) for message in kept], ignore_id=memory.ignore_id)


def _planner(dumped: Mapping[str, Any]) -> form.PlannerFile:
    plan = dumped["plan"]
    tasks = [form.TaskFile(**task) for task in plan["tasks"]]
    made = form.PlanFile(
        goal=plan["goal"],
        context=plan["context"],
        tasks=tasks,
        task_map={task.task_id: task for task in tasks},
        current_task_id=plan["current_task_id"],
    )
    return form.PlannerFile(plan=made, auto_run=dumped["auto_run"])


def _json(fields: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Those fields that JSON holds exactly; the others are in the exact state alone. Models are what is in them."""
    found = {}
    for name, value in fields.items():
        if name in without:
            continue
        told = stored.told(value)
        try:
            if values.same(json.loads(json.dumps(told, allow_nan=False)), told):
                found[name] = told
        except (TypeError, ValueError):
            continue
    return found


# --- exactly ----------------------------------------------------------------------------------------------------------


def _exact(found: Scene, shown: form.TeamFile) -> dict[str, Any]:
    """The state of the last round that ended, and the records since; messages that the file shows are not repeated."""
    known = ids(shown)
    state = {**found.state, "messages": [], "team": {**found.state["team"], "workspace": str(found.folder)}}
    table = found.state["messages"]
    before, since = resumed(list(found.entries), found.at)
    return {
        "state": _packed(state),
        "messages": None if [each["id"] for each in table] == list(known) else [_named(each, known) for each in table],
        "before": _packed(before),
        "since": _packed(since),
    }


def facts(shown: form.TeamFile) -> dict[str, Any]:
    """What our part says of the team that the readable one does not: its folder, its rounds, its files, its roles."""
    block = shown.perdure or {}
    state = _unpacked(block["state"], "state") if "state" in block else {"team": {}, "files": {}, "roles": {}}
    told = {name: state["team"][name] for name in KEPT if name in state["team"]}
    return told | {"files": state["files"], "roles": state["roles"]}


def fields(
    kind: type[BaseModel] | None, shown: Mapping[str, Any], ours: Mapping[str, Any], *, without: tuple[str, ...]
) -> dict[str, Any]:
    """The fields of a role or an action that a file shows, as its state has them.

    What is not other than in our part of the file (`ours`) is what it is there, and so is what JSON does not hold. The
    rest is read as its class declares it. Raises `TagError` for what does not fit.
    """
    untold = _json(ours, without=without)
    kept = {name: value for name, value in ours.items() if name not in (*shown, *untold, *without)}
    for name, value in shown.items():
        if name in untold and values.same(untold[name], value):
            kept[name] = ours[name]
        else:
            kept[name] = value if kind is None else stored.read(kind, name, value)
    return kept


def ids(shown: form.TeamFile) -> dict[str, dict[str, Any]]:
    """The messages that a file shows, by id, in the order in which they come first."""
    found: dict[str, dict[str, Any]] = {}
    for each in shown.messages():
        name = id_of(each)
        found.setdefault(name, {**each, "id": name})
    return found


def id_of(message: Mapping[str, Any]) -> str:
    """Its id. Where MetaGPT has put the same in the place of all, one that follows from what the message says."""
    if message["id"] != IGNORED_ID:
        return str(message["id"])
    return hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()[:32]


def _named(message: dict[str, Any], known: Mapping[str, Any]) -> Any:
    return message["id"] if message["id"] in known else message


def _packed(value: Any) -> str:
    return base64.b64encode(values.seal(values.encode(value), codec=values.DEFAULT)).decode()


def _unpacked(text: Any, what: str) -> Any:
    try:
        return values.decode(values.unseal(base64.b64decode(text, validate=True))[1])
    except (ValueError, TypeError, DamageError) as error:
        raise TeamFileError(f"its part perdure.{what} is damaged: {error}") from error


def is_exact(shown: form.TeamFile) -> bool:
    """Whether it holds all that is needed to go on exactly, and nobody has changed it by hand."""
    block = shown.perdure or {}
    return "state" in block and not block.get(file.EDITED)


def exact(shown: form.TeamFile) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """The state of the last round that ended, and the records before and after it, as kinds and bodies.

    Raises `TeamFileError` for a part that is damaged.
    """
    block = shown.perdure or {}
    state, by_id = _unpacked(block.get("state"), "state"), ids(shown)
    try:
        table = by_id if block["messages"] is None else block["messages"]
        state["messages"] = [by_id[each] if isinstance(each, str) else each for each in table]
    except (KeyError, TypeError) as error:
        raise TeamFileError(f"its part perdure.messages names a message that it does not hold: {error}") from error
    return state, _unpacked(block.get("before"), "before"), _unpacked(block.get("since"), "since")
