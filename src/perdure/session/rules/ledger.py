"""What the present branch recorded since the re-entry point, and what of it the running code has claimed.

It answers "is this call recorded?" in constant time. It does not decide what a missing record means: the core does.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from perdure.log.action import Action, Actions
from perdure.log.branch import REENTRY, RESTORE_POINT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from perdure.log.entry import Entry


class Ledger:
    """The recorded and the claimed. `reentry` is the record from which the code started at its top."""

    def __init__(self, reentry: Entry, entries: Iterable[Entry]) -> None:
        self.reentry = reentry
        self.actions = Actions()
        self.claimed: set[int] = set()
        self.points: deque[Entry] = deque()
        self.rollbacks: list[Entry] = []
        self.messages: deque[Entry] = deque()
        self.accepted = 0
        self.inner: dict[int, int] = {}
        """Calls and values that belong to an action, in order: their number, and its."""
        self._drawn: dict[int, Entry] = {}
        """Values that belong to an action, by their number."""
        self._may_stay: set[int] = set()
        """Calls inside of an action that was tried again which need not be made again: see `_failed`."""
        self._waiting: dict[int | None, dict[int, Action]] = defaultdict(dict)
        self._by_match: dict[Any, deque[int]] = defaultdict(deque)
        self._values: dict[Any, deque[Entry]] = defaultdict(deque)
        self._questions: dict[tuple[str, int | None], deque[Entry]] = defaultdict(deque)
        for entry in entries:
            self._read(entry)

    def _read(self, entry: Entry) -> None:
        self._note(entry)
        if entry.kind == "action_started" and entry["of"] is None:
            self._await(self.actions[entry.seq])
        elif entry.kind == "saved" and entry["flags"] & (REENTRY | RESTORE_POINT):
            self.points.append(entry)
        elif entry.kind == "value":
            self._values[entry["kind"], entry["parent"]].append(entry)
        elif entry.kind == "asked" and entry["key"] is None:
            self._questions[entry["prompt"], entry["about"]].append(entry)
        elif entry.kind == "received" and entry["what"] == "message":
            self.messages.append(entry)
        elif entry.kind == "rolled_back":
            self.rollbacks.append(entry)
        elif entry.kind == "owned" and entry["accept_change"]:
            self.accepted = entry.seq

    def _await(self, action: Action) -> None:
        self._waiting[action.parent][action.seq] = action
        self._by_match[(action.parent, *action.match)].append(action.seq)

    def add(self, entry: Entry) -> None:
        """Takes in a record that the running code has just made: it counts as claimed."""
        if entry.kind != "saved":  # which tells of no action
            self._note(entry)
        self.claimed.add(entry.seq)

    def _note(self, entry: Entry) -> None:
        self.actions.apply(entry)
        if entry.kind in ("action_started", "value") and (parent := entry.body.get("parent")) is not None:
            self.inner[entry.seq] = parent
            if entry.kind == "value":
                self._drawn[entry.seq] = entry
        elif entry.kind == "action_finished" and not entry.body.get("final", True):
            for origin in (entry["origin"], *entry.body.get("beside", ())):
                self._failed(entry["started"], origin)

    def _failed(self, seq: int, origin: int) -> None:
        """An action failed by an error of this one inside of it, and is tried again: its code may go another way there.

        What it did up to that place it does again, and a `once` that failed is not passed over. If the error is its
        own, its time may have been over: it was at the calls that had not ended.
        """
        left = self.actions.between(origin, seq)
        if origin == seq:
            left = [a for a in self.actions.values() if a.outcome is None and self.actions.between(a.seq, seq)]
        for failed in left:
            beside = [a.seq for a in self.actions.values() if a.parent == failed.parent and a.seq > failed.seq]
            self._may_stay.update(beside if failed.must_be_settled else (failed.seq, *beside))

    def reenter(self, point: Entry, *, keep: Collection[int]) -> None:
        """The code goes on from a re-entry point that it has just made. Of what came before, these records stay."""
        self.reentry = point
        self.points.clear()
        self.rollbacks.clear()
        self._questions.clear()
        if not keep:
            self.claimed.clear()
            self.actions.clear()
            self.inner.clear()
            self._drawn.clear()
            self._may_stay.clear()
            self._waiting.clear()
            self._by_match.clear()
            self._values.clear()
            return
        self.claimed.intersection_update(keep)
        kept: list[dict[int, Any]] = [self.actions, self.inner, self._drawn, *self._waiting.values()]
        for by_seq in kept:
            for seq in [seq for seq in by_seq if seq not in keep]:
                del by_seq[seq]
        _thin(self._by_match, keep)
        _thin(self._values, keep)

    def claim(self, parent: int | None, match: tuple[Any, ...]) -> Action | None:
        """The first recorded action under this parent that has this match and that no call has claimed yet."""
        queue = self._by_match.get((parent, *match))
        if not queue:
            return None
        seq = queue.popleft()
        self.claimed.add(seq)
        return self._waiting[parent].pop(seq)

    def take(self, seq: int) -> None:
        """The code has no need to call this one again; one that is claimed already, or not recorded here, stays so."""
        action = self.actions.get(seq)
        if action is not None and self._waiting[action.parent].pop(seq, None) is not None:
            self._by_match[(action.parent, *action.match)].remove(seq)
            self.claimed.add(seq)

    def tried_again(self, seq: int) -> None:
        """The code of this action starts at its top: what is recorded inside of it is not called again yet."""
        inside, found = {seq}, set[int]()
        for number, parent in sorted(self.inner.items()):
            if parent in inside:
                inside.add(number)
                found.add(number)
        back = found & self.claimed
        self.claimed -= back
        queues: dict[int, deque[Any]] = {}
        for number in back:
            if (value := self._drawn.get(number)) is not None:
                queue: deque[Any] = self._values[value["kind"], value["parent"]]
                queue.append(value)
            elif (action := self.actions.get(number)) is not None:
                self._waiting[action.parent][number] = action
                queue = self._by_match[(action.parent, *action.match)]
                queue.append(number)
            else:
                continue
            queues[id(queue)] = queue
        for queue in queues.values():
            ordered = sorted(queue, key=_number)
            queue.clear()
            queue.extend(ordered)
        for parent in inside & self._waiting.keys():
            self._waiting[parent] = dict(sorted(self._waiting[parent].items()))

    def next(self, parent: int | None, match: tuple[Any, ...]) -> Action | None:
        """What `claim` would give; it stays unclaimed."""
        queue = self._by_match.get((parent, *match))
        return self._waiting[parent].get(queue[0]) if queue else None

    def unclaimed(self, parent: int | None, *, before: int | None = None) -> Iterator[Action]:
        """Recorded under this parent and not called again yet, in order."""
        for seq, action in self._waiting.get(parent, {}).items():
            if before is None or seq < before:
                yield action

    def leftovers(self, parent: int | None, *, before: int | None = None) -> Iterator[Action]:
        """The unclaimed ones that the code must call before it may go on live.

        All but the abandoned, those that an attempt again may pass by, and the repeatable ones that an accepted change
        has left behind.
        """
        for action in self.unclaimed(parent, before=before):
            is_abandoned = action.known is not None and action.known.how == "abandoned"
            is_accepted = action.effect == "repeatable" and action.seq < self.accepted
            if not (is_abandoned or is_accepted or action.seq in self._may_stay):
                yield action

    def has_more(self, parent: int | None) -> bool:
        """Whether anything recorded, under this parent or a message, has not been claimed yet."""
        return bool(self._waiting.get(parent) or self.messages)

    def first_left(self, parent: int | None, *, before: int | None = None) -> Action | None:
        """The first of the leftovers, if there is one."""
        return next(self.leftovers(parent, before=before), None) if self._waiting.get(parent) else None

    def claim_value(self, kind: str, parent: int | None) -> Entry | None:
        """The next recorded value of this kind under this parent."""
        return self._claim_entry(self._values.get((kind, parent)))

    def claim_question(self, prompt: str, about: int | None) -> Entry | None:
        """The next recorded question without a key that has this prompt."""
        return self._claim_entry(self._questions.get((prompt, about)))

    def claim_message(self) -> Entry | None:
        """The next recorded message."""
        return self._claim_entry(self.messages)

    def _claim_entry(self, queue: deque[Entry] | None) -> Entry | None:
        if not queue:
            return None
        entry = queue.popleft()
        self.claimed.add(entry.seq)
        return entry

    def pass_points(self, upto: int) -> None:
        """The code is at the restore point of this number: it and those before it are claimed."""
        while self.points and self.points[0].seq <= upto:
            self.claimed.add(self.points.popleft().seq)

    def replaying_before(self, seq: int, parent: int | None) -> bool:
        """Whether something recorded up to this number is still to be claimed here: a point, a value, a call."""
        queues = [self.points, self.messages, *self._values.values()]
        if any(queue and queue[0].seq <= seq for queue in queues):
            return True
        return next(iter(self._waiting.get(parent, {})), seq + 1) <= seq

    def place(self, stack: tuple[int, ...]) -> int:
        """Where the code is in the log: the newest record that it has claimed, with all inside of what was answered."""
        seen = self.claimed | {self.reentry.seq}
        for action in self.actions.values():
            if action.parent in seen and action.parent not in stack:
                seen.add(action.seq)
        return max(seen)


def _number(item: int | Entry) -> int:
    """Of what stands in a queue."""
    return item if isinstance(item, int) else item.seq


def _thin(queues: dict[Any, deque[Any]], keep: Collection[int]) -> None:
    """Leaves only these records in the queues."""
    for match, queue in list(queues.items()):
        left = [item for item in queue if _number(item) in keep]
        if left:
            queues[match] = deque(left)
        else:
            del queues[match]
