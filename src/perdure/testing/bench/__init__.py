"""The benchmark: what saving, restoring and resuming cost on this machine, beside what its disk can do at all.

`perdure bench` measures every figure in one run and prints it with its reach. `docs/benchmark.md` says what each means.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import perdure
from perdure import clock
from perdure.stores.address import masked
from perdure.testing.bench import (
    calling,
    collecting,
    encoding,
    files,
    forking,
    machine,
    moving,
    names,
    places,
    protecting,
    report,
    restoring,
    saving,
    show,
    teams,
)
from perdure.testing.bench.crowd import crowd
from perdure.testing.bench.plan import FULL, PLACE, QUICK, Plan, Sizes
from perdure.testing.bench.rows import ROWS
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import Samples, take

SECTIONS = (
    *(
        "w1",
        "w2",
        "w3",
        "w4",
        "w5",
        "fork",
        "resume",
        "many",
        "moved",
        "files",
        "names",
        "gc",
        "protocols",
        "protection",
        "team",
    ),
    "import",
)
OF_THE_CHAT: Final = {"w4": restoring.restore, "fork": forking.forks}
"""Sections that look at the store which `w1` leaves, or at one like it."""

ALONE: Final = {
    "w2": saving.documents,
    "w3": crowd,
    "w5": calling.calls,
    "resume": restoring.resume,
    "many": saving.many,
    "moved": moving.moving,
    "files": files.appending,
    "names": names.capturing,
    "gc": collecting.collect,
    "protocols": encoding.protocols,
    "protection": protecting.protection,
    "team": teams.teams,
    "import": restoring.importing,
}


def main(argv: Sequence[str]) -> int:
    """`perdure bench`: measures, prints, and leaves nothing behind. 0 when all was measured, whatever was found."""
    parser = _parser()
    options = parser.parse_args(argv)
    there = SECTIONS if options.store is None else places.SECTIONS
    if others := [name for name in options.only or () if name not in there]:
        by = "" if options.store is None else "of a store by its URL "
        parser.error(f"--only {','.join(others)}: {by}choose from {','.join(there)}")
    found = run(
        options.folder,
        _sizes(options),
        only=options.only or (SECTIONS if options.store is None else places.UNASKED),
        rounds=options.rounds or (1 if options.quick else 3),
        traces=options.traces,
        store=options.store,
    )
    if options.json:
        sys.stdout.write(json.dumps(found.document(), indent=2) + "\n")
    else:
        show.text(found)
    return 0


def _sizes(options: argparse.Namespace) -> Sizes:
    sizes = QUICK if options.quick else PLACE if options.store else FULL
    return replace(sizes, sessions=options.sessions) if options.sessions else sizes


def run(
    folder: Path,
    sizes: Sizes,
    *,
    only: Sequence[str] = SECTIONS,
    rounds: int = 1,
    traces: str | None = None,
    store: str | None = None,
) -> report.Report:
    """Measures these sections so many times, in a folder of its own under `folder` that is removed afterwards.

    With `store` those of `places.SECTIONS` in the store of this URL, from which what was written is erased.
    """
    before = machine.load()
    fresh = Path(tempfile.mkdtemp(prefix="perdure-bench-", dir=folder))
    try:
        plan = Plan(fresh, sizes, traces, store)
        one = _round if store is None else _round_there
        measured = [one(plan, only, f"round {number + 1} of {rounds}") for number in range(rounds)]
        where = machine.Machine.here(fresh)
    finally:
        shutil.rmtree(fresh)
    quick = replace(sizes, sessions=FULL.sessions) not in (FULL, PLACE)
    return report.Report(
        version=perdure.__version__,
        date=clock.now_utc().isoformat(timespec="seconds"),
        machine=where,
        load=(before, machine.load()),
        messages="generated" if traces is None else "recorded",
        quick=quick,
        rounds=rounds,
        figures=report.figures(measured, sizes=sizes, rows=ROWS if store is None else places.rows(sizes)),
        store=None if store is None else masked(store),
    )


def _round(plan: Plan, only: Sequence[str], name: str) -> Found:
    found: Found = {}
    saved = None
    for section in (one for one in SECTIONS if one in only):
        _progress(f"{name}: {section}")
        if section == "w1":
            figures, saved = saving.chat(plan)
            found |= figures
        elif section in OF_THE_CHAT:
            saved = saved or _saved(plan)
            found |= OF_THE_CHAT[section](plan, saved)
        else:
            found |= ALONE[section](plan)
    _progress("")
    return found


def _round_there(plan: Plan, only: Sequence[str], name: str) -> Found:
    plan = replace(plan, name=places.new_name())
    _progress(f"{name}: {plan.name}")
    try:
        return places.measure(plan, only)
    finally:
        places.erase(plan)
        _progress("")


def _saved(plan: Plan) -> Samples:
    """The store of the growing conversation, where its saving is not measured."""
    steps = plan.sizes.steps
    digested = saving.restored_steps(plan.sizes)
    return take(plan, "chat", writers=("automatic",), saves=steps, turn=steps, digested=digested)["automatic"]


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perdure bench", description="What saving, restoring and resuming cost here, beside what the disk can do."
    )
    parser.add_argument("--quick", action="store_true", help="less work, for a short look; reaches are not judged")
    parser.add_argument(
        "--rounds", type=_positive, metavar="N", help="measure so many times, take medians (3; quick: 1)"
    )
    parser.add_argument("--only", type=_sections, metavar="LIST", help=f"some of {','.join(SECTIONS)}")
    parser.add_argument(
        "--folder", type=_folder, default=Path(), help="on the disk to be measured (default: the current folder)"
    )
    parser.add_argument("--traces", type=_traces, metavar="FOLDER", help="draw messages from these recorded runs")
    parser.add_argument(
        "--store", metavar="URL", help=f"a store of any kind, beside a single row there: {','.join(places.SECTIONS)}"
    )
    parser.add_argument(
        "--sessions", type=_positive, metavar="N", help="how many of them --only scale fills a store with (10,000)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _sections(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path


def _traces(text: str) -> str:
    return str(_folder(text).resolve())
