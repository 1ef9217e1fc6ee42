"""Builds that are wrong on purpose, each in one way that a resume can be wrong: the benches must catch every one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perdure import faults
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.writer import Writer
from perdure.session.rules.core import Journal
from perdure.session.rules.ledger import Ledger
from perdure.session.rules.points import Core
from perdure.session.rules.request import Commit, Steps
from perdure.stores import Batch
from perdure.testing import crash_everywhere
from tests.crash import agents, outside
from tests.crash.agents import BENCHES
from tests.instants import POINTS

Patch = Callable[[pytest.MonkeyPatch], None]


def starts_are_recorded_late(patch: pytest.MonkeyPatch) -> None:
    """The start of a `once` rides in the next commit, as that of a `repeatable` may."""
    right = Journal.start
    patch.setattr(Journal, "start", lambda self, call, action, **_: right(self, call, action, at_once=False))


def results_are_recorded_late(patch: pytest.MonkeyPatch) -> None:
    """The code gets a result before it is durable."""
    right = Journal.finish

    def finish(self: Journal, call: Any, action: Any, ended: Any, **more: Any) -> Steps:
        request = next(right(self, call, action, ended, **more))
        assert isinstance(request, Commit)
        for draft in request.drafts:
            if draft not in self._put_off:
                self.put_off(draft)
        yield from ()

    patch.setattr(Journal, "finish", finish)


def keys_are_made_anew(patch: pytest.MonkeyPatch) -> None:
    """Another idempotency key for each attempt."""
    right = Journal._attempt

    def attempt(self: Journal, call: Any, action: Any) -> Steps:
        action.idempotency_key += f" {self.epoch}"
        return (yield from right(self, call, action))

    patch.setattr(Journal, "_attempt", attempt)


def doubts_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "decide", lambda *_: (yield from ()))


def calls_are_matched_anywhere(patch: pytest.MonkeyPatch) -> None:
    """A call may be answered with what was recorded inside of another one."""
    right = Ledger._await

    def wait(self: Ledger, action: Any) -> None:
        right(self, replace(action, parent=None) if action.name == "send" else action)

    patch.setattr(Ledger, "_await", wait)


def the_end_is_two_commits(patch: pytest.MonkeyPatch) -> None:
    """The state of the last step, then that it was the last."""
    right = Writer.commit

    def commit(self: Writer, request: Commit) -> None:
        kinds = [draft.kind for draft in request.drafts]
        if kinds != ["saved", "status"]:
            return right(self, request)
        first, second = request.drafts
        right(self, Commit((first,), request.then))
        return right(self, Commit((second,), lambda _: None))

    patch.setattr(Writer, "commit", commit)


def undos_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A process that goes on after a rollback does not do what it owes."""
    right = Core.finish_undos

    def finish(self: Core) -> Steps:
        if self.epoch == 1:
            yield from right(self)

    patch.setattr(Core, "finish_undos", finish)


def undos_are_done_again(patch: pytest.MonkeyPatch) -> None:
    """Whenever the session is opened."""
    right = Core._undo

    def undo(self: Core, seq: int) -> Steps:
        if self.epoch > 1:
            self.undos[self.ledger.rollbacks[-1].body.get("nothing", "unbook")]("monday")
        yield from right(self, seq)

    patch.setattr(Core, "_undo", undo)


def steps_begin_anew(patch: pytest.MonkeyPatch) -> None:
    """The state of a step is saved with the next one."""
    right = Core._begin_state

    def begin(self: Core, snapshot: Any) -> None:
        if snapshot.encoded:
            snapshot._ops.pop("done", None)
        right(self, snapshot)

    patch.setattr(Core, "_begin_state", begin)


def keyframes_lack_the_last_delta(patch: pytest.MonkeyPatch) -> None:
    right = Keyframer._fold

    def fold(self: Keyframer, manifest: Any, deltas: list[tuple[int, bytes]]) -> None:
        right(self, manifest, [*deltas[:-1], (deltas[-1][0], deltas[0][1])])

    patch.setattr(Keyframer, "_fold", fold)


def items_are_taken_late(patch: pytest.MonkeyPatch) -> None:
    """The record of a message first, then the item goes."""
    right = Writer.commit

    def commit(self: Writer, request: Commit) -> int:
        newest = right(self, replace(request, taken=()))
        if request.taken:
            faults.reach("append.before")
            self.store.append(self.session, Batch((), taken=request.taken), epoch=self.epoch, head=self.head)
        return newest

    patch.setattr(Writer, "commit", commit)


def items_are_taken_early(patch: pytest.MonkeyPatch) -> None:
    """The item goes, then its record is written."""
    right = Writer.commit

    def commit(self: Writer, request: Commit) -> int:
        if request.taken:
            self.store.append(self.session, Batch((), taken=request.taken), epoch=self.epoch, head=self.head)
        return right(self, replace(request, taken=()))

    patch.setattr(Writer, "commit", commit)


WRONG: list[tuple[Patch, Callable[[Any], Any]]] = [
    (starts_are_recorded_late, agents.saves_before_use),
    (results_are_recorded_late, agents.loops),
    (keys_are_made_anew, agents.pays_and_books),
    (doubts_are_ignored, agents.saves_before_use),
    (calls_are_matched_anywhere, agents.nests),
    (the_end_is_two_commits, agents.takes_turns),
    (undos_are_forgotten, agents.rolls_back),
    (undos_are_done_again, agents.rolls_back),
    (steps_begin_anew, agents.works),
    (items_are_taken_late, agents.takes_turns),
    (items_are_taken_early, agents.takes_turns),
    (keyframes_lack_the_last_delta, agents.grows_by_hand),
]


@pytest.mark.storm
@pytest.mark.parametrize(("wrong", "agent"), WRONG, ids=[wrong.__name__ for wrong, _ in WRONG])
def test_a_wrong_build_is_caught(wrong: Patch, agent: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = next(bench for bench in BENCHES if bench.agent is agent)
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", bench.every)
    wrong(monkeypatch)
    with pytest.raises(AssertionError, match="killed at"):
        crash_everywhere(agent, effects=outside.effects, fresh=outside.clear, points=POINTS, **bench.options)
