"""OpenTelemetry spans of runs, actions, saves and restores, through its API package alone.

An observer that turns events into spans. With no SDK set up, nothing comes of it. Names and attributes follow the
conventions for generative AI where they have one, and are `perdure.…` elsewhere. What was said to a model or a tool,
and what it said, is never in a span.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from perdure import clock
from perdure.errors import PerdureError, RefusedError
from perdure.stores import observing
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from perdure.log.entry import Entry
    from perdure.stores.observing import Event

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError as missing:
    raise RefusedError("spans need an extra that is not installed: pip install 'perdure[otel]'") from missing

OPERATION: Final = "gen_ai.operation.name"
CONVERSATION: Final = "gen_ai.conversation.id"
ERROR: Final = "error.type"

TOLD_OF: Final = {
    "rolled_back": ("to", "reason", "by", "branch"),
    "asked": ("key",),
    "answered": ("asked", "by"),
    "settled": ("started", "how", "by", "why"),
    "received": ("item", "what", "by"),
    "edited": ("by", "reason"),
    "migrated": ("from", "to"),
}
"""The kinds of records that are events of a span, and the fields that are told of them."""

_Open = tuple["Span", "Token[Context] | None"]


class Tracing:
    """The observer. Each span is the current one while its code runs, so that what that traces belongs to it."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("perdure", tracer_provider=provider)
        self._lock = threading.Lock()
        self._runs: dict[str, _Open] = {}
        self._attempts: dict[tuple[str, int, int], _Open] = {}
        self._restored: dict[str, tuple[observing.Opened, int]] = {}
        self._on: dict[type[Event], Callable[[Any], None]] = {
            observing.Committed: self._committed,
            observing.CommitFailed: self._failed,
            observing.Opened: self._opened,
            observing.OpenFailed: self._open_failed,
            observing.LeaseLost: lambda event: self._add(event.session, "perdure.lease_lost", {}),
            observing.RunBegan: self._run_began,
            observing.RunEnded: self._run_ended,
            observing.AttemptBegan: self._attempt_began,
            observing.AttemptEnded: self._attempt_ended,
            observing.Judged: self._judged,
        }

    def __call__(self, event: Event) -> None:
        """Makes of it what it is in a trace."""
        on = self._on.get(type(event))
        if on is None:
            return
        if event.session in self._restored and not isinstance(event, observing.RunBegan | observing.Opened):
            self._show_restored(event.session)
        on(event)

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _run_began(self, event: observing.RunBegan) -> None:
        name = event.entry.rpartition(":")[2] or event.entry or event.form
        restored = self._restored.get(event.session)
        span = self._tracer.start_span(
            f"invoke_agent {name}",
            context=self._around(event.session),
            kind=SpanKind.INTERNAL,
            start_time=restored and restored[1] - _ns(restored[0].seconds),
            attributes={
                OPERATION: "invoke_agent",
                "gen_ai.agent.name": name,
                CONVERSATION: event.session,
                "perdure.form": event.form,
            },
        )
        token = contexts.attach(trace.set_span_in_context(span))
        with self._lock:
            self._runs[event.session] = (span, token)
        self._show_restored(event.session)

    def _around(self, session: str) -> Context | None:
        """A child's run belongs to that of its parent, which began it in a thread of its own."""
        parent = self._runs.get(session.rpartition("/")[0])
        if parent is None or trace.get_current_span().get_span_context().is_valid:
            return None
        return trace.set_span_in_context(parent[0])

    def _run_ended(self, event: observing.RunEnded) -> None:
        with self._lock:
            opened = self._runs.pop(event.session, None)
        if opened is None:
            return
        span, token = opened
        if event.status:
            span.set_attribute("perdure.status", event.status)
        _end(span, token, event.error)

    # --- actions ------------------------------------------------------------------------------------------------------

    def _attempt_began(self, event: observing.AttemptBegan) -> None:
        operation = "chat" if event.is_model else "execute_tool"
        attributes: dict[str, Any] = {
            OPERATION: operation,
            CONVERSATION: event.session,
            "perdure.action": event.name,
            "perdure.effect": event.effect,
            "perdure.record": event.seq,
            "perdure.attempt": event.attempt,
        }
        if not event.is_model:
            attributes |= {"gen_ai.tool.name": event.name, "gen_ai.tool.type": "function"}
        span = self._tracer.start_span(f"{operation} {event.name}", kind=SpanKind.INTERNAL, attributes=attributes)
        # A stream is read in other threads and tasks than this one: nothing would ever take its span away from here.
        token = None if event.is_stream else contexts.attach(trace.set_span_in_context(span))
        with self._lock:
            self._attempts[event.session, event.seq, event.attempt] = (span, token)

    def _attempt_ended(self, event: observing.AttemptEnded) -> None:
        with self._lock:
            opened = self._attempts.pop((event.session, event.seq, event.attempt), None)
        if opened is None:
            return
        span, token = opened
        span.set_attribute("perdure.how", event.how)
        _end(span, token, event.error)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _committed(self, event: observing.Committed) -> None:
        for entry in event.entries:
            if entry.kind == "saved":
                self._saved(event, entry)
            elif (fields := TOLD_OF.get(entry.kind)) is not None:
                told = {field: entry.body.get(field) for field in fields}
                self._add(event.session, f"perdure.{entry.kind}", {"record": entry.seq, **told})
            elif entry.kind == "status" and entry.body["status"] == "waiting":
                self._add(event.session, "perdure.waiting", {"records": list(entry.body["waits"])})

    def _saved(self, event: observing.Committed, entry: Entry) -> None:
        now = clock.now_us() * 1000
        attributes: dict[str, Any] = {
            CONVERSATION: event.session,
            "perdure.snapshot": entry.seq,
            "perdure.snapshot.bytes": len(entry.body["delta"]),
        }
        if entry.body["name"]:
            attributes["perdure.checkpoint"] = outward.text(entry.body["name"])
        span = self._tracer.start_span("perdure.save", start_time=now - _ns(event.seconds), attributes=attributes)
        span.end(now)

    def _failed(self, event: observing.CommitFailed) -> None:
        self._add(event.session, "perdure.commit_failed", {ERROR: _type(event.error), "error": str(event.error)})

    def _opened(self, event: observing.Opened) -> None:
        if not event.is_new:
            self._restored[event.session] = (event, clock.now_us() * 1000)

    def _show_restored(self, session: str) -> None:
        """Once it is known what it belongs to: the run that it was for, or whoever opened a handle."""
        event, ended = self._restored.pop(session, (None, 0))
        if event is None:
            return
        attributes: dict[str, Any] = {
            CONVERSATION: session,
            "perdure.status": event.status,
            "perdure.snapshot": event.point,
            "perdure.records": len(event.entries),
            "perdure.taken_over": event.is_taken_over,
        }
        span = self._tracer.start_span("perdure.restore", start_time=ended - _ns(event.seconds), attributes=attributes)
        span.end(ended)

    def _open_failed(self, event: observing.OpenFailed) -> None:
        now = clock.now_us() * 1000
        span = self._tracer.start_span(
            "perdure.restore", start_time=now - _ns(event.seconds), attributes={CONVERSATION: event.session}
        )
        _tell(span, event.error)
        span.end(now)

    # --- events -------------------------------------------------------------------------------------------------------

    def _judged(self, event: observing.Judged) -> None:
        self._add(event.session, f"perdure.{event.what}", {"reason": event.reason, **event.details})

    def _add(self, session: str, name: str, told: dict[str, Any]) -> None:
        """An event of the run of that session, or where there is none of whatever goes on here."""
        opened = self._runs.get(session)
        span = trace.get_current_span() if opened is None else opened[0]
        span.add_event(name, {_named(key): _value(value) for key, value in told.items() if value is not None})


def _named(key: str) -> str:
    return key if "." in key else f"perdure.{key}"


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return outward.text(value)
    if isinstance(value, bool | int | float):
        return value
    return [_value(each) for each in value] if isinstance(value, list | tuple) else outward.text(str(value))


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _type(error: BaseException) -> str:
    return error.code if isinstance(error, PerdureError) else type(error).__qualname__


def _tell(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR, _type(error))
    span.set_status(StatusCode.ERROR, outward.text(f"{type(error).__name__}: {error}"))


def _end(span: Span, token: Token[Context] | None, error: BaseException | None) -> None:
    if error is not None:
        _tell(span, error)
    span.end()
    if token is not None:
        contexts.detach(token)
