"""What protection costs: the growing conversation saved and restored with all of it, as by default, and with none.

All of it: digests and their chain under a key, a look for secrets, compression, encryption. As by default: without a
key. None: no digest, no look, nothing compressed, nothing sealed; nobody can open a store so, it is measured only.
"""

from __future__ import annotations

from typing import Final

from perdure.testing.bench.fresh import answer_of, module
from perdure.testing.bench.plan import SESSION, Plan
from perdure.testing.bench.restoring import WrongStateError
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import p50, take
from perdure.testing.bench.writers import STORE

WAYS: Final = {"none": "unprotected", "default": "automatic", "all": "protected"}
_SMALLEST_MS: Final = 1e-3
"""What cannot be told from nothing."""


def protection(plan: Plan) -> Found:
    """CPU per late save of the thread that saves, and CPU of restoring the newest state."""
    sizes = plan.sizes
    samples = take(
        plan, "chat", writers=tuple(WAYS.values()), saves=sizes.steps, turn=sizes.turn, digested=[sizes.steps]
    )
    found: Found = {}
    for way, writer in WAYS.items():
        taken = samples[writer]
        found[f"protection.{way}.cpu"] = p50(taken.thread[-sizes.window :]) * 1e3
        found[f"protection.{way}.late"] = p50(taken.wall[-sizes.window :]) * 1e3
        task = {"what": "often", "url": str(taken.folder / STORE), "way": way, "session": SESSION}
        restored = [answer_of(*module("restores", task)) for _ in range(sizes.opens)]
        if any(one["digest"] != taken.digests[sizes.steps] for one in restored):
            raise WrongStateError(f"{writer}: the newest state is not the one that was saved last")
        found[f"protection.{way}.restore"] = p50([took for one in restored for took in one["times"]])
    for figure in ("cpu", "late"):
        added = found[f"protection.all.{figure}"] - found[f"protection.none.{figure}"]
        found[f"protection.added.{figure}"] = max(added, _SMALLEST_MS)
    found["protection.restore_over"] = found["protection.all.restore"] / found["protection.none.restore"]
    return found
