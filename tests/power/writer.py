"""The process whose disk loses power: sessions that call and save, each acknowledgement told with the moment it came.

Started as `python -S -E writer.py JSON`. A line of its output is a session (or `saver`), what is acknowledged, its
number, and the length of the disk's record when it was. It ends without closing anything, as at a power cut.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

TRAP = ".fail"
"""Behind the name of the disk's record: makes the next write fail."""

AGAIN, RESTART, DEAD = "open it again", "start another process", "die in that moment"
"""What the writer does when the store fails; in the last case before the store could take back what it wrote."""

TRIES = 30
"""So often a session is opened again."""

GOES_ON = 7
"""The exit status of a process that another one is to go on from."""

SESSIONS = ("left", "right")
"""They share the store, each in a thread of its own."""

CHORES, OUT = "chores", "out"
"""What the chores are told as, and where what they export goes."""

KEYFRAME_EVERY = 7
LEFT_OPEN = ExitStack()


def payload(number: int) -> bytes:
    """100 B to 60 KB, small ones as likely as large ones."""
    chance = random.Random(number)
    return chance.randbytes(int(10 ** chance.uniform(2, 4.8)))


class Told:
    """What the writer was told on its command line, and what it tells."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.folder, self.record = Path(told["folder"]), told["record"]
        self.url, self.options, self.spoiled = told["url"], told["options"], told["spoiled"]
        self.rounds, self.after_failure = told["rounds"], told["after_failure"]

    def acknowledge(self, session: str, what: str, number: int) -> None:
        position = os.stat(self.record).st_size  # noqa: PTH116 - first of all, before anything else is written
        os.write(1, f"{session} {what} {number} {position}\n".encode())

    def lay_trap(self, session: str, number: int) -> None:
        """Makes the disk fail once in each fourth round, if failures are wanted."""
        if self.after_failure and number % 4 == 2:
            with suppress(FileExistsError):
                Path(f"{self.record} {session} {number}").touch(exist_ok=False)
                Path(self.record + TRAP).touch()

    def may_go_on(self) -> bool:
        """Whether the store's failure is to be lived with, in this process."""
        if self.after_failure in (RESTART, DEAD):
            os._exit(GOES_ON)
        return self.after_failure == AGAIN


def save_numbers(told: Told) -> None:
    from tests.power import savers  # noqa: PLC0415 - only now it can be found

    kind, options = (savers.RIGHT | savers.WRONG)[told.spoiled]
    saver = kind(told.folder, **options)
    for number in range(1, told.rounds + 1):
        if number == 3 and kind is savers.Insisting:
            Path(told.record + TRAP).touch()
        saver.save(number)
        told.acknowledge("saver", "saved", number)


def run_sessions(told: Told) -> None:
    from perdure.runtime.store import AgentStore  # noqa: PLC0415
    from perdure.session.keeping.keyframer import Keyframer  # noqa: PLC0415
    from perdure.stores import open_store  # noqa: PLC0415

    defaults = Keyframer.__init__.__kwdefaults__
    assert defaults is not None
    defaults["every"] = KEYFRAME_EVERY
    spoil(told.spoiled)
    if told.after_failure == DEAD:
        die_of_failures()
    store = AgentStore(open_store(told.url, **told.options))
    with ThreadPoolExecutor(len(SESSIONS)) as threads:
        for ended in [threads.submit(live, told, store, session) for session in SESSIONS]:
            ended.result()
        os._exit(0)


def do_chores(told: Told) -> None:
    from perdure.runtime.store import AgentStore  # noqa: PLC0415
    from perdure.stores import open_store  # noqa: PLC0415
    from tests.crash import chores  # noqa: PLC0415

    chores.often()
    spoil(told.spoiled)
    out = told.folder / OUT
    out.mkdir()
    descriptor = os.open(told.folder, os.O_RDONLY)
    os.fsync(descriptor)
    work = chores.Chores(AgentStore(open_store(told.url, **told.options)), out, {}, partial(told.acknowledge, CHORES))
    for number in range(told.rounds):
        work.round(number)
    os._exit(0)


def spoil(how: str) -> None:
    """Makes the store wrong in this way."""
    from perdure.stores.sqlite import store  # noqa: PLC0415
    from perdure.stores.sqlite.descriptor import Descriptor  # noqa: PLC0415

    match how:
        case "SQLite NORMAL":
            store._WRITING = ("synchronous=NORMAL", *store._WRITING[1:])
        case "SQLite, trusting the cache":
            Descriptor.forget_cached = lambda _: None
        case "no sync":
            os.fsync = os.fdatasync = lambda _: None


def die_of_failures() -> None:
    """A sync that fails is the last thing that this process sees."""
    from perdure.stores.sqlite import commit  # noqa: PLC0415

    def dying(sync: Callable[[int], None], file: int) -> None:
        try:
            sync(file)
        except OSError:
            os._exit(GOES_ON)

    os.fsync, os.fdatasync = partial(dying, os.fsync), partial(dying, os.fdatasync)
    commit._roll_back = lambda _: os._exit(GOES_ON)


def live(told: Told, store: Any, session: str) -> None:
    """One session. When the store fails it is opened again, until it is done or the disk has failed for good."""
    from perdure.errors import StoreFailedError  # noqa: PLC0415

    for _ in range(TRIES):
        try:
            rounds(told, store, session)
            return
        except StoreFailedError:
            if not told.may_go_on():
                raise
    os._exit(GOES_ON)


def rounds(told: Told, store: Any, session: str) -> None:
    """All rounds that are not saved yet. The session is left open."""
    with ExitStack() as stack:
        s = stack.enter_context(store.session(session))
        told.acknowledge(session, "opened", 0)
        for number in range(len(s.state.setdefault("rounds", [])), told.rounds):
            told.lay_trap(session, number)
            one_round(s, number, partial(told.acknowledge, session))
        LEFT_OPEN.push(stack.pop_all())


def one_round(s: Any, number: int, acknowledge: Callable[[str, int], None]) -> None:
    """Two calls and a save."""
    found = s.action(payload, effect="repeatable")(number)
    s.action(len, effect="idempotent", key=number)(found)
    acknowledge("finished", number)
    s.state["rounds"].append([number, len(found)])
    s.state["payload"] = found
    if number % 5:
        s.save()
    else:
        s.checkpoint(f"round {number}")
    acknowledge("saved", number)


def main(told: dict[str, Any]) -> None:
    sys.path[:0] = told["folders"]
    if told["chores"]:
        do_chores(Told(told))
    elif told["url"]:
        run_sessions(Told(told))
    else:
        save_numbers(Told(told))
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
