"""`python -m perdure.testing.soak URL`: soaks a store, prints what was found, takes its sessions away again."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

import perdure
from perdure import clock
from perdure.errors import PerdureError, SessionUnknownError
from perdure.testing.soak import Crowd, Plan, Report, WriterFailedError, counted


def main(argv: Sequence[str]) -> int:
    """0: all that was acknowledged is there, once. 1: something is not as it should be. 2: it could not be done."""
    options = _parser().parse_args(argv)
    given = vars(options)
    plan = Plan(**{f.name: given[f.name] for f in dataclasses.fields(Plan) if f.name in given}, name=_name())
    try:
        report = soaked(plan)
        if not options.keep and not report.problems:
            _remove(plan)
    except (PerdureError, WriterFailedError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if options.json:
        sys.stdout.write(json.dumps(dataclasses.asdict(report), indent=2) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in text(report)))
    return 1 if report.problems else 0


def soaked(plan: Plan) -> Report:
    """One soak, and its count."""
    perdure.open(plan.url).close()
    crowd = Crowd(plan)
    crowd.run(_progress)
    _progress("counting")
    report = counted(crowd)
    _progress("")
    return report


def text(report: Report) -> list[str]:
    """For people."""
    failures = ", ".join(f"{name} {count}" for name, count in sorted(report.failures.items())) or "none"
    first, last = report.memory_mb
    return [
        f"store          {report.url}",
        f"saves          {report.saves:,} in {report.sessions:,} sessions, {report.saves_per_s:g} a second",
        f"save           {_times(report.save_ms)}",
        f"opening        {_times(report.open_ms)}",
        f"kills          {report.kills}; {report.unacknowledged} saves were done that nobody was told of any more",
        f"failures       {failures}",
        f"memory         {first:g} MB at first, {last:g} MB at last",
        *(f"WRONG          {problem}" for problem in report.problems),
        "all that was acknowledged is there, once" if not report.problems else f"{len(report.problems)} problems",
    ]


def _times(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {ms:g} ms" for name, ms in found.items())


def _remove(plan: Plan) -> None:
    with perdure.open(plan.url) as store:
        for number in range(plan.sessions):
            _progress(f"removing {number + 1} of {plan.sessions}")
            try:
                store.erase(plan.session(number))
            except SessionUnknownError:
                continue
    _progress("")


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()


def _name() -> str:
    return f"soak-{clock.now_utc():%Y%m%d-%H%M%S}-{clock.new_uuid().hex[:6]}"


def _parser() -> argparse.ArgumentParser:
    plan = {field.name: field.default for field in dataclasses.fields(Plan)}
    parser = argparse.ArgumentParser(
        prog="python -m perdure.testing.soak",
        description="Many writers on many sessions, some of them killed; then a count of what was acknowledged.",
    )
    parser.add_argument("url", help="the store, as perdure.open takes it; it may hold other sessions, too")
    for name, kind, what in (
        ("sessions", int, "sessions to write to"),
        ("processes", int, "processes that write"),
        ("threads", int, "writers in each of them"),
        ("seconds", float, "for how long"),
        ("kill-every-s", float, "how often one is killed; 0: never"),
        ("seed", int, "which sessions, which kills"),
    ):
        default = plan[name.replace("-", "_")]
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=f"{what} ({default})")
    parser.add_argument(
        "--keep", action="store_true", help="leave the sessions there; they stay when something is wrong"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
