"""An attempt that may take only so long: when its time is over it is left to itself, and can call nothing any more.

A thread cannot be ended from outside. What one that was left still does, it does unseen; that is why the action is in
doubt then. Nothing here knows of sessions.
"""

from __future__ import annotations

import contextvars
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Left:
    """Whether an attempt is left to itself. Nobody waits for it. `around`: that of the attempt that it is inside of."""

    __slots__ = ("_is_set", "around")

    def __init__(self, around: Left | None = None) -> None:
        self._is_set, self.around = False, around

    def set(self) -> None:
        """It is, for good."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set


_left: ContextVar[Left | None] = ContextVar("perdure_left", default=None)


class TimeOverError(Exception):
    """The time is over, and it has not come to its end."""


def is_left() -> bool:
    """Whether the running code is part of an attempt whose time is over, or inside of one."""
    left = _left.get()
    while left is not None and not left.is_set():
        left = left.around
    return left is not None


def limited() -> Setting[Left]:
    """What is started within it, threads and tasks, is left to itself once this is set."""
    return Setting(_left, Left(_left.get()))


def within(work: Callable[[], T], *, timeout_s: float) -> T:
    """What `work` returns or raises, called in a thread of its own. Raises `TimeOverError` after so many seconds."""
    done = threading.Event()
    ended: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            ended.append((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again below
            ended.append((None, error))
        finally:
            done.set()

    with limited() as left:
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run,), name="perdure-attempt", daemon=True).start()
        if not done.wait(timeout_s):
            left.set()
            raise TimeOverError
    result, error = ended[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]
