"""What a stream hands to the code, what is recorded of it, and what becomes of it wherever it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure import limits
from perdure.errors import DivergedError, RefusedError, UnstorableError
from perdure.log.action import Actions
from perdure.runtime.store import AgentStore

RUN: list[Any] = []
"""What was done for real."""


@perdure.action(effect="repeatable", combine="".join)
def speak(text: str) -> Iterator[str]:
    RUN.append(f"speak {text}")
    try:
        for letter in text:
            RUN.append(letter)
            yield letter
    finally:
        RUN.append("closed")


@perdure.action(effect="once")
def pour(cups: int) -> Iterator[int]:
    RUN.append("pour")
    yield from range(cups)


@perdure.action(effect="repeatable")
def note(text: str) -> str:
    RUN.append(f"note {text}")
    return text


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def store() -> Iterator[AgentStore]:
    RUN.clear()
    with perdure.open("memory:") as found:
        yield found


def finished(store: AgentStore, name: str, session: str = "s") -> list[dict[str, Any]]:
    """The ends of the actions of this name."""
    entries = list(store.log(session))
    started = {e.seq for e in entries if e.kind == "action_started" and e["of"] is None and e["name"] == name}
    return [dict(e.body) for e in entries if e.kind == "action_finished" and e["started"] in started]


def run(store: AgentStore, fn: Any, session: str = "s") -> Any:
    """The result; run again, it comes from the log; replayed, all is the same."""
    result = store.run(fn, session).result
    live = list(RUN)
    assert store.replay(session, fn).same
    assert live == RUN
    return result


def crashes(store: AgentStore, fn: Any) -> None:
    with pytest.raises(Crash):
        store.run(fn, "s")


# --- chunks ----------------------------------------------------------------------------------------------------------


def test_chunks_pass_through_as_they_come(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> str:
        reply = s.stream(speak, "abc")
        assert RUN == []
        seen.extend((letter, list(RUN[1:])) for letter in reply)
        return reply.result()

    seen: list[Any] = []
    assert store.run(agent, "s").result == "abc"
    assert seen == [("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"])]
    (end,) = finished(store, "speak")
    assert (end["how"], end["stream"]["cut_us"]) == ("result", None)


def test_a_declared_generator_called_by_its_name_is_a_stream(store: AgentStore) -> None:
    assert list(speak("ab")) == ["a", "b"]
    RUN.clear()
    assert run(store, lambda s: [*speak("ab"), len(list(s.stream(pour, 2)))]) == ["a", "b", 2]


def test_what_a_generator_returns_is_the_whole(store: AgentStore) -> None:
    def counts() -> Any:
        yield "x"
        return {"tokens": 1}

    def agent(s: perdure.Session) -> Any:
        def through() -> Any:
            return (yield from s.stream(perdure.action(effect="repeatable")(counts)))

        reading, reply = through(), s.stream(counts)
        assert next(reading) == "x"
        with pytest.raises(StopIteration) as ended:
            next(reading)
        return [ended.value.value, reply.result(), list(reply)]

    assert run(store, agent) == [{"tokens": 1}, {"tokens": 1}, []]


def test_any_function_that_returns_something_to_iterate_over(store: AgentStore) -> None:
    class Client:
        def create(self, n: int) -> Any:
            return iter([{"delta": i} for i in range(n)])

    def agent(s: perdure.Session) -> Any:
        reply = s.stream(perdure.action(effect="repeatable", combine=len)(Client().create), 3)
        return [[chunk["delta"] for chunk in reply], reply.result()]

    assert run(store, agent) == [[0, 1, 2], 3]


def test_the_code_has_copies_of_chunks(store: AgentStore) -> None:
    def lists() -> Iterator[list[int]]:
        mine = [1]
        yield mine
        RUN.append(mine)

    def agent(s: perdure.Session) -> Any:
        reply = s.stream(lists)
        for chunk in reply:
            chunk.append(2)
        return reply.result()

    assert store.run(agent, "s").result == [[1]]
    assert RUN == [[1]]


def test_a_chunk_that_cannot_be_stored_ends_the_stream_behind_the_others(store: AgentStore) -> None:
    def gives() -> Iterator[Any]:
        yield 1
        yield object()

    def agent(s: perdure.Session) -> Any:
        seen = []
        try:
            seen.extend(s.stream(gives))
        except UnstorableError as error:
            seen.append(str(error))
        return seen

    first, told = run(store, agent)
    assert first == 1
    assert told.startswith("chunk 1 of ")


def test_a_stream_is_bounded(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "x" * 100

    monkeypatch.setattr(limits, "STREAM_BYTES_MAX", 1000)

    def agent(s: perdure.Session) -> Any:
        next(s.stream(endless))
        s.save()
        return len(finished(store, endless.__qualname__.rsplit("<locals>.")[-1]))

    assert store.run(agent, "s").result == 1
    assert finished(store, "endless")[0]["how"] == "unstorable"


# --- other things in the middle --------------------------------------------------------------------------------------


def test_before_anything_else_the_rest_is_read_and_recorded(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        seen = []
        for letter in s.stream(speak, "abc"):
            seen.append(letter)
            if letter == "a":
                note("in the middle")
        return seen

    assert run(store, agent) == ["a", "b", "c"]
    assert RUN == ["speak abc", "a", "b", "c", "closed", "note in the middle"]


@pytest.mark.parametrize("what", ["call", "save", "checkpoint", "ask", "block", "stream", "spawn"])
def test_everything_that_is_recorded_waits_for_the_rest(store: AgentStore, what: str) -> None:
    def agent(s: perdure.Session) -> None:
        next(s.stream(speak, "abc"))
        match what:
            case "call":
                s.call(note, "x")
            case "save":
                s.save()
            case "checkpoint":
                s.checkpoint("x")
            case "ask":
                s.ask("x?", key="x")
            case "block":
                with s.parallel() as p:
                    p.call(note, "x")
            case "stream":
                next(s.stream(pour, 1))
            case "spawn":
                s.spawn(len, key="x", input="abc")

    store.run(agent, "s")
    kinds = [e.kind for e in store.log("s")][2:5]
    assert kinds[:2] == ["action_started", "action_finished"]


def test_a_value_is_drawn_without_reading_on(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        return [next(s.stream(speak, "ab")), s.random()]

    run(store, agent)
    assert RUN == ["speak ab", "a", "closed"]


def test_calls_of_the_generator_are_its_own(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        def thinks() -> Iterator[str]:
            yield note("a")
            yield note("b")

        return list(s.stream(thinks))

    assert run(store, agent) == ["a", "b"]
    actions = Actions(store.log("s"))
    (stream,) = [a for a in actions.values() if a.parent is None]
    assert [a.parent for a in actions.values() if a is not stream] == [stream.seq, stream.seq]


# --- left ------------------------------------------------------------------------------------------------------------


def fail(letter: str) -> None:
    raise ValueError(letter)


def leaves(s: perdure.Session, how: str) -> Any:
    reply = s.stream(speak, "abc")
    if how == "with":
        with reply as opened:
            next(opened)
    elif how == "close":
        next(reply)
        reply.close()
    elif how == "error":
        try:
            for letter in reply:
                fail(letter)
        except ValueError:
            s.save()
    else:
        for _ in reply:
            break
        s.save()
    return reply.result()


@pytest.mark.parametrize("how", ["with", "close", "break", "error"])
def test_what_was_read_is_the_outcome_of_one_that_was_left(store: AgentStore, how: str) -> None:
    assert run(store, lambda s: leaves(s, how)) == "a"
    assert RUN == ["speak abc", "a", "closed"]
    (end,) = finished(store, "speak")
    assert end["stream"]["cut_us"] >= 0


def test_the_return_leaves_what_is_being_read(store: AgentStore) -> None:
    assert run(store, lambda s: next(s.stream(speak, "abc"))) == "a"
    assert RUN == ["speak abc", "a", "closed"]
    assert list(store.snapshots("s"))


def test_one_that_was_left_cannot_be_read_on(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> str:
        reply = s.stream(speak, "abc")
        for _ in reply:
            break
        with pytest.raises(RefusedError, match="was left"):
            next(reply)
        reply.close()
        return reply.result()

    assert run(store, agent) == "a"


def test_code_that_reads_on_where_it_had_left_diverges(store: AgentStore) -> None:
    stops = [True]

    def agent(s: perdure.Session) -> None:
        for _ in s.stream(speak, "abc"):
            if stops[0]:
                break
        s.save()
        raise ValueError

    assert store.run(agent, "s").status == "failed"
    stops[0] = False
    outcome = store.run(agent, "s")
    assert isinstance(outcome.error, DivergedError)
    assert "reads on in speak(text='abc')" in str(outcome.error)


def test_code_that_reads_less_goes_on(store: AgentStore) -> None:
    whole = [True]

    def agent(s: perdure.Session) -> Any:
        reply = s.stream(speak, "abc")
        for _ in reply:
            if not whole[0]:
                break
        s.call(note, "x")
        if whole[0]:
            raise ValueError
        return reply.result()

    assert store.run(agent, "s").status == "failed"
    whole[0] = False
    assert store.run(agent, "s").result == "a"
    assert RUN.count("speak abc") == 1


def test_an_error_of_closing_is_raised_by_close_each_time(store: AgentStore) -> None:
    def cleans() -> Iterator[int]:
        try:
            yield 1
        finally:
            RUN.append("cleans")
            raise OSError("unclean")

    def agent(s: perdure.Session) -> str:
        reply = s.stream(cleans)
        next(reply)
        with pytest.raises(OSError, match="unclean") as caught:
            reply.close()
        return f"{caught.value} {reply.result()}"

    assert run(store, agent) == "unclean [1]"
    assert RUN == ["cleans"]


def test_an_action_leaves_the_streams_of_its_code(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        def first() -> str:
            return next(s.stream(speak, "abc"))

        with s.parallel() as p:
            promises = [p.call(first), p.call(note, "x")]
        return [promise.result() for promise in promises]

    assert run(store, agent) == ["a", "x"]
    assert finished(store, "speak")[0]["stream"]["cut_us"] >= 0


# --- cut off ---------------------------------------------------------------------------------------------------------


def test_cut_off_it_runs_again_from_its_beginning(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> str:
        reply = s.stream(speak, "abc")
        for letter in reply:
            if letter == "b" and RUN.count("speak abc") == 1:
                raise Crash
        return reply.result()

    crashes(store, agent)
    assert finished(store, "speak") == []
    assert run(store, agent) == "abc"
    assert RUN.count("speak abc") == 2


@pytest.mark.parametrize("how", ["killed", "failed"])
def test_one_that_must_not_run_twice_asks(store: AgentStore, how: str) -> None:
    again = []

    def agent(s: perdure.Session) -> Any:
        for _ in s.stream(pour, 3):
            if not again:
                raise Crash if how == "killed" else ValueError
        return 1

    if how == "killed":
        crashes(store, agent)
    else:
        assert store.run(agent, "s").status == "failed"
    again.append(1)
    (question,) = store.run(agent, "s").questions
    store.settle("s", question.seq, "done", result=[0, 1, 2])
    assert run(store, agent) == 1
    assert RUN == ["pour"]


@pytest.mark.parametrize(("said", "chunks"), [([0, 1], [0, 1]), (None, []), ("all", ["all"])])
def test_what_a_person_settled_is_read_as_chunks(store: AgentStore, said: Any, chunks: list[Any]) -> None:
    killed = []

    def agent(s: perdure.Session) -> Any:
        seen = []
        for chunk in s.stream(pour, 2):
            if not killed:
                killed.append(1)
                raise Crash
            seen.append(chunk)
        return seen

    crashes(store, agent)
    (question,) = store.run(agent, "s").questions
    store.settle("s", question.seq, "done", result=said)
    assert run(store, agent) == chunks


def test_a_stop_is_noticed_behind_the_stream(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        for cup in s.stream(pour, 2):
            if not cup and not stopped:
                stopped.append(1)
                s.stop("enough")
        note("x")
        return 1

    stopped: list[int] = []
    assert store.run(agent, "s").status == "paused"
    assert len(finished(store, "pour")) == 1
    assert store.run(agent, "s").result == 1
    assert RUN == ["pour", "note x"]


# --- errors ----------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable", retries=2, backoff_s=0)
def stumbles(after: int) -> Iterator[int]:
    RUN.append("stumbles")
    yield from range(after)
    if RUN.count("stumbles") < 3:
        raise OSError("line broke")
    yield 9


def test_an_error_comes_behind_its_chunks(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        seen: list[Any] = []
        try:
            seen.extend(s.stream(stumbles, 2))
        except OSError as error:
            note(f"{error}")
            seen.append(str(error))
        return seen

    assert run(store, agent) == [0, 1, "line broke"]
    assert RUN == ["stumbles", "note line broke"]


def test_before_the_first_chunk_it_is_tried_again(store: AgentStore) -> None:
    assert run(store, lambda s: list(s.stream(stumbles, 0))) == [9]
    assert RUN == ["stumbles"] * 3


def test_an_error_in_the_rest_that_nobody_had_asked_for_waits_for_its_place(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> Any:
        reply = s.stream(stumbles, 1)
        first = next(reply)
        s.save()
        with pytest.raises(OSError, match="broke"):
            next(reply)
        return first

    assert run(store, agent) == 0


@pytest.mark.parametrize("effect", ["repeatable", "once"])
def test_a_stream_whose_time_is_over(store: AgentStore, effect: str) -> None:
    let_go = threading.Event()

    def slow() -> Iterator[int]:
        yield 1
        let_go.wait(30)
        yield 2

    def agent(s: perdure.Session) -> Any:
        seen = []
        try:
            seen.extend(s.stream(perdure.action(effect=effect, timeout_s=0.2)(slow)))
        except TimeoutError as error:
            seen.append(str(error))
        return seen

    outcome = store.run(agent, "s")
    let_go.set()
    if effect == "once":
        assert (outcome.status, outcome.questions[0].kind) == ("waiting", "doubt")
    else:
        assert outcome.result == [1, "slow() took longer than 0.2 s"]
        assert store.replay("s", agent).same


def test_in_time_it_is_read_in_one_thread(store: AgentStore) -> None:
    def threads() -> Iterator[Any]:
        for _ in range(3):
            yield [note("x"), threading.get_ident()]

    def agent(s: perdure.Session) -> Any:
        found = list(s.stream(perdure.action(effect="repeatable", timeout_s=30)(threads)))
        return len({thread for _, thread in found}), len(found)

    assert run(store, agent) == (1, 3)


# --- refused ---------------------------------------------------------------------------------------------------------


def test_what_is_refused(store: AgentStore) -> None:
    async def later() -> Any:
        yield 1

    def agent(s: perdure.Session) -> str:
        with pytest.raises(RefusedError, match=r"s\.stream\(speak"):
            s.call(speak, "a")
        with pytest.raises(RefusedError, match="event loop"):
            s.stream(later)
        with s.parallel() as p, pytest.raises(RefusedError, match=r"s\.stream"):
            p.call(speak, "a")
        return "ok"

    assert run(store, agent) == "ok"


def test_a_handle_reads_streams_too(store: AgentStore) -> None:
    with store.session("s") as s:
        s.state["text"] = s.stream(speak, "abc").result()
        for _ in s.stream(speak, "xyz"):
            break
        s.save()
    assert store.state_at("s") == {"text": "abc"}
    assert [end["stream"]["cut_us"] is None for end in finished(store, "speak")] == [True, False]


def test_after_a_failed_commit_the_same_stream_goes_on_from_what_was_read(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = store.session("s")
    reply = s.stream(speak, "ab")
    assert next(reply) == "a"
    commit = type(s._opened.writer).commit

    def fails(*_: Any) -> int:
        monkeypatch.setattr(type(s._opened.writer), "commit", commit)
        raise perdure.errors.StoreFailedError("full")

    monkeypatch.setattr(type(s._opened.writer), "commit", fails)
    with pytest.raises(perdure.errors.StoreFailedError):
        list(reply)
    assert list(s.stream(speak, "ab")) == ["a", "b"]
    s.close()
    assert RUN == ["speak ab", "a", "b", "closed"]
