"""What a session's folder is looked up by: points, keyframes, marks, inbox, amended bodies; folded from its lines.

It is kept nowhere else: all that it holds follows from the commits. It reads no files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.stores.contract import Point
from perdure.stores.file.commit import Rows
from perdure.stores.file.scan import Amended, Scan, Sent


@dataclass(slots=True)
class Index:
    """The fold of all rows up to now. `done` says how many of each segment's rows it has."""

    points: dict[int, Point] = field(default_factory=dict)
    keyframes: dict[int, int] = field(default_factory=dict)
    marks: dict[bytes, set[int]] = field(default_factory=dict)
    items: dict[int, Sent] = field(default_factory=dict)
    sent: set[bytes] = field(default_factory=set)
    bodies: dict[int, Amended] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)

    def follow(self, scan: Scan) -> None:
        """Takes in what a segment has that was not there the last time. Segments come in order."""
        done = self.done.get(scan.first, 0)
        for row in scan.rows[done:]:
            if isinstance(row, Sent):
                self._send(row)
            elif isinstance(row, Amended):
                self.bodies[row.seq] = row
            else:
                self._apply(row)
        self.done[scan.first] = len(scan.rows)

    def _send(self, item: Sent) -> None:
        self.items[item.number] = item
        if item.mark is not None:
            self.sent.add(item.mark)

    def _apply(self, rows: Rows) -> None:
        self.points.update((point.seq, point) for point in rows.points)
        self.keyframes.update(rows.keyframes)
        for mark, seq in rows.marks:
            self.marks.setdefault(mark, set()).add(seq)
        for number in rows.taken:
            self.items.pop(number, None)
        for seq in rows.less_points:
            self.points.pop(seq, None)
        for seq in rows.less_keyframes:
            self.keyframes.pop(seq, None)
        for mark, seq in rows.less_marks:
            self.marks.get(mark, set()).discard(seq)
