"""Judges a life by its files alone: what was effected, what the log says, what a strict model would be sent.

It knows nothing of perdure but the lines that `perdure log --ndjson` prints. `python checker.py LIFE REFERENCE STRICT`
prints what is wrong, a line each, and ends with the number of them. With STRICT 0 the life met errors of its own, so
that how often it failed may differ.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def effects(life: Path, reference: Path, doubts: set[str]) -> list[str]:
    """Each effect exactly once, or listed as in doubt; what may be repeated at least once."""
    mine, theirs = lines(life / "effects.ndjson"), lines(reference / "effects.ndjson")
    wrong = []
    paid = Counter(e["invoice"] for e in mine if e["effect"] == "pay")
    due = {e["invoice"] for e in theirs if e["effect"] == "pay"}
    open_ones = {invoice for invoice in due if any(invoice in doubt for doubt in doubts)}
    wrong += [f"{i} was paid {paid[i]} times" for i in due if paid[i] > 1 or (paid[i] == 0 and i not in open_ones)]
    wrong += [f"{invoice} was never to be paid" for invoice in paid.keys() - {e.get("invoice") for e in theirs}]
    for kind, name in (("store", "item"), ("look", "what")):
        did, should = ({e[name] for e in some if e["effect"] == kind} for some in (mine, theirs))
        if did != should:
            wrong.append(f"{kind}: {sorted(did ^ should)} differ")
    for item, keys in keys_of(mine).items():
        if len(keys) > 1:
            wrong.append(f"{item} was stored under {len(keys)} keys")
    return wrong


def keys_of(some: list[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for e in some:
        if e["effect"] == "store":
            found.setdefault(e["item"], set()).add(e["key"])
    return found


def valid(messages: list[dict[str, Any]]) -> list[str]:
    """The rules of a strict model: after a message with calls their results, each once, and nothing else between."""
    wrong: list[str] = []
    owed: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in owed:
                wrong.append(f"message {at}: a result of {message['tool_call_id']}, which is not owed")
            else:
                owed.remove(message["tool_call_id"])
            continue
        if owed:
            wrong.append(f"message {at} comes before the results of {owed}")
        owed = [call["id"] for call in message.get("tool_calls") or ()]
    return wrong + ([f"at the end {owed} have no result"] if owed else [])


def told(log: list[dict[str, Any]]) -> dict[str, Any]:
    """What of the log must be as if nothing had happened: strategies, failures, money, result."""
    bodies = {kind: [r["body"] for r in log if r["kind"] == kind] for kind in {r["kind"] for r in log}}
    ends = [b for b in bodies.get("status", ()) if b["status"] == "completed"]
    return {
        "strategies": [b["strategy"] for b in bodies.get("rolled_back", ())],
        "failures": [b["failures"] for b in bodies.get("note", ()) if b.get("do") in ("next", "give up")],
        "spent": round(sum((b.get("cost") or {}).get("usd", 0) for b in bodies.get("action_finished", ())), 6),
        "result": [b["result"] for b in ends],
    }


def main(life: Path, reference: Path, *, strict: bool) -> list[str]:
    log = lines(life / "log.ndjson")
    wrong = effects(life, reference, set(json.loads((life / "doubts.json").read_text())))
    wrong += [f"numbered {r['seq']} at {at}" for at, r in enumerate(log, 1) if r["seq"] != at]
    for place in ("history.json", "stopped.json"):
        if (life / place).exists():
            wrong += [f"{place}: {text}" for text in valid(json.loads((life / place).read_text()))]
    mine, theirs = told(log), told(lines(reference / "log.ndjson"))
    for name in theirs if strict else ("result",):
        if mine[name] != theirs[name]:
            wrong.append(f"{name}: {mine[name]}, should be {theirs[name]}")
    return wrong


if __name__ == "__main__":
    found = main(Path(sys.argv[1]), Path(sys.argv[2]), strict=sys.argv[3] == "1")
    sys.stdout.write("\n".join(found))
    sys.exit(min(len(found), 100))
