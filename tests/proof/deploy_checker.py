"""Whether a deploy has lost or repeated anything: a program that knows the files of the client and what the CLI prints.

    python deploy_checker.py FOLDER STEPS JOURNAL SESSIONS

JOURNAL is what `perdure log --journal --ndjson` printed, SESSIONS what `perdure ls --json` did. It knows nothing of
perdure. Prints one line for each thing that is wrong; its exit status is whether there was one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def effects(folder: Path, steps: int, jobs: set[str]) -> Iterator[str]:
    done = Counter((job, int(step)) for job, step, _ in map(str.split, lines(folder / "effects")))
    for job in sorted(jobs):
        for step in range(steps):
            if done[job, step] == 0:
                yield f"lost: {job} {step}"
            if done[job, step] > 1:
                yield f"repeated: {job} {step}, {done[job, step]} times"
    for job, step in done:
        if job not in jobs or not 0 <= step < steps:
            yield f"never asked for: {job} {step}"


def recorded(folder: Path, journal: Path, steps: int, jobs: set[str]) -> Iterator[str]:
    """What the log tells is what happened: each effect is one action with a result."""
    told = [json.loads(line) for line in lines(journal)]
    ended = Counter(one["session"] for one in told if one["action"] == "work" and one.get("error") is None)
    for job in sorted(jobs):
        if ended[job] != steps:
            yield f"recorded: {job} has {ended[job]} actions that ended, not {steps}"


def standing(sessions: Path, jobs: set[str]) -> Iterator[str]:
    told = {one["session"]: one["status"] for one in json.loads(sessions.read_text())["sessions"]}
    for job in sorted(jobs):
        if told.get(job) != "completed":
            yield f"not over: {job} is {told.get(job, 'not there')}"


def main() -> int:
    folder, steps, journal, sessions = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    jobs = set(lines(folder / "acks"))
    wrong = [
        *effects(folder, steps, jobs),
        *recorded(folder, journal, steps, jobs),
        *standing(sessions, jobs),
    ]
    sys.stdout.write("\n".join([f"{len(jobs)} jobs were taken", *wrong]))
    return 3 if wrong or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
