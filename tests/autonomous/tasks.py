"""The example tasks: agents with real tools on real input, each with a program that checks what came of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import perdure

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

GOALS = {
    "fix_a_test": "Make the tests pass",
    "report": "Report what is known of high water at Elra, in report.md",
    "clean_csv": "Clean orders.csv and sum it up",
}

Check = Callable[[Path, str], str]


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_LOADED = {name: _loaded(name) for name in GOALS}


def example(name: str) -> ModuleType:
    """The module of an example."""
    return _LOADED[name]


def given(name: str, folder: Path) -> dict[str, Any]:
    """The input of an example."""
    return {"goal": GOALS[name], "workspace": str(folder)}


def done(name: str, folder: Path) -> perdure.Outcome:
    """The example, run unharmed."""
    with perdure.open("memory:") as store:
        return store.run(example(name).agent, "q", input=given(name, folder))
