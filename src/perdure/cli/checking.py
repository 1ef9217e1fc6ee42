"""`verify`, `bench` and `demo`: see for yourself that it holds what it promises."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli import options, output
from perdure.cli.place import place
from perdure.errors import DamageError, PerdureError

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore


@dataclass(frozen=True, slots=True)
class Checked:
    """What verifying one session found."""

    session: str
    ok: bool
    records: int
    newest_valid: int | None
    problems: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "session": self.session,
            "ok": self.ok,
            "records": self.records,
            "newest_valid": self.newest_valid,
            "problems": list(self.problems),
        }


def verify(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="The session; all of the store without one.")
    ] = None,
    *,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Check every byte of a session, or of all: the chain, the records, the restore points. Ends with 20 on damage."""
    with place(store).open() as opened:
        sessions = [session] if session is not None else [head.session for head in opened.backend.heads()]
        found = [_verified(opened, one) for one in sessions]
    ok = all(checked.ok for checked in found)
    if as_json:
        output.document({"ok": ok, "sessions": [checked.document() for checked in found]})
    else:
        for checked in found:
            _tell(checked)
    raise typer.Exit(0 if ok else DamageError.exit_status)


def _verified(store: AgentStore, session: str) -> Checked:
    report = importlib.import_module("perdure.recovery.verify").verify(store.backend, session)
    return Checked(session, report.ok, report.records, report.newest_valid, tuple(report.problems))


def _tell(checked: Checked) -> None:
    output.say(f"{checked.session}: {checked.records} records, {'no fault' if checked.ok else 'damaged'}")
    for problem in checked.problems:
        output.say(f"  {problem}")
    if not checked.ok:
        newest = (
            f"the newest valid snapshot is #{checked.newest_valid}" if checked.newest_valid else "no snapshot is valid"
        )
        output.say(f"  {newest}")


def bench(context: typer.Context) -> None:
    """Measure on this machine what the documentation quotes; `perdure bench --help` lists its own options."""
    raise typer.Exit(_code(importlib.import_module("perdure.testing.bench").main(context.args)))


def demo(
    *,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="PATH", help="Where it works; a new folder without it.")
    ] = None,
    kills: Annotated[int, typer.Option("--kills", metavar="N", min=0, help="How often the agent is killed.")] = 3,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Makes the instants of the kills repeat.")
    ] = None,
) -> None:
    """Kill an agent in the middle of its work, more than once, and see it go on."""
    raise typer.Exit(_code(importlib.import_module("perdure.demo").main(folder=folder, kills=kills, seed=seed)))


def _code(status: int | None) -> int:
    return status or 0


__all__ = ["PerdureError", "bench", "demo", "verify"]
