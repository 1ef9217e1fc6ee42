"""What the demonstration prints: plain lines, with colour and a bar where there is a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from perdure.demo.stage import REPORTS, SESSION

if TYPE_CHECKING:
    from perdure.demo.findings import Cost, Findings, Promise
    from perdure.demo.lives import Kill
    from perdure.demo.stage import Stage

KB: Final = 1000


class Show:
    """Prints the acts of the demonstration one after the other. Is the witness of `live`."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def say(self, text: str = "") -> None:
        """One line; may hold markup."""
        self._console.print(text)

    def act(self, text: str) -> None:
        """Begins an act."""
        self.say(f"\n[bold]{text}[/bold]")

    def running(self, *, actions: int | None) -> None:
        """The agent runs now; it will do so many actions, if that is known."""
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._bar.add_task("actions", total=actions)
        self._bar.start()

    def over(self, text: str) -> None:
        """The agent has ended."""
        self._bar.stop()
        self.say(f"  {text}")

    def ended(self, count: int) -> None:
        """So many actions have ended by now."""
        self._bar.update(self._bar.task_ids[0], completed=count)

    def killed(self, kill: Kill) -> None:
        """A process was killed."""
        doing = f"inside of {kill.inside}" if kill.inside else "between two actions"
        self.say(f"  [red]kill -9[/red] {kill.pid}, {doing}, after {kill.ended} actions; started again")

    def figures(self, found: Findings, cost: Cost) -> None:
        """What the log says, and what it costs."""
        t = found.tally
        rows = [
            ("actions run", f"{t.actions}"),
            ("finished actions run again", f"{t.begun_again}"),
            ("cut off by a kill, safe to repeat, run again", f"{t.repeated}"),
            ("in doubt after a kill, settled by verify", f"{t.doubts}"),
            ("still in doubt", f"{t.undecided}"),
            ("processes, one after the other", f"{t.owners}"),
            ("restore points", f"{t.points}, {t.checkpoints} of them named"),
            ("final state", size(len(found.state))),
            ("states of all restore points, summed", size(cost.points_bytes)),
            ("on disk, with all of them and the journal", size(cost.disk_bytes)),
            ("time per save, at the median", f"{cost.save_us / 1000:.2f} ms"),
            ("the disk alone, 4 KB appended and flushed", f"{cost.flush_us / 1000:.2f} ms"),
        ]
        self._rows(rows)

    def promises(self, checked: list[Promise]) -> None:
        """Each promise, and whether it was kept."""
        marks = {True: "[green]kept[/green]", False: "[bold red]BROKEN[/bold red]"}
        self._rows([(promise.text, marks[promise.kept]) for promise in checked])

    def look_next(self, stage: Stage) -> None:
        """Where everything is, and what to try."""
        program = sys.argv[0] if Path(sys.argv[0]).name == "perdure" else "perdure"
        store = f"--store {stage.store}"
        self.act("Where to look next")
        self._rows(
            [
                (f"{program} show {SESSION} {store}", "points, actions, owners"),
                (f"{program} log {SESSION} {store} --ndjson", "every record"),
                (f"{program} state {SESSION} {store}", "the state; --at a point for an older one"),
                (f"{program} verify {SESSION} --read-data {store}", "every byte checked"),
                (f"cat {stage.folder / REPORTS / 'report.md'}", "what the agent found out"),
            ]
        )

    def failed(self, text: str) -> None:
        """Why it came to no end."""
        self._bar.stop()
        self.say(f"[bold red]error[/bold red]: {escape(text)}")

    def _rows(self, rows: list[tuple[str, str]]) -> None:
        width = max(len(left) for left, _ in rows) + 2
        for left, right in rows:
            self.say(f"  {escape(left.ljust(width))}{right}")


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < KB:
        return f"{count} B"
    return f"{count / KB:,.0f} KB" if count < KB * KB else f"{count / KB / KB:,.1f} MB"
