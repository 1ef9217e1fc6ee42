"""What taking a workspace back would do, decided from manifests alone: nothing here touches a file.

Who did what is told by the captures around each action: what differs between the one before and the one after it is
the session's, what differs between one action and the next is somebody else's. What somebody else changed is never
lost, and only what the session made is ever taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from perdure.state.chunks import Load
from perdure.workspace.entry import FOLDER, SKIPPED, Entry
from perdure.workspace.tree import Differing, Manifest, difference, entries_of

OPEN: Final = 0o700
"""What its owner has to be allowed of a folder in which something changes."""

What = Literal["write", "mode", "delete"]
Window = tuple[Manifest, Manifest]
"""The captures before and after something that the session did."""


@dataclass(frozen=True, slots=True)
class Step:
    """One path that would be changed: what is there now, and what is there then (None: nothing).

    `what` is write (a file, a folder or a link is put there), mode (only its permissions change) or delete. `foreign`:
    somebody else changed it since, so what is there now would be kept aside.
    """

    path: str
    now: Entry | None
    then: Entry | None
    foreign: bool = False

    @property
    def what(self) -> What:
        """What would be done."""
        if self.then is None:
            return "delete"
        if self.now is not None and _bare(self.now) == _bare(self.then):
            return "mode"
        return "write"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a restore from the capture `source` to the capture `target` would change, and what it would leave.

    `steps` by path. `left` are paths that stay as they are although the target does not have them so, each with the
    reason: what somebody else made, what was left out of one of the captures. `shut` are folders that stay, but may not
    be written to by who owns them, and hold what changes: they are opened for as long as it takes.
    """

    source: bytes
    target: bytes
    steps: tuple[Step, ...]
    left: tuple[tuple[str, str], ...]
    shut: tuple[Entry, ...] = ()

    @property
    def name(self) -> str:
        """A short name, the same for the plan that undoes this one."""
        return sha256(b"".join(sorted((self.source, self.target)))).hexdigest()[:16]

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The paths that somebody else changed since."""
        return tuple(step.path for step in self.steps if step.foreign)

    def back(self) -> Plan:
        """What undoes this one, wherever it was broken off."""
        steps = tuple(Step(step.path, step.then, step.now) for step in self.steps if not step.foreign)
        return Plan(self.target, self.source, steps, self.left, self.shut)


def plan(now: Manifest, target: Manifest, chunk: Load, *, windows: Sequence[Window] | None = None) -> Plan:
    """What would take the workspace from `now` to `target`.

    `windows` are what the session did since the target, in order; None: all that differs is the session's. A path that
    the target leaves out, or that is left out now, stays as it is. Raises `DamageError`.
    """
    made, foreign = _whose(now, target, chunk, windows)
    steps: dict[str, Step] = {}
    left: dict[str, str] = {}
    out = {
        entry.path: entry.detail
        for manifest in (target, now)
        if manifest.skipped
        for entry in entries_of(manifest, chunk)
        if entry.kind == SKIPPED
    }
    for path, (there, then) in difference(now, target, chunk).items():
        why = _left_out(path, there, then, target) or _inside(path, out)
        if why:
            left[path] = why
        elif then is None and made is not None and path not in made:
            left[path] = "made by somebody else"
        else:
            steps[path] = Step(path, there, then, foreign=path in foreign)
    _settle(steps, left)
    return Plan(now.id, target.id, tuple(steps.values()), tuple(sorted(left.items())), _shut(steps, now, chunk))


def _shut(steps: Mapping[str, Step], now: Manifest, chunk: Load) -> tuple[Entry, ...]:
    above = {folder for path in steps for folder in _above(path)} - steps.keys()
    if not above:
        return ()
    found = (entry for entry in entries_of(now, chunk) if entry.path in above and entry.kind == FOLDER)
    return tuple(entry for entry in found if entry.mode & OPEN != OPEN)


def _whose(
    now: Manifest, target: Manifest, chunk: Load, windows: Sequence[Window] | None
) -> tuple[set[str] | None, set[str]]:
    """The paths that the session made (None: all), and those that somebody else changed after the session had them."""
    if windows is None:
        return None, set()
    made, foreign, last = set[str](), set[str](), target
    for before, after in windows:
        _take(difference(last, before, chunk), foreign)
        for path, (was, comes) in difference(before, after, chunk).items():
            if was is None and path not in foreign:
                made.add(path)
            elif comes is None:
                made.discard(path)
        last = after
    _take(difference(last, now, chunk), foreign)
    return made, foreign


def _take(gap: Differing, foreign: set[str]) -> None:
    """What happened between two actions was done by somebody else; a folder's permissions do not matter."""
    foreign.update(path for path, pair in gap.items() if not all(entry and entry.kind == FOLDER for entry in pair))


def _left_out(path: str, there: Entry | None, then: Entry | None, target: Manifest) -> str:
    for entry in (there, then):
        if entry is not None and entry.kind == SKIPPED:
            return entry.detail
    return "left out by the rules of that time" if there and target.rules.leaves_out(path) else ""


def _inside(path: str, out: Mapping[str, str]) -> str:
    """Why a path is in something that is left out; empty if it is not."""
    return next((out[folder] for folder in _above(path) if folder in out), "")


def _settle(steps: dict[str, Step], left: dict[str, str]) -> None:
    """A folder that holds what stays stays, too; one that must give way to something else is in conflict."""
    kept = [path for path, step in steps.items() if step.foreign and step.now is not None]
    holding = {folder for path in (*left, *kept) for folder in _above(path)}
    for path in [path for path in steps if path in holding]:
        step = steps[path]
        if step.now is None or step.now.kind != FOLDER:
            continue
        if step.then is None:
            left[path] = "holds what is left there"
            del steps[path]
        elif step.then.kind != FOLDER:
            steps[path] = Step(path, step.now, step.then, foreign=True)


def _above(path: str) -> list[str]:
    """The folders that a path is in."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _bare(entry: Entry) -> tuple[object, ...]:
    kind, _, *rest = entry.likeness
    return kind, *rest
