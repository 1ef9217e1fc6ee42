"""What each protocol makes of the reference states: how long, how large, and how long to read it; no store is in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from perdure import values
from perdure.errors import ProtocolError
from perdure.testing.bench.plan import Plan
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import p50
from perdure.testing.bench.workload import Chat, Documents, messages_from

SHORT_PART: Final = 15
"""The short conversation has this part of the steps of the long one."""

FIELD: Final = ("doc", "meta", "updated_at")
TIMES: Final = 5
MB: Final = 1e6


def protocols(plan: Plan) -> Found:
    """Each protocol whose extra is installed, on each state; sizes in MB, times in milliseconds."""
    found: Found = {}
    for name, state in _states(plan):
        for protocol in values.PROTOCOLS:
            try:
                values.check_protocol(protocol)
            except ProtocolError:
                continue
            found |= {f"protocols.{name}.{protocol}.{what}": v for what, v in _measured(state, protocol).items()}
    return found


def _states(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    sizes, messages = plan.sizes, messages_from(plan.traces)
    for name, steps in (("short", max(1, sizes.steps // SHORT_PART)), ("long", sizes.steps)):
        chat = Chat(messages)
        for k in range(1, steps + 1):
            chat.step(k)
        yield name, chat.state
    yield "documents", Documents(messages, documents=sizes.documents, paragraphs=sizes.paragraphs).state


def _measured(state: dict[str, Any], protocol: str) -> Found:
    data = values.encode(state, codec=protocol)
    if values.decode(data, codec=protocol, pickled=True) != state:
        raise AssertionError(f"{protocol} reads something else than it wrote")
    found = {
        "size": len(data) / MB,
        "stored": len(values.seal(data, codec=protocol, chunk=True)) / MB,
        "encode": _timed(lambda: values.encode(state, codec=protocol)),
        "decode": _timed(lambda: values.decode(data, codec=protocol, pickled=True)),
    }
    if protocol == "capnp" and "doc" in state:
        found["field"] = _timed(lambda: values.field(data, FIELD, codec=protocol))
    return found


def _timed(do: Callable[[], Any]) -> float:
    """The median, in milliseconds."""
    taken = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        do()
        taken.append(time.perf_counter() - begin)
    return p50(taken) * 1e3
