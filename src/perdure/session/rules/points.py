"""The rest of one open session without I/O.

Saving, passing recorded points again, rolling back, and the end of an entry.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure import limits, values
from perdure.errors import (
    DivergedError,
    EntryError,
    NoProgressError,
    NotKeptError,
    RefusedError,
    RolledBack,
    StateChangedError,
    StorableError,
    Suspended,
)
from perdure.log import choices, points
from perdure.log.action import Action, Actions
from perdure.log.branch import REENTRY, REPLACING, RESTORE_POINT, branch
from perdure.log.marks import key_mark, name_mark
from perdure.session.rules import argument, failure
from perdure.session.rules import call as calls
from perdure.session.rules import item as items
from perdure.session.rules.attempt import kind_of, state_divergence
from perdure.session.rules.children import starts_elsewhere
from perdure.session.rules.core import Journal
from perdure.session.rules.cutting import cut_with_the_run
from perdure.session.rules.failing import Failing
from perdure.session.rules.files import named as files_named
from perdure.session.rules.files import owed
from perdure.session.rules.flights import Flights
from perdure.session.rules.inspecting import inspection, inspection_body
from perdure.session.rules.ledger import Ledger
from perdure.session.rules.parts import State
from perdure.session.rules.request import AwaitFlights, Draft, StateAt, Steps
from perdure.session.rules.status import status
from perdure.session.rules.undoing import OWN_UNDOS, no_undo, own_undo, rolled_back
from perdure.state.digest import Digests
from perdure.state.masking import mask_state
from perdure.state.shadow import Shadow
from perdure.state.survey import shown
from perdure.values.detect import search_delta

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from perdure.log.entry import Entry
    from perdure.session.keeping.reentry import Start
    from perdure.session.keeping.snapshot import Snapshot
    from perdure.session.rules.item import Sent
    from perdure.state.shadow import Changes


_log = logging.getLogger("perdure.state")


class Core(Journal):
    """Everything that an open session decides."""

    def __init__(
        self,
        *,
        form: str,
        nonce: bytes,
        undos: Mapping[str, Callable[..., Any]],
        append_only: Collection[str] = (),
        strict: bool = False,
        guard: values.Guard = values.ALLOW,
    ) -> None:
        super().__init__(form=form, nonce=nonce, undos=undos, guard=guard)
        self.on_masked: Callable[[dict[str, Any]], None] = lambda _parts: None
        """Told of the parts that had to be replaced by others, without the secrets in them."""
        self._masked: list[str] = []
        self.completing: tuple[Any] | None = None
        self.failing = Failing(self)
        self.on_point: Callable[[int, bytes], None] = lambda _seq, _delta: None
        """Told of each snapshot that the code makes or meets again: its number and its delta."""
        self._append_only, self._strict = append_only, strict
        self.shadow: Shadow
        self.state: State

    def enter(self, start: Start) -> None:
        """The state at the re-entry point, nothing claimed yet."""
        self.head, self.epoch, self.left, self._seam = start.head, start.epoch, start.left, start.seam
        self.ledger = Ledger(start.reentry, start.tail)
        self.same_code, self.parent_point = start.same_code, start.point
        self.leaving, self.completing, self.happened, self._progressed = None, None, False, False
        self.flights = Flights()
        self._cut.clear()
        self._put_off.clear()
        self._broken.clear()
        self._taken_up.clear()
        self._whole = None
        self.inbox.enter()
        self.inbox.heard(start.sent)
        self._passed = [(start.reentry.seq, start.point)]
        self._began_with = start.reentry, start.tail
        self.failing.enter(start.tail)
        self._begin_state(start.snapshot)

    def _begin_state(self, snapshot: Snapshot) -> None:
        self._begin_shadow(snapshot.names)
        self.state_at = self.parent_point
        self.state = State(snapshot, guard=self._guard_state, loaded=self.shadow.track)

    def _begin_shadow(self, order: list[str]) -> None:
        self.shadow = Shadow(append_only=self._append_only, strict=self._strict, order=order)
        self.digests = Digests(self.shadow)

    def _advance(self, changes: Changes, *, at: int) -> None:
        """The state as compared is that of the snapshot `at`; 0 for none that is recorded."""
        self.shadow.advance(changes)
        self.digests.moved(changes.ops)
        self.state_at = at

    def _guard_state(self) -> None:
        self.refuse_inside("the state is touched")

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, name: str | None = None, *, reason: str | None = None) -> Steps:
        """A restore point, and on a handle a re-entry point. Its number; None when there was nothing to save."""
        self.refuse_inside("save")
        if name is not None:
            _check_name(name)
        changes = self._changes()
        if not (self.happened or name or changes):
            return None
        if self.flights.has_loose:
            self._refuse_loose("a save")
        recorded = self.ledger.points
        met = next((point for point in recorded if point["name"] == name), None) if recorded else None
        before = met.seq if met else None
        ahead = (met or not recorded) and self.ledger.has_more(None)  # for it is inside of no action
        if ahead and (yield from self.siblings_first("a save", before=before)):
            changes = self._changes()
        if recorded:
            seq = yield from self._pass_point(met, changes)
        else:
            flags = RESTORE_POINT | (REENTRY if self.form == "handle" else 0)
            seq = yield from self._write_point(changes, flags, name=name, reason=reason)
        self._progressed = self._progressed or self.happened or bool(changes)
        self.happened = False
        yield from self.inbox.attend()
        return seq

    def _refuse_loose(self, what: str) -> None:
        """Raises `RefusedError` when calls are in flight that no block waits for, other than those around this one."""
        if loose := self.flights.loose(self.stack):
            raise RefusedError(
                f"{what} while {len(loose)} other calls are in flight: what of them belongs to it would be chance. "
                "Await them first, or make them in a block: with s.parallel() as p"
            )

    def _changes(self, *, full: bool = False) -> Changes:
        """What changed, without secrets in it. Raises `SecretFoundError`."""
        changes = self._compared(full=full)
        if changes and self.guard.looks and (found := search_delta(changes.data)) is not None:
            self._mask(found.paths)
            changes = self._compared(full=full)
        if changes.aliases:
            _tell_of(changes.aliases)
        return changes

    def _compared(self, *, full: bool) -> Changes:
        return self.shadow.compare(self.state.touched(), order=self.state.order(), full=full)

    def _mask(self, paths: list[str]) -> None:
        """Puts masks in the place of the secrets in the state. Raises `SecretFoundError`."""
        self.guard.meets(paths)
        self._masked += paths
        replaced = mask_state(self.state.touched())
        for name, value in replaced.items():
            self.state[name] = value
        self.on_masked(replaced)

    def _write_point(
        self, changes: Changes, flags: int, *drafts: Draft, name: str | None = None, reason: str | None = None
    ) -> Steps:
        files = {} if self.files is None else (yield from self.files.now())
        open_there = self._open() if self.flights.open else set()
        body = {
            "parent": self.parent_point,
            "delta": changes.data,
            "flags": flags,
            "name": name,
            "reason": reason,
            "open": sorted(open_there),
            **files,
        }
        if self.states is not None:
            self.states.note(self.put_off)
            body["stateful"] = self.states.at

        def written(entries: list[Entry]) -> None:
            point = [entry for entry in entries if entry.kind == "saved"][-1]
            self._advance(changes, at=point.seq)
            self._pass(point)
            if flags & REENTRY:
                self._passed = [(point.seq, point.seq)]
                self.ledger.reenter(point, keep=open_there)

        marks = () if name is None else (name_mark(name),)
        told = self._told() if self._masked else ()
        yield from self.commit(*told, Draft("saved", body, marks), *drafts, then=written)
        return self.parent_point

    def _told(self) -> tuple[Draft, ...]:
        """The note about what was masked in the state."""
        paths, self._masked = self._masked, []
        return (Draft("note", {"topic": "masked", "paths": paths}),)

    def inspected(self, asked: Sent) -> Steps:
        """A snapshot beside the points that the code makes: nothing goes on from it, and a replay passes it by."""
        reason = items.reason_of(asked)
        if self.ledger.points or self.state_at != self.parent_point:
            return (yield from inspection(self, reason=reason))
        try:
            changes = self._changes()
        except (StorableError, StateChangedError):
            return (yield from inspection(self, reason=reason))
        return [Draft("saved", inspection_body(self.parent_point, changes.data, reason=reason))]

    def _open(self) -> set[int]:
        """What can still be claimed after a re-entry here.

        The calls whose result the code has not been handed, and what is recorded inside of those that run.
        """
        found, running = set(self.flights.open), self.flights.around(())
        ahead = ((seq, draft.body.get("parent")) for seq, draft in enumerate(self._put_off, self.head + 1))
        for seq, parent in [*self.ledger.inner.items(), *ahead]:
            if parent in running:
                found.add(seq)
                running.add(seq)
        return found

    def _pass_point(self, recorded: Entry | None, changes: Changes) -> Steps:
        """A save met again while answering: writes nothing; unchanged code must have the state of the last one."""
        self._advance(changes, at=recorded.seq if recorded else 0)
        if recorded is None:
            return None
        self.ledger.pass_points(recorded.seq)
        self._pass(recorded)
        if not self.ledger.points:
            yield from self._check_state(recorded)
        return recorded.seq

    def _pass(self, point: Entry) -> None:
        self.parent_point = point.seq
        self._passed.append((point.seq, point.seq))
        self.on_point(point.seq, point.body["delta"])

    def _check_state(self, recorded: Entry) -> Steps:
        """The state at the last recorded point against that of the code.

        What differs for changed code is in the next delta.
        """
        then = yield StateAt(recorded.seq)
        now = self.state.load_all()
        if values.encode(then) == values.encode(now):
            return
        if self.same_code:
            raise self.leave(DivergedError(state_divergence(recorded, then, now)))
        self._begin_shadow(list(then))
        for name, value in then.items():
            self.shadow.track(name, value)

    # --- the end of an entry ------------------------------------------------------------------------------------------

    def end(self, *drafts: Draft, progress: bool = False) -> Steps:
        """The end of a step, a script or a clean close: state and status in one commit."""
        self.go_on()
        if self.flights.has_loose:
            self._refuse_loose("the return")
        self.check_leftovers("the return", parent=self.parent)
        if self.form == "script" or self.completing:
            yield from self.inbox.attend()  # an end that was heard of comes before a completion
        goes_on = progress and not self.completing
        did = self._progressed or self.happened or self.completing
        changes = self._changes(full=bool(self._append_only) and not (goes_on and did))
        if progress and not (did or changes):
            raise NoProgressError(
                "the step neither called, changed nor completed anything: it would do the same for ever. "
                "Let it change the state, or call s.complete(result)"
            )
        quiet = self.form == "handle" and not (self.happened or changes)
        self.happened = self._progressed = False
        if quiet:
            yield from self.commit(*drafts)
        else:
            flags = RESTORE_POINT if self.form == "script" else REENTRY | RESTORE_POINT
            yield from self._write_point(changes, flags, *drafts)
        if progress and not self.completing:
            yield from self.inbox.attend()

    def complete(self, result: Any) -> None:
        """Takes effect with this step's state, at its return."""
        self.refuse_inside("complete")
        self.guard.passed(values.encode(result, at="result"), at="result")
        self.completing = (result,)

    # --- rolling back -------------------------------------------------------------------------------------------------

    def rollback(
        self,
        to: str | int,
        *,
        reason: str,
        by: str,
        strategy: Any,
        branch_name: str | None = None,
        as_recorded: bool = False,
        from_inside: bool = False,
        told: tuple[Draft, ...] = (),
        taken: tuple[int, ...] = (),
    ) -> Steps:
        """Records the rollback with the undos it owes. In a run it does not return; a handle enters again after it.

        `told` are records of why, written before it; `taken` items of the inbox that go with them. `from_inside`: the
        code may be inside of an action, which is broken off.

        Code that starts its entry again finds the state that was put there meanwhile; a person (`as_recorded`), and a
        handle that names a point, the one that was saved.
        """
        if not from_inside:
            self.refuse_inside("rollback")
        if branch_name is not None:
            _check_name(branch_name)
        if self.form == "handle" and self.flights.open:
            raise RefusedError("rollback inside a parallel block of a handle: leave the block first")
        points.find((yield from self.whole()), to)
        while self.flights.around(self.stack):
            yield AwaitFlights()
            self.go_on()
        entries = yield from self.whole()
        tip, target = branch(entries), points.find(entries, to)
        actions = Actions(tip)
        left = [a for a in actions.values() if a.seq > target.seq and a.undoes is None]
        elsewhere = starts_elsewhere(Actions(entries), actions, after=target.seq)
        try:
            for action in left:
                if action.effect == "once" and action.outcome is None:
                    yield from self.settle_doubt(None, action)
        except Suspended as suspended:
            raise self.leave(suspended) from None
        if self.files is None and any(map(files_named, tip)):
            raise RefusedError("files belong to this session: open it with its workspace=, so that they go back, too")
        files = {} if self.files is None else (yield from self.files.back(entries, target))
        yield from self.commit(
            *told,
            rolled_back(
                tip,
                target,
                sorted([*left, *elsewhere], key=lambda action: action.seq),
                seam=self._seam,
                reason=reason,
                by=by,
                strategy=strategy,
                kept=choices.in_force_at(tip),
                name=branch_name,
                files=files,
            ),
            *(() if as_recorded or (self.form == "handle" and to != 0) else self._replaced(tip, target, behind=told)),
            taken=taken,
        )
        self.left = True
        if self.form != "handle":
            raise self.leave(RolledBack())

    def _replaced(self, tip: list[Entry], target: Entry, *, behind: tuple[Draft, ...]) -> list[Draft]:
        """The states that were put in the place of the one at the re-entry point of the target, once more."""
        found = [entry for entry in tip if entry.kind in REPLACING and entry["at"] <= target.seq < entry.seq]
        first = self.head + len(self._put_off) + len(behind) + 2  # behind what was put off, and the rollback
        now = {entry.seq: seq for seq, entry in enumerate(found, first)}
        return [Draft(e.kind, {**e.body, "parent": now.get(e["parent"], e["parent"])}) for e in found]

    def finish_files(self) -> Steps:
        """The files as the log says that they are, before any code runs."""
        if self.files is not None:
            yield from self.files.finish(*self._began_with)
        elif owed(self._began_with[1]) is not None:
            raise RefusedError("files of this session are still to be taken back: open it with its workspace=")

    def finish_undos(self) -> Steps:
        """Undos that a recorded rollback still owes; done before any code runs. A fork leaves those of its base."""
        mine = [entry for entry in self.ledger.rollbacks if entry.seq > self._seam]
        for seq in [seq for entry in mine for seq in entry["undo"]]:
            yield from self.undo(seq)

    def undo(self, seq: int) -> Steps:
        """Undoes this action, unless that was tried to its end. Leaves when a person must decide first."""
        try:
            yield from self._undo(seq)
        except Suspended as suspended:
            raise self.leave(suspended) from None

    def _undo(self, seq: int) -> Steps:
        everything = Actions((yield from self.whole()))
        tried = next((a for a in everything.values() if a.undoes == seq), None)
        known = tried.outcome if tried else None
        if known and known.final and not known.nothing_happened:
            return
        undone = everything[seq]
        call = self._undo_call(undone)
        self._undoing = (key_mark(undone.key),) if undone.key is not None else ()
        is_once = tried is not None and "once" in (call.effect, tried.effect)
        if tried and is_once and not known and (yield from self.settle_doubt(call, tried)) is not None:
            return
        action = yield from self.start(call, tried)
        yield from self.see_through(call, action)

    def _undo_call(self, action: Action) -> calls.Call:
        name = action.undo or ""
        if name in OWN_UNDOS and name in self.undos:
            return own_undo(self.undos[name], action)
        fn = self.undos.get(name) or self.undos.get(name.rpartition(":")[2])
        if fn is None:
            raise EntryError(
                f"{action.undo}, which undoes {action.name} (record {action.seq}), is not defined in this process: "
                "import the module that declares it"
            )
        try:
            given = {
                name: argument.again(recorded) for name, recorded in {**action.args, **(action.given or {})}.items()
            }
        except NotKeptError as lost:
            return replace(no_undo(fn, lost), undoes=action.seq)
        if calls.takes(fn, "result") and action.outcome and action.outcome.how == "result":
            given["result"] = values.decode(action.outcome.value)
        call = calls.make(fn, *calls.placed(fn, given), calls.options_of(fn))
        return replace(call, undoes=action.seq, key=None)

    def fail(self, error: BaseException, *, reason: str) -> Steps:
        """Records that this error ended the run; behind it, for people, the state as it is now, if there is any to see.

        What a handle's code left unsaved is its own affair, and not written.
        """
        cut = [] if isinstance(error, Exception) else cut_with_the_run((yield from self.whole()))
        failed = self.failed(error, reason=reason, cut=cut)
        beside = [] if self.form == "handle" else (yield from self.scene(reason=reason))
        try:
            yield from self.commit(failed, *beside)
        except StorableError as refused:
            if not beside:
                raise
            _log.warning("no snapshot of the state as it is now: %s", refused)
            yield from self.commit(failed)

    def scene(self, *, reason: str) -> Steps:
        """The records of the state as an error has left it."""
        return (yield from inspection(self, reason=reason, failed=True))

    def failed(self, error: BaseException, *, reason: str, cut: Sequence[int] = ()) -> Draft:
        """The status of a run that an error ended, or its being cancelled, which has `cut` these actions short.

        Which actions are void, and the place at which the code got the error.
        """
        origins = failure.origins_of(error)
        place = max(origin.place for origin in origins) if not cut else self.head + len(self._put_off)
        around = list(dict.fromkeys([*cut, *(seq for origin in origins for seq in self._around(origin.seq))]))
        places = {seq: at for origin in reversed(origins) for seq, at in origin.places.items() if seq in around}
        known = self.ledger.actions
        marks = tuple(key_mark(key) for n in around if n in known and (key := known[n].key) is not None)
        draft = status("failed", reason=reason)
        if not origins[0].seq and self.failing.policy is not None and isinstance(error, Exception):
            draft.body["kind"] = kind_of(error, self.failing.policy, of_action=False)
        parent_point = max(((at, p) for at, p in self._passed if at <= place), default=(0, 0))[1]
        told = {"around": around, "to": place, "inside": sorted(places.items()), "parent": parent_point}
        return replace(draft, body=draft.body | told, marks=marks)

    def _around(self, seq: int) -> Iterator[int]:
        """An action of this entry, and those that it was called inside of."""
        actions, at = self.ledger.actions, seq
        while at in actions:
            yield at
            at = actions[at].parent or 0

    def strategy(self) -> Steps:
        """That of the last rollback all of whose kept records have been claimed: as of this place in the code."""
        self.go_on()
        found = None
        rollbacks = self.ledger.rollbacks
        if self.left:
            rollbacks = [e for e in branch((yield from self.whole())) if e.kind == "rolled_back"]
        for entry in rollbacks:
            if not self.ledger.replaying_before(entry["to"], self.parent):
                given = choices.given_by(entry)
                if given is None and self.failing.policy:
                    kept = choices.kept_by(entry)
                    given = found if kept is None else kept
                found = given
        return self.failing.strategy(found)


def _tell_of(aliases: list[tuple[list[Any], list[Any]]]) -> None:
    for one, other in aliases:
        _log.warning("%s and %s are one object; a state is a tree, and they come back as two", shown(one), shown(other))


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX:
        raise RefusedError(
            f"the name of a checkpoint has 1 to {limits.NAME_CHARS_MAX} characters, this one {len(name)}"
        )
