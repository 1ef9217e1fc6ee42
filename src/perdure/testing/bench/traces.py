"""What agents said and tools answered in recorded runs: read from trace files, drawn with some words changed.

Knows how runs are commonly written down (a JSON document or lines of them, each with a list of messages or events under
`history`, `traj` or `messages`), not what is measured with them.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any, Final

ENDINGS: Final = (".json", ".jsonl", ".traj")
LISTS: Final = ("history", "traj", "messages")
CHANGED: Final = 0.25
"""Share of the words that are changed, so that no message is drawn twice byte for byte."""


class TracesError(ValueError):
    """The folder holds no recorded run that could be read."""


class Recorded:
    """Messages of recorded runs. Each file's format weighs the same, whatever its number of runs."""

    def __init__(self, folder: Path) -> None:
        files = [path for path in sorted(folder.rglob("*")) if path.suffix in ENDINGS]
        pools: dict[Path, list[tuple[str, str]]] = {}
        for file in files:
            pools.setdefault(file.parent, []).extend(_pairs(file))
        self._pools = [pool for pool in pools.values() if pool]
        if not self._pools:
            raise TracesError(f"no run was found in {folder}: files {', '.join(ENDINGS)} with a list of messages")
        self._all = "\n".join(text for pool in self._pools for pair in pool for text in pair)
        self._words = sorted(set(re.findall(r"[A-Za-z_]{4,12}", self._all)))

    def pair(self, rng: random.Random) -> tuple[str, str]:
        """What an assistant says, and what its tool answers."""
        said, answered = rng.choice(rng.choice(self._pools))
        return self._changed(rng, said), self._changed(rng, answered)

    def text(self, rng: random.Random, size: int) -> str:
        """Text of about so many characters."""
        begin = rng.randrange(max(1, len(self._all) - size))
        return self._changed(rng, self._all[begin : begin + size])

    def words(self, rng: random.Random, count: int) -> str:
        """So many words."""
        return " ".join(rng.choices(self._words, k=count))

    def _changed(self, rng: random.Random, text: str) -> str:
        words = text.split(" ")
        return " ".join(rng.choice(self._words) if w.isalpha() and rng.random() < CHANGED else w for w in words)


def _pairs(file: Path) -> list[tuple[str, str]]:
    pairs = []
    for run in _runs(file):
        for one, next_one in itertools.pairwise(run):
            if _is_said(one) and not _is_said(next_one):
                pairs.append((_text(one), _text(next_one)))
    return pairs


def _runs(file: Path) -> list[list[dict[str, Any]]]:
    text = file.read_text(encoding="utf-8")
    documents = map(json.loads, text.splitlines()) if file.suffix == ".jsonl" else [json.loads(text)]
    found = []
    for document in documents:
        for one in document if isinstance(document, list) else [document]:
            lists = [one[name] for name in LISTS if isinstance(one, dict) and isinstance(one.get(name), list)]
            found += [[message for message in run if isinstance(message, dict)] for run in lists]
    return found


def _is_said(message: dict[str, Any]) -> bool:
    if "role" in message:
        return bool(message["role"] == "assistant")
    return message.get("source") == "agent" and "observation" not in message and message.get("action") != "system"


def _text(message: dict[str, Any]) -> str:
    kept = {name: value for name, value in message.items() if name not in ("role", "agent", "is_demo")}
    return json.dumps(kept, ensure_ascii=False)
