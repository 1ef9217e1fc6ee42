"""What a program pays for by `import perdure`: nothing of what few of them use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import perdure

FOREIGN = ("asyncio", "cryptography", "html", "jsonschema", "numpy", "pydantic", "rich", "socket", "sqlite3", "ssl")
FOREIGN += ("subprocess", "tenacity", "typer")
OWN = ("cli", "demo", "ops", "testing", "stores.sqlite", "stores.file", "stores.memory")
OWN += ("recovery.difference", "recovery.history", "recovery.preview", "recovery.verify")
OWN += ("runtime.aio", "runtime.detail", "runtime.driving", "runtime.replay")
OWN += ("session.async_session", "session.forking", "session.replaying", "state.foreign")

RUN = """
import perdure
store = perdure.open("memory:")
def agent(s):
    s.state["n"] = s.call(len, "four")
    s.save()
    return s.state["n"]
assert store.run(agent, "one").result == 4
with store.session("two") as s:
    s.state["n"] = 1
"""


def _loaded(code: str) -> set[str]:
    told = f"{code}\nimport sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_importing_the_package_loads_nothing_that_few_programs_use() -> None:
    unwanted = {*FOREIGN, *(f"perdure.{name}" for name in OWN)}
    assert unwanted & _loaded("import perdure") == set()


def test_a_run_loads_no_event_loop_and_nothing_that_keeps_house() -> None:
    loaded = _loaded(RUN)
    assert "perdure.stores.memory" in loaded
    unwanted = {*FOREIGN, *(f"perdure.{name}" for name in OWN if name != "stores.memory")}
    assert unwanted & loaded == set()


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(perdure, name) is not None
    assert name in dir(perdure)


def test_a_name_that_is_none_is_told_as_such() -> None:
    with pytest.raises(AttributeError, match="module 'perdure' has no attribute 'nothing'"):
        perdure.nothing  # type: ignore[attr-defined]  # noqa: B018
