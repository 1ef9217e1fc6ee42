"""An agent that mends a program whose tests fail: it runs them, finds the reason, changes the program, runs them again.

    perdure agent "Make the tests pass" --agent examples/fix_a_test.py:agent --id fix

It works on a copy of `broken_repo`, which is put into the workspace if that is empty. Without a model it plays what
stands in `fix_a_test.yaml`. The tests run what is there, as you.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perdure import autonomous
from perdure.tools import Toolbox, files, shell
from perdure.tools.commands import run

REPO = Path(__file__).with_name("broken_repo")

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]

ALONE = {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
"""So that `python` is this one, and tests run without what happens to be installed beside pytest."""


def tools(folder: Path) -> Toolbox:
    """Files and commands."""
    return Toolbox.of(files(folder), shell(folder, env=ALONE))


def judge(folder: Path, result: str) -> str:
    """What is wrong, if the tests do not pass or are not those that came with the program. It believes no word."""
    del result
    for path in sorted((REPO / "tests").glob("*.py")):
        there = folder / "tests" / path.name
        if not there.exists() or there.read_bytes() != path.read_bytes():
            return f"tests/{path.name} is not as it was: the program is to be mended, not its tests"
    ran = run(PYTEST, str(folder), env=ALONE)
    return "" if ran.exit_status == 0 else f"the tests fail:\n{ran.stdout}{ran.stderr}"


@autonomous.agent
def agent() -> autonomous.Agent:
    """What it may use, what it must not do, and replies for the case that no model is given."""
    return autonomous.Agent(
        model=f"script:{Path(__file__).with_suffix('.yaml')}",
        tools=tools,
        rules=("Tests are right: change the program, never a test.",),
        judge=judge,
        seed=REPO,
    )
