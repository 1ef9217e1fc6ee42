"""Lives of a session, in each of which one call to the file system fails; told by what came of it.

Started as `python -S -E injected.py JSON` with the library of `faults.c` loaded before it. Each life opens a store,
calls, saves, carries a log over and closes. When an operation fails it is looked what a reader finds, then the fault
ends and the operation is done again. A line of JSON for each life.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SAVES = 4
FOR_EVER = 1 << 40


def item(number: int) -> str:
    return f"item {number} " + "".join(map(chr, range(200 + number, 1200 + number)))


class Life:
    """One life: call `first` of these kinds fails with `code`, and the `count` - 1 after it."""

    def __init__(self, lib: Any, told: dict[str, Any], number: int) -> None:
        self.folder = Path(told["folder"]) / f"life {number} {told['operation']}"
        self.folder.mkdir()
        self.url = told["url"].format(self.folder, "agents")
        self._lib, self._told, self._first = lib, told, number
        self._trace = os.open(f"{self.folder}.trace", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.saved, self.raised, self.wrong = 0, [], []

    def live(self) -> dict[str, Any]:
        told, folder = self._told, os.fsencode(self.folder)
        self._lib.faults_arm(folder, told["kinds"].encode(), self._first, told["count"], told["error"], self._trace)
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - told to the test
            self.wrong.append(f"{type(error).__name__}: {error}")
        failed, seen = self._lib.faults_failed(), self._lib.faults_seen()
        self._lib.faults_arm(b"/nowhere", b"", 0, 0, 0, -1)
        self._check_after()
        return {"failed": failed, "seen": seen, "raised": self.raised, "wrong": self.wrong, "trace": self._traced()}

    def _live(self) -> None:
        import perdure  # noqa: PLC0415

        store = self._done(lambda: perdure.open(self.url))
        with ExitStack() as stack:
            stack.callback(lambda: self._done(store.close))
            s = self._done(lambda: store.session("a").__enter__())
            self._told_of("opened")
            log = s.state.setdefault("log", [])
            for number in range(SAVES):
                log.append(self._done(lambda number=number: s.action(item, effect="idempotent")(number)))
                self._done(s.save)
                self.saved = len(log)
                self._told_of("saved")
                if number == SAVES // 2 and hasattr(store.backend, "_checkpointer"):
                    self._done(store.backend._checkpointer.carry_over)
            self._done(lambda: s.__exit__(None, None, None), again=lambda: store.session("a").__enter__().close())

    def _done(self, work: Callable[[], T], *, again: Callable[[], Any] | None = None) -> T:
        """Does it; if it fails once more, or what is to be done again."""
        from perdure.errors import StoreFailedError  # noqa: PLC0415

        try:
            return work()
        except StoreFailedError as error:
            self.raised.append(str(error))
        self._lib.faults_disarm()
        self._look()
        return again() if again else work()

    def _look(self) -> None:
        """What a reader finds right after a failure."""
        import perdure  # noqa: PLC0415

        with perdure.open(self.url) as store:
            found = len(store.state_at("a").get("log", [])) if store.sessions() else 0
        if found < self.saved:
            self.wrong.append(f"{self.saved} were acknowledged, {found} are there after the failure")

    def _check_after(self) -> None:
        import perdure  # noqa: PLC0415

        try:
            with perdure.open(self.url) as store:
                report, state = store.verify("a", read_data=True), store.state_at("a")
        except perdure.PerdureError as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            return
        if not report.ok:
            self.wrong.append(f"{report.problems}")
        if state != {"log": [item(number) for number in range(SAVES)]}:
            self.wrong.append("the state is not what it must be")

    def _told_of(self, what: str) -> None:
        os.write(self._trace, f"A\t-1\t{what}\t0\t0\t0\n".encode())

    def _traced(self) -> list[list[str]]:
        text = os.pread(self._trace, 1 << 24, 0).decode()
        os.close(self._trace)
        return [line.replace(str(self.folder), ".").split("\t") for line in text.splitlines()]


class SaverLife(Life):
    """The same for one of the small savers, which ends where it fails."""

    def _live(self) -> None:
        from tests.power import savers  # noqa: PLC0415

        try:
            saver = getattr(savers, self.url)(self.folder, syncs=True)
            for number in range(1, SAVES + 1):
                saver.save(number)
                self.saved = number
                self._told_of("saved")
        except OSError as error:
            self.raised.append(str(error))

    def _check_after(self) -> None:
        from tests.power import savers  # noqa: PLC0415

        found = savers.Appending.newest(self.folder)
        if found < self.saved:
            self.wrong.append(f"{self.saved} were acknowledged, {found} are there")


def kind_of(told: dict[str, Any]) -> type[Life]:
    if not told["operations"]:
        return Life if ":" in told["url"] else SaverLife
    from tests.power.operated import OperationLife  # noqa: PLC0415 - only now it can be found

    return OperationLife


def main(told: dict[str, Any]) -> None:
    sys.path[:0] = told["folders"]
    lib = ctypes.CDLL(None)
    lib.faults_arm.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_int,
    ]
    lib.faults_seen.restype = lib.faults_failed.restype = ctypes.c_long
    kind = kind_of(told)
    for first, operation in enumerate(told["operations"] or [""]):
        number, step = 1 + first % told["step"], told["step"]
        while True:
            life = kind(lib, told | {"operation": operation}, number).live()
            if not life["failed"]:
                break
            sys.stdout.write(json.dumps(life | {"operation": operation}) + "\n")
            sys.stdout.flush()
            number += step


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
