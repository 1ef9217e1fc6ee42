"""The process that the kill storm kills: saves and calls in a loop, and tells each acknowledgement through its output.

Started as `python -S -E storm_child.py JSON`: its own interpreter, which knows only the folders that it is told of.
"""

from __future__ import annotations

import json
import os
import random
import sys
import uuid
from pathlib import Path
from typing import Any


def size_of(number: int) -> int:
    """Bytes of the payload of a round: 100 B to 200 KB, small ones as likely as large ones."""
    return int(10 ** random.Random(number).uniform(2, 5.3))


def payload(number: int) -> bytes:
    return random.Random(-number).randbytes(size_of(number))


def main(told: dict[str, Any]) -> None:
    sys.path[:0] = told["folders"]
    import perdure  # noqa: PLC0415 - only now it can be found
    from perdure.runtime.store import AgentStore  # noqa: PLC0415
    from perdure.stores import open_store  # noqa: PLC0415
    from perdure.testing import broken  # noqa: PLC0415

    world = Path(told["world"])
    backend = open_store(told["store"])
    store = AgentStore(getattr(broken, told["wrap"])(backend) if told["wrap"] else backend)

    def acknowledged(*words: object) -> None:
        os.write(1, " ".join(map(str, words)).encode() + b"\n")

    def happens(name: str, number: int, which: str) -> None:
        """A file of this name; the same one again is no new effect."""
        folder = world / str(number)
        folder.mkdir(exist_ok=True)
        (folder / f"{name} {which}").touch()

    def has_sent(number: int) -> perdure.Done | perdure.NotDone:
        return perdure.Done(number) if list((world / str(number)).glob("send *")) else perdure.NotDone()

    @perdure.action(effect="once", verify=has_sent)
    def send(number: int) -> int:
        happens("send", number, uuid.uuid4().hex)
        return number

    @perdure.action(effect="idempotent")
    def book(number: int, key: perdure.IdempotencyKey | None = None) -> int:
        happens("book", number, str(key))
        return number

    @perdure.action(effect="repeatable")
    def look(number: int, chance: float) -> bytes:
        happens("look", number, "again and again")
        return payload(number)

    def round_of(s: perdure.Session, number: int) -> None:
        chance = s.random()
        found = look(number, chance)
        acknowledged("finished", "look", number)
        for action in (send, book):
            action(number)
            acknowledged("finished", action.__name__, number)
        s.state["payload"] = found
        s.state["rounds"].append([number, len(found), chance])
        s.save()
        acknowledged("saved", number)

    with store.session(told["session"]) as s:
        rounds = s.state.setdefault("rounds", [])
        acknowledged("opened", len(rounds))
        while True:
            round_of(s, len(rounds))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
