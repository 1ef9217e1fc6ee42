"""Sessions to mirror, and what a mirror must hold: read from the log and from the files by means of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import perdure
from perdure.ops.journal.policy import Journal

SMALL = 4096
"""The least that a file may be bounded by, so that a few sessions rotate it often."""


@perdure.action(effect="repeatable")
def look_up(question: str) -> str:
    return f"an answer to {question}, of some length: {'x' * 60}"


@perdure.action(effect="once")
def pay(amount: int) -> int:
    if amount == 1:
        raise ValueError("not that")
    return amount


def agent(s: perdure.Session) -> int:
    for number in range(s.input):
        look_up(f"question {number}")
        try:
            pay(number)
        except ValueError:
            s.state["refused"] = number
        s.save()
    return int(s.input)


def small(path: Path) -> Journal:
    """A mirror that rotates often and loses nothing."""
    return Journal(path=path / "journal.ndjson", max_bytes=SMALL, backups=1000)


def ended(store: perdure.AgentStore) -> dict[str, list[tuple[int, int]]]:
    """The records of each log that tell of the end of an action, apart from what a fork has from another."""
    found = {}
    for head in store.backend.heads():
        records = store.backend.read(head.session, after=head.base.seq if head.base else 0)
        found[head.session] = [(r.epoch, r.seq) for r in records if r.kind in ("action_finished", "settled")]
    return {session: places for session, places in found.items() if places}


def files_of(policy: Journal) -> list[Path]:
    """The files of a mirror, the oldest first, by their names."""
    path = policy.file
    aside = {int(file.suffix[1:]): file for file in path.parent.glob(f"{path.name}.*") if file.suffix[1:].isdigit()}
    return [*(aside[number] for number in sorted(aside, reverse=True)), *([path] if path.exists() else [])]


def lines_of(policy: Journal) -> list[dict[str, Any]]:
    """All lines, each of which must be one."""
    return [json.loads(line) for file in files_of(policy) for line in file.read_text("ascii").splitlines()]


def places(lines: Iterable[dict[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """Where the lines of each session are from, in the order in which they stand."""
    found: dict[str, list[tuple[int, int]]] = {}
    for line in lines:
        found.setdefault(line["session"], []).append((line["epoch"], line["seq"]))
    return found
