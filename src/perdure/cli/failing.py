"""How errors are told: message and code on stderr or as JSON, a status per kind, the user's lines of a traceback."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import Any, Final

import perdure
from perdure.cli import output
from perdure.errors import EntryError, MigrationError, PerdureError

_OURS: Final = (str(Path(perdure.__file__).parent), str(Path(importlib.__file__).parent), "<frozen importlib")
_SHOWN: Final = str(Path(perdure.__file__).parent / "demo")

AGENT_CODE: Final = "agent"
"""The code of an error that is not ours: the agent's own."""


def code_of(error: BaseException) -> str:
    """The stable code of an error."""
    return error.code if isinstance(error, PerdureError) else AGENT_CODE


def status_of(error: BaseException) -> int:
    """The exit status of an error."""
    return error.exit_status if isinstance(error, PerdureError) else 1


def document(error: BaseException, *, trace: bool = False) -> dict[str, Any]:
    """An error as JSON."""
    told = {"code": code_of(error), "message": str(error)}
    return told | {"type": type(error).__name__, "traceback": users_traceback(error)} if trace else told


def tell(error: PerdureError, *, json: bool) -> int:
    """Tells of an error that ends a command. Its exit status."""
    if json:
        output.line({"error": document(error)})
    else:
        output.warn(f"error: {error} ({error.code})")
        if (
            isinstance(error, EntryError | MigrationError)
            and error.__cause__ is not None
            and _has_users_lines(error.__cause__)
        ):
            output.warn(users_traceback(error.__cause__))
    return error.exit_status


def _has_users_lines(error: BaseException) -> bool:
    return any(_is_users(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def users_traceback(error: BaseException) -> str:
    """The traceback with the lines of the user's code only."""
    told = traceback.TracebackException.from_exception(error)
    _keep_users(told)
    return "".join(told.format()).rstrip()


def _keep_users(told: traceback.TracebackException | None) -> None:
    while told is not None:
        kept = [frame for frame in told.stack if _is_users(frame.filename)]
        told.stack = traceback.StackSummary.from_list(kept or list(told.stack))
        _keep_users(told.__context__)
        told = told.__cause__


def _is_users(file: str) -> bool:
    return file.startswith(_SHOWN) or not file.startswith(_OURS)
