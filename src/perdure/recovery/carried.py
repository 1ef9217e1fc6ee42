"""The effects of a session that another one goes on in the place of, as that one records them.

What happened behind the place that is gone on from has happened: the new session has it on a branch that it leaves at
once, so that the rules of a rollback hold: keys answer, what can be undone is undone, and nothing of it is repeated
unasked. It decides only what is carried over; it writes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from perdure import values
from perdure.log import choices
from perdure.log.action import Action, Actions, Outcome, outcome_body, started_body
from perdure.log.branch import branch
from perdure.log.entry import Entry
from perdure.log.marks import Marks
from perdure.session.rules import argument
from perdure.session.rules.children import CANCEL
from perdure.session.rules.request import Draft
from perdure.session.rules.stateful import TOPIC
from perdure.session.rules.undoing import rolled_back

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from perdure.log.entry import Body
    from perdure.recovery.ladder import Rung


Told: TypeAlias = "tuple[str, Body]"
"""Kind and body of a record that has no number yet."""


def carried(before: list[Entry], later: Iterable[Entry], opening: Entry, *, point: int, reason: str) -> list[Draft]:
    """The records that follow the `opening` of a session that has the records `before`, up to its place.

    `later` are those that it has not, and `point` is the snapshot at that place. The last record is the rollback that
    leaves the others.
    """
    later = list(later)
    everything, known = Actions([*before, *later]), Actions(before)
    told = [_told(seq, everything[seq]) for seq, a in known.items() if _is_news(a, everything[seq])]
    entries = _numbered([*told, *_effects(everything, known, opening.seq + len(told))], opening)
    tip, there = [*branch(before), opening], branch([*before, *later])
    back = _left(tip, entries, opening, there=there, reason=reason, point=point)
    return _drafts(before, [], entries, _with_course(back, [*before, *later], [*before, *entries]))


def begun(rung: Rung, opening: Entry, saved: Draft, *, reason: str) -> list[Draft]:
    """The records that follow the `opening` of a session that begins with the state at a rung, which `saved` holds.

    Of the effects from before that state, those with a key come before it; all others of that branch show in it. What
    came later, and what stood on other branches, is left behind.
    """
    everything = Actions(rung.entries)
    here = Actions(branch(entry for entry in rung.entries if entry.seq <= rung.at))
    plain = {seq: a for seq, a in here.items() if a.key is None}
    past = {seq: a for seq, a in everything.items() if seq in here and a.key is not None}
    kept = _numbered([*_effects(past, {}, opening.seq), *_stateful(rung)], opening)
    body = saved.body | ({"stateful": dict.fromkeys(kept[-1]["states"], kept[-1].seq)} if _stateful(rung) else {})
    point = Entry(opening.seq + len(kept) + 1, opening.epoch, saved.kind, opening.time_us, body)
    known = plain | past
    left = _numbered(list(_effects(everything, known, point.seq)), replace(point, kind="opened"))
    tip = [opening, *kept, point]
    back = _left(tip, left, point, there=branch(rung.entries), reason=reason, point=point.seq)
    return _drafts([], [*kept, point], left, _with_course(back, rung.entries, [*kept, point, *left]))


def resumed(entries: list[Entry], at: int) -> tuple[list[Told], list[Told]]:
    """What a session that begins with the state at `at` has before and after it, to go on as this one would.

    Before it the effects with a key, wherever they happened; after it every call, value and answer of the present
    branch since. Kind and body of each; they are numbered as what follows an opening, with the state in between.
    """
    since = [entry for entry in branch(entries) if entry.seq > at]
    mine = {entry.seq for entry in since}
    past = {seq: a for seq, a in Actions(entries).items() if a.key is not None and seq not in mine}
    before = list(_effects(past, {}, 1))
    return before, list(_since(since, 2 + len(before)))


def _since(entries: list[Entry], last: int) -> Iterator[Told]:
    """These records without what became of no account, numbered from last + 1 on."""
    actions, numbers = Actions(entries), dict[int, int]()
    ends = {entry["started"]: entry.seq for entry in entries if entry.kind in ("action_finished", "settled")}
    answered = {entry["asked"] for entry in entries if entry.kind == "answered"}
    for entry in entries:
        action = actions.get(entry.body.get("started", entry.seq))
        if entry.kind == "action_started" and action is not None:
            kind, body = entry.kind, _begun_again(action, numbers)
        elif action is not None and action.known is not None and ends[action.seq] == entry.seq:
            outcome = replace(action.known, origin=numbers.get(action.known.origin, 0))
            ended = {"started": numbers[action.seq], **outcome_body(outcome)}
            kind, body = "action_finished", ended | {"duration_us": entry.body.get("duration_us", 0)}
        elif entry.kind == "value":
            kind, body = entry.kind, entry.body | {"parent": numbers.get(entry["parent"])}
        elif entry.kind == "asked" and entry.seq in answered and entry["about"] is None:
            kind, body = entry.kind, entry.body
        elif entry.kind == "answered" and entry["asked"] in numbers:
            kind, body = entry.kind, entry.body | {"asked": numbers[entry["asked"]]}
        else:
            continue
        last += 1
        numbers[entry.seq] = last
        yield kind, body


def _begun_again(action: Action, numbers: dict[int, int]) -> Body:
    parent = None if action.parent is None else numbers[action.parent]
    args = {name: argument.own(recorded) for name, recorded in action.args.items()}
    body = started_body(replace(action, args=args, undoes=None, parent=parent, asked=None))
    return body | {"started_us": action.started_us}


def _stateful(rung: Rung) -> list[Told]:
    """The states of tools and models at the rung, as far as the records that hold them can be read."""
    by_seq = {entry.seq: entry for entry in rung.entries}
    at = by_seq[rung.at].body.get("stateful", {})
    states = {name: by_seq[seq]["states"][name] for name, seq in at.items() if seq in by_seq}
    return [("note", {"topic": TOPIC, "states": states})] if states else []


def _drafts(before: list[Entry], kept: list[Entry], left: list[Entry], back: Draft) -> list[Draft]:
    marks = Marks()
    for entry in before:
        marks.of(entry)
    return [*(Draft(e.kind, e.body, tuple(marks.of(e))) for e in [*kept, *left]), back]


def _left(
    tip: list[Entry], entries: list[Entry], target: Entry, *, there: list[Entry], reason: str, point: int
) -> Draft:
    """The rollback to `target`, which leaves these. Children go on: their starts are not undone, and do not stand.

    The strategy is that of the end of the branch that was `there`, as far as it can be read.
    """
    mine = [a for a in Actions(entries).values() if a.undoes is None and a.undo != CANCEL]
    back = rolled_back(
        tip,
        target,
        mine,
        seam=target.seq,
        reason=reason,
        by="restore",
        strategy=choices.given_at(there),
        kept=choices.in_force_at(there),
    )
    return replace(back, body=back.body | {"parent": point})


def _with_course(back: Draft, there: Iterable[Entry], here: Iterable[Entry]) -> Draft:
    """With what a failure policy must not forget: what was tried, and spent on actions that are not carried over."""
    then, now = choices.Course().take(there), choices.Course().take(here)
    tried = [values.encode(one, at="strategy") for one in then.strategies if one not in now.strategies]
    spent = {unit: round(amount - now.spent[unit], 9) for unit, amount in then.spent.items()}
    told: Body = {"tried": tried, "spent": {unit: amount for unit, amount in spent.items() if amount > 0}}
    return replace(back, body=back.body | {name: value for name, value in told.items() if value})


def _numbered(told: list[Told], behind: Entry) -> list[Entry]:
    return [
        Entry(seq, behind.epoch, kind, behind.time_us, body) for seq, (kind, body) in enumerate(told, behind.seq + 1)
    ]


def _is_news(before: Action, now: Action) -> bool:
    """Whether an outcome became known behind the place."""
    return now.known is not None and now.known != before.known


def _effects(actions: Mapping[int, Action], known: Collection[int], last: int) -> Iterator[Told]:
    """The starts and ends of those actions that are not `known` and that matter, to be numbered from last + 1 on."""
    numbers: dict[int, int] = {}
    for action in actions.values():
        if action.seq in known or not _counts(action, numbers):
            continue
        last += 1
        numbers[action.seq] = last
        yield "action_started", _begun(action, numbers)
        if action.known is not None:
            last += 1
            yield _told(numbers[action.seq], action)


def _counts(action: Action, numbers: dict[int, int]) -> bool:
    """Whether it matters that this happened: it may not simply run twice, a key answers with it, or it undid one."""
    if action.undoes is not None:
        return action.undoes in numbers
    if action.is_perhaps_done:
        return False
    return action.effect != "repeatable" or action.key is not None


def _begun(action: Action, numbers: dict[int, int]) -> Body:
    undoes = None if action.undoes is None else numbers[action.undoes]
    args = {name: argument.own(recorded) for name, recorded in action.args.items()}
    body = started_body(replace(action, args=args, undoes=undoes, parent=undoes and -undoes, asked=None, lost=False))
    return body | {"started_us": action.started_us}


def _told(started: int, action: Action) -> Told:
    """How an action ended, as far as is known."""
    outcome = action.known
    return "action_finished", {"started": started, **outcome_body(outcome or Outcome("abandoned")), "duration_us": 0}
