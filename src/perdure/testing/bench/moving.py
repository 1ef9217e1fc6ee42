"""What it costs to bring a large session to a file, and from the file into another store, everything verified."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import perdure
from perdure import clock
from perdure.testing.bench.plan import Plan
from perdure.testing.bench.saving import Found
from perdure.testing.bench.workload import Documents, messages_from
from perdure.testing.bench.writers import STORE

IMAGE_BYTES: Final = 100_000
STATED_BYTES: Final = 50_000_000
"""The size that the figures are stated for; a session is a little more or less."""


def moving(plan: Plan) -> Found:
    """A session of documents that are replaced and images that come, exported and imported."""
    folder = plan.folder / "moved"
    if not folder.exists():
        _fill(plan, plan.fresh("moved"))
    file, other = folder / "session.perdure", plan.fresh("moved-to")
    file.unlink(missing_ok=True)
    with perdure.open(str(folder / STORE)) as store:
        stored = store.export_file("s", file).stored_bytes
        file.unlink()
        exported = _took(lambda: store.export_file("s", file))
    with perdure.open(str(other / STORE)) as store:
        imported = _took(lambda: store.import_file(file))
    scale = STATED_BYTES / stored
    return {"moved.mb": stored / 1e6, "moved.export": exported * scale, "moved.import": imported * scale}


def _fill(plan: Plan, folder: Path) -> None:
    work = Documents(messages_from(plan.traces), documents=20, paragraphs=50)
    with perdure.open(str(folder / STORE)) as store, store.session("s") as s:
        s.state.update(work.state, images=[])
        for number in range(1, plan.sizes.moved + 1):
            work.step(number)
            s.state["images"].append(random.Random(number).randbytes(IMAGE_BYTES))  # noqa: S311 - not for secrets
            s.save()


def _took(work: Callable[[], object]) -> float:
    began = clock.monotonic_s()
    work()
    return (clock.monotonic_s() - began) * 1e3
