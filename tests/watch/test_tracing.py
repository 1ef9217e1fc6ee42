"""Spans as an SDK gets them: nested as the code is, named by the conventions, ended in any case, without content."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import perdure
from perdure.errors import DamageError, StoreFailedError
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.testing.broken import Passing

TOKEN = "sk-" + "proj-" + "aB3dE6gH9k" * 4


class Traced:
    def __init__(self, store: AgentStore) -> None:
        self.store, self._exporter = store, InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.stop = store.trace(self.provider)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def parent_of(self, span: ReadableSpan) -> str | None:
        by_id = {other.context.span_id: other.name for other in self.spans}
        return None if span.parent is None else by_id.get(span.parent.span_id)

    def tree(self) -> list[tuple[str, str | None]]:
        return [(span.name, self.parent_of(span)) for span in sorted(self.spans, key=lambda span: span.start_time)]


@pytest.fixture
def traced(tmp_path: Path):
    with perdure.open(str(tmp_path / "agents.db")) as store:
        yield Traced(store)
    assert not trace.get_current_span().get_span_context().is_valid  # nothing is left attached
    assert context.get_current() == {}


@perdure.action(effect="repeatable")
def inner(n: int) -> int:
    return n


@perdure.action(effect="once")
def pay(amount: int) -> int:
    return inner(amount)


def agent(s: perdure.Session) -> int:
    s.state["paid"] = s.call(pay, 41)
    s.checkpoint("paid")
    return int(s.ask("how much more?", key="more"))


def test_a_run_holds_its_actions_their_inner_ones_and_its_saves(traced):
    traced.store.run(agent, "a")
    assert traced.tree() == [
        ("invoke_agent agent", None),
        ("execute_tool pay", "invoke_agent agent"),
        ("execute_tool inner", "execute_tool pay"),
        ("perdure.save", "invoke_agent agent"),
    ]
    run, paid = traced.named("invoke_agent agent"), traced.named("execute_tool pay")
    assert dict(run.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "agent",
        "gen_ai.conversation.id": "a",
        "perdure.form": "script",
        "perdure.status": "waiting",
    }
    assert paid.attributes["gen_ai.tool.name"] == "pay"
    assert (paid.attributes["perdure.effect"], paid.attributes["perdure.how"]) == ("once", "result")
    assert traced.named("perdure.save").attributes["perdure.checkpoint"] == "paid"
    assert [event.name for event in run.events] == ["perdure.asked", "perdure.waiting"]


def test_a_restore_is_in_the_run_that_it_is_for_and_answers_make_no_spans(traced):
    traced.store.run(agent, "a")
    before = len(traced.spans)
    traced.store.answer("a", "more", "1")
    traced.store.run(agent, "a")
    new = traced.spans[before:]
    assert [span.name for span in new] == ["perdure.restore", "perdure.save", "invoke_agent agent"]
    restore, _, run = new
    assert restore.parent.span_id == run.context.span_id
    assert run.start_time <= restore.start_time <= restore.end_time <= run.end_time
    assert restore.attributes["perdure.status"] == "waiting"


def test_a_span_of_the_code_itself_is_in_that_of_its_action_in_threads_and_tasks(traced):
    tracer = traced.provider.get_tracer("mine")

    def works() -> None:
        with tracer.start_as_current_span("mine"):
            pass

    async def works_async() -> None:
        with tracer.start_as_current_span("mine-async"):
            await asyncio.sleep(0)

    def in_threads(s: perdure.Session) -> None:
        with s.parallel() as p:
            p.call(works)
        s.action(works, timeout_s=30, name="timed")()

    async def in_tasks(s: perdure.AsyncSession) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(s.call(works_async))
            group.create_task(s.call(works_async))

    traced.store.run(in_threads, "a")
    traced.store.run(in_tasks, "b")
    parents = sorted(str(traced.parent_of(span)) for span in traced.spans if span.name.startswith("mine"))
    assert [name.rpartition(".")[2] for name in parents] == [
        *["execute_tool timed"],
        *["execute_tool works"],
        *["execute_tool works_async"] * 2,
    ]
    tools = [span for span in traced.spans if span.name.startswith("execute_tool")]
    assert all(str(traced.parent_of(span)).startswith("invoke_agent") for span in tools)


def test_what_fails_is_an_error_of_its_span_with_its_type_and_secrets_masked(traced):
    def fails() -> None:
        raise ValueError(f"the token is {TOKEN}")

    traced.store.run(lambda s: s.call(fails), "a")
    failed = [span for span in traced.spans if not span.status.is_ok and span.status.description]
    assert [span.attributes["error.type"] for span in failed] == ["ValueError", "ValueError"]
    assert TOKEN not in str([(span.status.description, span.attributes, span.events) for span in traced.spans])


def test_no_argument_result_or_state_is_in_any_span(traced):
    def says(text: str) -> str:
        return f"canary-{text}"

    def run(s: perdure.Session) -> str:
        s.state["canary"] = s.call(says, "canary")
        s.save()
        return "canary"

    traced.store.run(run, "a", input="canary")
    assert "canary" not in "".join(span.to_json() for span in traced.spans)


def test_an_interrupt_ends_every_span(traced):
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        traced.store.run(lambda s: s.call(interrupted), "a")
    assert [span.name.split()[0] for span in traced.spans] == ["execute_tool", "invoke_agent"]
    assert traced.spans[0].attributes["perdure.how"] == "left"
    assert traced.spans[1].attributes["error.type"] == "KeyboardInterrupt"


def test_retries_streams_and_rollbacks_are_seen(traced):
    fails = [True]

    def flaky() -> None:
        if fails.pop() if fails else False:
            raise OSError("no")

    def words():
        yield "a"

    def run(s: perdure.Session) -> None:
        s.checkpoint("start")
        s.action(flaky, effect="repeatable", retries=1, backoff_s=0.0, name="flaky")()
        list(s.stream(words))
        if s.strategy is None:
            s.rollback("start", reason="again", strategy="other")

    traced.store.run(run, "a")
    attempts = [span.attributes["perdure.attempt"] for span in traced.spans if span.name == "execute_tool flaky"]
    assert attempts[:2] == [1, 2]
    (run_span,) = [span for span in traced.spans if span.name == "invoke_agent script" or "invoke_agent" in span.name]
    assert "perdure.rolled_back" in [event.name for event in run_span.events]
    assert any(span.name.startswith("execute_tool") and "words" in span.name for span in traced.spans)


def test_the_runs_of_children_are_in_that_of_their_parent(traced):
    def child(s: perdure.Session) -> int:
        return s.call(inner, 1)

    @perdure.agent
    def parent(s: perdure.Session) -> int:
        return s.spawn(child, key="kid").result()

    traced.store.run(parent, "a")
    runs = {span.attributes["gen_ai.conversation.id"]: span for span in traced.spans if "invoke_agent" in span.name}
    assert runs["a/kid"].parent.span_id == runs["a"].context.span_id


def test_a_model_client_is_a_chat_and_no_tool(traced):
    def create() -> str:
        return "hello"

    create.__module__ = "openai.resources.chat.completions"
    traced.store.run(lambda s: s.call(create), "a")
    (span,) = [span for span in traced.spans if span.name.startswith("chat")]
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert "gen_ai.tool.name" not in span.attributes


class Failing(Passing):
    error: Exception | None = None

    def append(self, *args, **kwargs):
        if self.error is not None:
            raise self.error
        return super().append(*args, **kwargs)


def test_failed_saves_and_failed_restores_are_seen(tmp_path):
    backend = Failing(open_store(str(tmp_path / "agents.db")))
    with AgentStore(backend) as store:
        traced = Traced(store)
        tracer = traced.provider.get_tracer("mine")
        with tracer.start_as_current_span("request"), store.session("a") as s:
            s.state["n"] = 1
            backend.error = StoreFailedError("full")
            with pytest.raises(StoreFailedError):
                s.save()
            backend.error = None
        backend.read = lambda *_a, **_k: (_ for _ in ()).throw(DamageError("damaged"))
        with pytest.raises(DamageError):
            store.session("a")
    assert [event.name for event in traced.named("request").events] == ["perdure.commit_failed"]
    assert traced.parent_of(traced.named("perdure.save")) == "request"
    assert traced.named("perdure.restore").attributes["error.type"] == "damage"


def test_without_an_sdk_nothing_comes_of_it_and_runs_go_on(tmp_path):
    with perdure.open(str(tmp_path / "agents.db")) as store:
        stop = store.trace()
        assert store.run(agent, "a").status == "waiting"
        stop()
        assert not store.backend.observers.errors


def test_without_the_extra_it_is_named():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import perdure\n"
        "store = perdure.open('memory:')\n"
        "try: store.trace()\n"
        "except perdure.PerdureError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "spans need an extra that is not installed: pip install 'perdure[otel]'\n"
