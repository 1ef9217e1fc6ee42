"""A session that begins from a team's file: exactly where the first one was, or as the file reads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import clock, values
from perdure.errors import TagError, TeamFileError
from perdure.log.branch import REENTRY, RESTORE_POINT
from perdure.log.entry import Entry
from perdure.log.marks import Marks
from perdure.models.names import name_of
from perdure.ops.beginning import make
from perdure.session.keeping.opening import FORMAT_VERSION
from perdure.session.rules.request import Draft
from perdure.team import filing, names, rounds
from perdure.team.given import ROUNDS
from perdure.team.kinds import plain
from perdure.team.role import Role
from perdure.team.workplace import Where

if TYPE_CHECKING:
    from perdure.stores.contract import Store
    from perdure.team.form import ActionFile, RoleFile, TeamFile
    from perdure.team.team import Team

_NONCE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Going:
    """What a file does not say of a session that begins from it, or what is to be otherwise.

    `entry` and `code` are the entry point and the fingerprint of the function that goes on with it, `imports` the
    modules that make the classes known which it names. `rounds` counts for a file that has only what people read.
    """

    entry: str = ""
    code: str = ""
    by: str = ""
    rounds: int | None = None
    imports: tuple[str, ...] = ()


def begin(store: Store, file: TeamFile, team: Team, *, into: str, going: Going) -> bool:
    """Makes the session `into`. Durable on return. True if it goes on exactly where the first one was.

    `team` is one that was hired and has done nothing. Raises `SessionExistsError`, `TeamFileError` for a part that is
    damaged or a role that is not hired.
    """
    exact = filing.is_exact(file)
    if exact:
        state, before, since = filing.exact(file)
    else:
        state, before, since = _as_it_reads(file, team, going), [], []
    if exact and team.workspace_said:
        state["team"] |= team.where(None).facts
    try:
        rounds.put_in(team.env, state)  # what cannot be built is told before a session has it
    except TagError as error:
        raise TeamFileError(f"the file of the team cannot be taken: {error}. Nothing was taken from it") from error
    delta = values.encode([["set", [name], value] for name, value in state.items()])
    told = "exactly" if exact else "as it reads"
    saved = {
        "parent": 0,
        "delta": delta,
        "flags": REENTRY | RESTORE_POINT,
        "name": None,
        "reason": f"team.json, {told}",
        "open": [],
    }
    drafts, marks = [Draft("opened", _opened(file, going))], Marks()
    for kind, body in [*before, ("saved", saved), *since]:
        entry = Entry(len(drafts) + 1, 1, kind, 0, body)
        drafts.append(Draft(kind, body, tuple(marks.of(entry))))
    make(store, into, drafts)
    return exact


def _opened(file: TeamFile, going: Going) -> dict[str, Any]:
    block = file.perdure or {}
    origin = {"session": str(block.get("session", "team.json")), "seq": 0, "reason": "team.json", "by": going.by}
    return {
        "format": FORMAT_VERSION,
        "form": "steps",
        "entry": going.entry,
        "input": values.encode({"idea": file.idea}),
        "version": "",
        "labels": {},
        "code": going.code,
        "nonce": clock.new_bytes(_NONCE_BYTES),
        "origin": origin | {"snapshot": "team.json"},
    }


# --- as it reads ------------------------------------------------------------------------------------------------------


def hired(file: TeamFile) -> list[Role]:
    """The roles that a file names, of the classes that this program knows. Raises `ClassUnknownError`."""
    return [
        names.lookup(role.class_name, Role)(name=role.name, profile=role.profile) for role in file.env.roles.values()
    ]


def _as_it_reads(file: TeamFile, team: Team, going: Going) -> dict[str, Any]:
    missing = [role.profile for role in file.env.roles.values() if role.profile not in team.env.roles]
    if missing:
        raise TeamFileError(f"the team that goes on hires no {', '.join(missing)}; the file has these roles")
    found, known = filing.ids(file), filing.facts(file)
    for each in file.messages():
        if _said(each) != _said(found[filing.id_of(each)]):
            raise TeamFileError(
                f"the message {each['id']!r:.80} is not the same in all places of the file: what is changed by hand is "
                "changed for each role that remembers it, or gets an id of its own"
            )
    numbers = {each: number for number, each in enumerate(found)}
    cost = file.context.cost
    facts = {
        "idea": file.idea,
        "seed": clock.new_bytes(_NONCE_BYTES).hex(),
        "round": 0,
        "rounds_left": ROUNDS if going.rounds is None else going.rounds,
        "investment": file.investment,
        "spent": {
            "usd": cost.total_cost,
            "tokens_in": cost.total_prompt_tokens,
            "tokens_out": cost.total_completion_tokens,
        },
        **_where(file, team).facts,
        "model": name_of(team.model),
        "model_given": False,
        "told": file.env.history,
    }
    facts |= {name: known[name] for name in filing.KEPT if name in known}
    if team.workspace_said:
        facts |= team.where(None).facts
    if cost.token_costs is not None:
        facts["token_costs"] = cost.token_costs
    if going.imports:
        facts["imports"] = list(going.imports)
    by_profile = {role.profile: role for role in file.env.roles.values()}
    return {
        "team": facts,
        "roles": {p: _role(by_profile.get(p), role, known["roles"].get(p)) for p, role in team.env.roles.items()},
        "memories": {p: _memories(by_profile.get(p), numbers) for p in team.env.roles},
        "messages": list(found.values()),
        "history": [],
        "files": known["files"],
    }


def _said(message: dict[str, Any]) -> tuple[Any, ...]:
    """What every message has but for its id, whatever the order in which it names whom it is sent to."""
    told = (message[key] for key in ("content", "instruct_content", "role", "cause_by", "sent_from"))
    return (*told, sorted(message["send_to"]))


def _where(file: TeamFile, team: Team) -> Where:
    """The folder that the code says; else the one that the file says."""
    workdir = file.context.workdir
    return Where(Path(workdir), "") if workdir and not team.workspace_said else team.where(None)


def _role(file: RoleFile | None, role: Role, ours: dict[str, Any] | None) -> dict[str, Any]:
    """The dump of a role as the file has it; fields that it does not say are as the constructor made them.

    `ours` is that role in our part of the file, if it has one.
    """
    dumped = role.dump()
    if file is None:
        return dumped
    latest = file.latest_observed_msg
    own = {name: getattr(file, name) for name in filing.OWN}
    told = {name: value for name, value in file.more.items() if name in type(role).model_fields or name not in own}
    fields = _fields(type(role), told, ours, without=filing.NOT_SAID)
    interrupted = latest is not None or file.rc.state >= 0
    acts = ours["actions"] if ours else []
    taken = file.rc.state if file.rc.react_mode == "by_order" else 0
    return dumped | {
        "fields": {**dumped["fields"], **fields, **own, "recovered": interrupted},
        "addresses": sorted(file.addresses) or dumped["addresses"],
        "actions": [_action(each, known) for each, known in zip_longest(file.actions, acts[: len(file.actions)])],
        "state": file.rc.state,
        "taken": max(0, taken),
        "watch": sorted(file.rc.watch),
        "react_mode": file.rc.react_mode,
        "max_react_loop": file.rc.max_react_loop,
        "planner": {"plan": plain(file.planner.plan), "auto_run": file.planner.auto_run},
        "latest": None if latest is None else filing.id_of(latest),
    }


def _action(file: ActionFile, ours: dict[str, Any] | None) -> dict[str, Any]:
    told = {**{name: getattr(file, name) for name in filing.ACTION}, **file.more}
    mine = ours if ours and ours["class"] == file.class_name else None
    return {"class": file.class_name, "fields": _fields(names.known(file.class_name), told, mine, without=())}


def _fields(
    kind: type[Any] | None, shown: dict[str, Any], ours: dict[str, Any] | None, *, without: tuple[str, ...]
) -> dict[str, Any]:
    try:
        return filing.fields(kind, shown, ours["fields"] if ours else {}, without=without)
    except TagError as error:
        raise TeamFileError(f"the file of the team cannot be taken: {error}. Nothing was taken from it") from error


def _memories(file: RoleFile | None, numbers: dict[str, int]) -> dict[str, list[int]]:
    if file is None:
        return {"memory": [], "working": [], "inbox": []}
    return {
        "memory": [numbers[filing.id_of(each)] for each in file.rc.memory.storage],
        "working": [numbers[filing.id_of(each)] for each in file.rc.working_memory.storage],
        "inbox": [],
    }
