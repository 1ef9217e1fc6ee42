"""What came of it: the log of the session against the book of what its tools really did. Pure counting.

Nothing is ordered by a clock: a process has one epoch in the log, and each line of the book names its process.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.log.action import Action, Actions
from perdure.log.branch import is_restore_point

if TYPE_CHECKING:
    from perdure.demo.book import Line
    from perdure.log.entry import Entry


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts.

    `begun_again` is how often a tool began although the log held an outcome for it already; `repeated` how often one
    that is declared safe to repeat began once more because a kill had cut it off; `doubts` are the actions that
    `verify` had to decide about; `undecided` have no outcome; `unrecorded` are beginnings that no action of the log
    accounts for; `twice` are effects to have once that were had more often; `lost` are saves that were acknowledged
    and are not in the log; `save_us` is what each save took in the process that made it.
    """

    owners: int
    tools: dict[str, int]
    begun_again: int
    repeated: int
    unrecorded: int
    doubts: int
    undecided: int
    twice: int
    points: int
    checkpoints: int
    lost: int
    save_us: tuple[int, ...]

    @property
    def actions(self) -> int:
        """How many actions the log holds."""
        return sum(self.tools.values())


def tally(entries: list[Entry], lines: list[Line]) -> Tally:
    """The counts for one session and the book of its processes."""
    epochs = {json.loads(e["owner"])["pid"]: e.epoch for e in entries if e.kind == "owned"}
    actions = Actions(entries)
    once = {_call(action) for action in actions.values() if action.effect == "once"}
    begun = Counter((line.call, epochs[line.pid]) for line in lines if line.what == "begin")
    recorded = Counter(_call(action) for action in actions.values())
    again = _begun_again(begun, recorded, _finished(entries, actions))
    ended = Counter(line.call for line in lines if line.what == "end")
    safe = sum(times for (call, _), times in begun.items() if call not in once)
    saved = {entry.seq: entry for entry in entries if entry.kind == "saved"}
    fresh = {(entry.seq, entry.epoch) for entry in saved.values()}
    noted = [line for line in lines if line.what == "saved"]
    return Tally(
        owners=len(epochs),
        tools=dict(Counter(action.name for action in actions.values())),
        begun_again=again,
        repeated=max(0, safe - sum(recorded[call] for call in recorded if call not in once) - again),
        unrecorded=sum(call not in recorded for call, _ in begun),
        doubts=sum(entry.kind == "settled" for entry in entries),
        undecided=sum(action.outcome is None for action in actions.values()),
        twice=sum(ended[call] > recorded[call] for call in once),
        points=sum(is_restore_point(entry) for entry in entries),
        checkpoints=len({entry["name"] for entry in saved.values()} - {None}),
        lost=len({line.seq for line in noted} - saved.keys()),
        save_us=tuple(line.took_us for line in noted if (line.seq, epochs[line.pid]) in fresh),
    )


def _call(action: Action) -> str:
    """What the book calls the calls of this action: those that are alike share it."""
    match: tuple[bytes, ...] = action.match
    return match[-1].hex()


def _finished(entries: list[Entry], actions: Actions) -> dict[str, list[int]]:
    """For each call, the epochs in which outcomes of its actions were recorded."""
    found: dict[str, list[int]] = {}
    for entry in entries:
        if entry.kind in ("action_finished", "settled") and entry["how"] != "not done":
            found.setdefault(_call(actions[entry["started"]]), []).append(entry.epoch)
    return found


def _begun_again(begun: Counter[tuple[str, int]], recorded: Counter[str], finished: dict[str, list[int]]) -> int:
    """How often a call began beyond what was open: its actions without those that had an outcome before this epoch."""
    again = 0
    for (call, epoch), times in begun.items():
        if call in recorded:
            before = sum(known < epoch for known in finished.get(call, []))
            again += max(0, times - (recorded[call] - before))
    return again
