"""How an attempt at a call ended, and what is told of one that does not match what is recorded."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import LimitError, UnstorableError
from perdure.log import choices
from perdure.log.action import Outcome, Streamed
from perdure.session.rules import call as calls
from perdure.session.rules import failure
from perdure.session.rules.request import Ended

if TYPE_CHECKING:
    from perdure.errors import StorableError
    from perdure.log.action import Action
    from perdure.log.entry import Entry
    from perdure.session.rules.call import Call
    from perdure.session.rules.failing import Policy

_log = logging.getLogger("perdure.actions")


def attempted(
    call: Call, action: Action, result: Any, error: Exception | None, *, failures: int, policy: Policy | None
) -> Ended:
    """The outcome of an attempt. What `verify`, `not_done`, `retries` and the failure policy say is applied here.

    An error may tell of itself: `cost`, what the attempt cost all the same, by unit; `retry_after_s`, how long to
    wait before the next; `passes`, False if the next would end as this one.
    """
    if error is None:
        return Ended(_with_cost(call, _result(call, result), result))
    not_done = isinstance(error, call.options.not_done) if call.options.not_done else False
    told, retries = failure.recorded(error), call.options.retries if getattr(error, "passes", True) else 0
    if policy is None and (wait_s := _number(getattr(error, "retry_after_s", None))) > 0:
        told["wait_s"] = wait_s
    if policy is not None:
        told["kind"], told["wait_s"] = kind_of(error, policy, of_action=True), policy.wait_s(error)
        retries = max(retries, policy.tries(told["kind"]))
    final = failures + 1 > retries or (call.effect == "once" and not not_done)
    first, *others = failure.origins_of(error)
    origin, beside = first.seq or action.seq, () if final else tuple(other.seq for other in others if other.seq)
    cost = _cost_of(error) if origin == action.seq else None  # else it is with the action that it came from
    return Ended(Outcome("error", told, final, not_done, origin, cost=cost, beside=beside), error)


def kind_of(error: BaseException, policy: Policy, *, of_action: bool) -> str:
    """The kind of an error. A policy that cannot tell loses no outcome."""
    try:
        return policy.kind(error, of_action=of_action)
    except Exception as failed:  # noqa: BLE001 - the user's own function; the error that it was asked about is kept
        known = choices.TOOL_ERROR if of_action else choices.FATAL
        _log.warning("of which kind %r is cannot be told: classify= failed: %r; it counts as %s", error, failed, known)
        return known


def _cost_of(error: Exception) -> dict[str, float] | None:
    """What an attempt cost that failed, if its error tells."""
    told = getattr(error, "cost", None)
    return {str(unit): _number(amount) for unit, amount in told.items()} if isinstance(told, dict) else None


def _number(told: Any) -> float:
    """What an error tells of itself is a number, or nothing."""
    return float(told) if isinstance(told, int | float) and math.isfinite(told) else 0.0


def _with_cost(call: Call, outcome: Outcome, result: Any) -> Outcome:
    """With what it cost. A declaration that cannot tell loses no result."""
    if call.options.cost is None:
        return outcome
    try:
        cost = {str(unit): float(amount) for unit, amount in call.options.cost(result).items()}
    except Exception as error:  # noqa: BLE001 - the user's own function; the result is paid for, and is kept
        _log.warning("what %s cost is not known: its cost= failed: %r", call.name, error)
        return outcome
    if wrong := [unit for unit, amount in cost.items() if not math.isfinite(amount)]:
        _log.warning("what %s cost in %s is not known: its cost= says %r", call.name, wrong[0], cost[wrong[0]])
    return replace(outcome, cost={unit: _number(amount) for unit, amount in cost.items()})


def streamed(call: Call, chunks: list[Any], returned: Any, *, cut_us: int | None = None) -> Ended:
    """The outcome of a stream that came to its end, or (`cut_us`) was left by the code."""
    kept = None if returned is None else _result(call, returned)
    if kept is not None and kept.how != "result":
        return Ended(replace(kept, stream=Streamed(values.encode(chunks))))
    stream = Streamed(returned=None if kept is None else kept.value, cut_us=cut_us)
    return Ended(replace(_result(call, chunks), stream=stream))


def broken_off(ended: Ended, chunks: list[Any], *, cut_us: int | None = None) -> Ended:
    """The outcome of a stream that raised: what came before cannot be taken back, so it is not tried again."""
    final = ended.outcome.final or bool(chunks)
    stream = Streamed(values.encode(chunks), cut_us=cut_us)
    return replace(ended, outcome=replace(ended.outcome, final=final, stream=stream))


def unstorable(call: Call, error: StorableError) -> Ended:
    """The outcome of a stream of which a chunk cannot be stored."""
    return Ended(_unstorable(call, error, None))


def timed_out(call: Call, action: Action, *, failures: int, policy: Policy | None) -> Ended:
    """The outcome of an attempt whose time is over. It may have done something, or go on to do it."""
    error = TimeoutError(f"{call.text()} took longer than {call.options.timeout_s:g} s")
    ended = attempted(call, action, None, error, failures=failures, policy=policy)
    return Ended(ended.outcome, error, cut_short=True)


def cut_short(action: Action, error: BaseException, *, began: bool, took_us: int) -> Ended:
    """The outcome of an attempt that was cancelled. `began`: its function may have done something."""
    told = failure.recorded(error) | {"took_us": took_us}
    return Ended(Outcome("error", told, not_done=not began, origin=action.seq), error, cut_short=True)


def cut_short_us(outcome: Outcome) -> int | None:
    """How long an attempt ran that was cancelled in the end; None for every other outcome."""
    return outcome.value.get("took_us") if outcome.how == "error" else None


def screened(call: Call, ended: Ended, guard: values.Guard) -> Ended:
    """The same end without secrets in it, as it is recorded and as the code gets it: what has happened is kept."""
    outcome = ended.outcome
    if not guard.looks:
        return ended
    if outcome.how == "result":
        passed = guard.kept(outcome.value, at=f"result of {call.name}")
        return replace(ended, outcome=replace(outcome, value=passed.data)) if passed.paths else ended
    told = guard.body("action_finished", {"value": outcome.value})["value"]
    if told is outcome.value:
        return ended
    return Ended(replace(outcome, value=told), _without(told, ended.error, call), cut_short=ended.cut_short)


def _without(told: dict[str, Any], error: BaseException | None, call: Call) -> BaseException | None:
    """The error as a replay will give it; its own class is not tried where it is not one that may be rebuilt."""
    if not isinstance(error, Exception):
        return error
    home = getattr(call.fn, "__module__", "") or ""
    return failure.rebuilt(told, home=home).with_traceback(error.__traceback__)


def _result(call: Call, result: Any) -> Outcome:
    try:
        return Outcome("result", values.encode(result, at=f"result of {call.name}"))
    except (UnstorableError, LimitError) as error:
        return _unstorable(call, error, result)


def _unstorable(call: Call, error: StorableError, value: Any) -> Outcome:
    told = {"path": f"result of {call.name}", "reason": str(error).partition(": ")[2]}
    if isinstance(error, UnstorableError):
        told = {"path": error.path, "reason": error.reason}
    return Outcome("unstorable", told | {"text": values.describe(value)})


def divergence(what: str, left: Action, like: Action | None, live: Call | None) -> str:
    """Both calls, and what differs."""
    recorded = f"{calls.call_text(left.name, left.args)} (record {left.seq})"
    text = f"the code came to {what}, but {recorded} is recorded here and has not been called again; nothing was done"
    if live is not None and like is not None and (name := calls.first_difference(like.args, live.named)):
        text += f". The nearest record is {calls.call_text(like.name, like.args)} (record {like.seq}): {name} differs"
    return text + ". Make the code call it as before, settle it, or resume with accept_change"


def state_divergence(recorded: Entry, then: dict[str, Any], now: dict[str, Any]) -> str:
    """What is told of a restore point to which the code came with another state than is recorded."""
    names = [*then, *(name for name in now if name not in then)]
    differs = next(
        (n for n in names if n not in then or n not in now or not values.same(then[n], now[n])), "the order of parts"
    )
    return (
        f"the code came to the restore point {recorded.seq} with another state than it had then ({differs} differs), "
        "though neither the code nor what it was answered changed: it uses something that varies by nature. "
        "Take times, ids and random numbers from s.now(), s.uuid() and s.random()"
    )
