"""Handles across cells: each cell has a context of its own, no block is around them, and things show themselves."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import ClosedError, HeldError, NoSessionError, RefusedError
from perdure.runtime.store import AgentStore
from perdure.session.table import ROWS_MAX, Table
from perdure.stores.contract import Point


class Notebook:
    """Runs cells as a notebook does: in one namespace, each in a context of its own."""

    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = {"perdure": perdure, **names}

    def run(self, cell: str) -> Any:
        """The value of the cell's last line."""
        *lines, last = cell.strip().splitlines()
        contextvars.copy_context().run(exec, "\n".join(lines), self.names)
        return contextvars.copy_context().run(eval, last, self.names)


RUN: list[str] = []


@perdure.action(effect="once")
def send(text: str) -> str:
    RUN.append(text)
    return f"sent {text}"


@pytest.fixture
def store() -> Iterator[AgentStore]:
    RUN.clear()
    with perdure.open("memory:") as found:
        yield found


@pytest.fixture
def notebook(store: AgentStore) -> Notebook:
    return Notebook(store=store, send=send)


# --- handles ---------------------------------------------------------------------------------------------------------


def test_a_handle_goes_on_from_cell_to_cell(notebook: Notebook, store: AgentStore) -> None:
    notebook.run("s = store.session('nb').start()\ns.state.update(notes=[])")
    assert notebook.run("send('a')") == "sent a"
    notebook.run("s.state['notes'].append(s.call(str.upper, 'b'))\ns.save(reason='first')")
    assert notebook.run("list(store.session('nb', wait_s=0) for _ in ())") == []
    with pytest.raises(HeldError):
        store.session("nb")
    notebook.run("s.close()")
    assert next(a.call for a in store.detail("nb").actions) == "send(text='a')"
    assert notebook.run("store.state_at('nb')") == {"notes": ["B"]}
    with pytest.raises(ClosedError):
        notebook.run("s.save()")
    assert notebook.run("send('outside')") == "sent outside"


def test_an_error_in_a_cell_ends_nothing(notebook: Notebook) -> None:
    notebook.run("s = store.session('nb').start()\n0")
    with pytest.raises(ZeroDivisionError):
        notebook.run("s.state['n'] = 1\n1 / 0")
    notebook.run("s.state['n'] += 1\n0")
    notebook.run("s.close(save=True)")
    assert notebook.run("store.state_at('nb')") == {"n": 2}
    assert notebook.run("store.info('nb').status") == "idle"


def test_one_session_is_started_at_a_time(store: AgentStore) -> None:
    first = store.session("a").start()
    second = store.session("b")
    with pytest.raises(RefusedError, match="a is started"):
        second.start()
    with second:
        send("x")
    first.close()
    third = store.session("c").start()
    third.close()
    assert len(store.detail("b").actions) == 1


def test_another_thread_does_not_find_a_started_session(store: AgentStore) -> None:
    s = store.session("a").start()
    errors: list[Exception] = []

    def elsewhere() -> None:
        try:
            send("x")
        except NoSessionError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    s.close()
    assert len(errors) == 1
    assert RUN == []


def test_an_async_handle_in_a_loop_that_runs(store: AgentStore) -> None:
    @perdure.action(effect="once")
    async def asend(text: str) -> str:
        return f"sent {text}"

    async def cells() -> None:
        s = (await store.aio.session("nb")).start()
        s.state["sent"] = await asyncio.create_task(asend("a"))
        await asyncio.create_task(saved(s))
        s.state["more"] = 1
        assert "sent" in s._repr_html_()
        await s.close(save=True)

    async def saved(s: perdure.AsyncSession) -> None:
        await s.save()

    asyncio.run(cells())
    assert store.state_at("nb") == {"sent": "sent a", "more": 1}


def test_a_forgotten_handle_gives_its_session_back(store: AgentStore, caplog: pytest.LogCaptureFixture) -> None:
    s = store.session("nb")
    s.state["n"] = 1
    s.save()
    with caplog.at_level(logging.WARNING):
        del s
        gc.collect()
    assert "nb was not closed" in caplog.text
    with store.session("nb") as again:
        assert again.state["n"] == 1


def test_a_forgotten_handle_is_given_back_to_others(tmp_path: Any) -> None:
    path = str(tmp_path / "agents.db")
    with perdure.open(path, lease_s=0.2) as one, perdure.open(path) as other:
        one.session("nb")
        gc.collect()
        end = time.monotonic() + 30
        while other.backend.lease("nb").owner:
            assert time.monotonic() < end
        other.session("nb").close()


# --- tables ----------------------------------------------------------------------------------------------------------


def test_lists_are_lists_and_show_themselves(store: AgentStore) -> None:
    with store.session("nb") as s:
        s.state["text"] = "<b>"
        s.checkpoint("<start>")
    points = store.snapshots("nb")
    assert isinstance(points, list)
    assert points == list(points)
    assert ">name</th>" in points._repr_html_()
    assert "&lt;start&gt;" in points._repr_html_()
    assert repr(points).splitlines()[0].split() == ["seq", "name", "time", "kind"]
    assert "idle" in repr(store.sessions())
    assert ">is present</th>" in store.branches("nb")._repr_html_()
    assert "is present" in repr(store.branches("nb"))
    assert repr(store.sessions(status="failed")) == "(none)"


def test_numbers_stand_below_one_another_and_tables_have_their_names(store: AgentStore) -> None:
    s = store.session("nb")
    s.state["n"], s.state["text"] = 1, "words"
    s.checkpoint("start")
    shown = s._repr_html_()
    head, cell = '<th style="text-align:{};', '<td style="text-align:{};'
    assert head.format("right") in shown.partition("snapshots")[2]
    assert cell.format("right") not in shown.partition("snapshots")[0], "a column of words has a number in it"
    assert [shown.count(f">{name}</caption>") for name in ("state", "snapshots", "pending")] == [1, 1, 0]
    s.close()


def test_long_tables_show_their_ends() -> None:
    table = Table([Point(n, 0, 0, None, 0) for n in range(1, 200)])
    assert len(repr(table).splitlines()) == ROWS_MAX + 2
    assert "199" in repr(table)
    assert len(table) == 199


def test_a_session_and_a_store_show_themselves(store: AgentStore) -> None:
    s = store.session("nb")
    s.state["text"] = "<b>"
    s.checkpoint("start")
    shown = s._repr_html_()
    assert "&#x27;&lt;b&gt;&#x27;" in shown
    assert "start" in shown
    assert "nb" in store._repr_html_()
    assert "memory:" in repr(store)
    s.close()
    assert "closed" in s._repr_html_()
