"""A set of tools: what a model is told of them, what a call comes to, who is asked before it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

import perdure
from perdure import errors, limits
from perdure.tools import Tool, Toolbox, notes, people, tool


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def calls(store, session="q"):
    return [entry["name"] for entry in store.log(session) if entry.kind == "action_started" and entry["of"] is None]


class Odd:
    pass


class Address(BaseModel):
    street: str
    number: int = 1


def add(a: int, b: Annotated[int, Field(description="what is added")] = 2) -> int:
    """Adds two numbers."""
    return a + b


def deliver(to: Address, *, words: list[str] | None = None) -> str:
    """Delivers."""
    return f"{to.street} {to.number} {words}"


def fail(what: str) -> None:
    """Fails."""
    raise KeyError(what)


# --- what a model is told --------------------------------------------------------------------------------------------


def test_a_function_is_told_with_its_name_words_and_schema():
    toolbox = Toolbox.of(add)
    (told,) = toolbox.schemas()
    assert told == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "a": {"type": "integer"},
                    "b": {"type": "integer", "default": 2, "description": "what is added"},
                },
                "required": ["a"],
            },
        },
    }
    (definition,) = toolbox.definitions()
    assert (definition.name, definition.parameters_json_schema) == ("add", told["function"]["parameters"])


def test_a_parameter_may_have_any_name_and_a_key_is_none_of_the_models_business():
    def odd(schema: int, model_config: str, title: str, key: perdure.IdempotencyKey | None = None) -> str:
        return f"{schema} {model_config} {title} {key}"

    made = tool(odd)
    assert set(made.schema["properties"]) == {"schema", "model_config", "title"}
    assert made(**made.checked({"schema": 1, "model_config": "x", "title": "y"})) == "1 x y None"


@pytest.mark.parametrize("fn", [lambda *many: many, lambda **named: named])
def test_a_function_that_cannot_be_described_is_refused(fn):
    with pytest.raises(errors.RefusedError, match="name its parameters"):
        tool(fn, name="many")


def test_what_cannot_be_a_tool_is_refused():
    def odd(what: Odd) -> None:
        pass

    with pytest.raises(errors.RefusedError, match="no JSON schema"):
        tool(odd)
    with pytest.raises(errors.RefusedError, match="a name has letters"):
        tool(add, name="add it")
    with pytest.raises(errors.RefusedError, match="effect='twice'"):
        tool(add, effect="twice")
    with pytest.raises(errors.RefusedError, match="two tools of the name add"):
        Toolbox.of(add, add)
    with pytest.raises(errors.RefusedError, match="approve='always'"):
        Toolbox(approve="always")  # type: ignore[arg-type]
    with pytest.raises(errors.RefusedError, match="there is no tool 'sub'; there are: add"):
        Toolbox.of(add).only("sub")


# --- what a call comes to --------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "threads", "loop"])
def call(request, store):
    """Calls one tool, outside of a session, and in one of each kind."""

    def plain(toolbox, name, arguments=None):
        return toolbox.call_sync(None, name, arguments)

    def threads(toolbox, name, arguments=None):
        found = []

        @perdure.agent
        def agent(s):
            found.append(toolbox.call_sync(s, name, arguments))

        assert store.run(agent, "q").status == "completed"
        return found[0]

    def loop(toolbox, name, arguments=None):
        found = []

        @perdure.agent
        async def agent(s):
            found.append(await toolbox.call(s, name, arguments))

        assert store.run(agent, "q").status == "completed"
        return found[0]

    return {"plain": plain, "threads": threads, "loop": loop}[request.param]


def test_a_call_comes_to_a_result(call):
    result = call(Toolbox.of(add), "add", {"a": 3})
    assert (result.text, result.value, result.ok, result.cut_chars) == ("5", 5, True, 0)


def test_arguments_may_be_json_and_are_made_into_what_the_function_takes(call):
    told = call(Toolbox.of(deliver), "deliver", '{"to": {"street": "Main"}, "words": ["a"]}').text
    assert told == "Main 1 ['a']"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a": "three"}, ["a: Input should be a valid integer"]),
        ({"a": 1, "c": 2}, ["c: Extra inputs are not permitted"]),
        ({}, ["a: Field required"]),
        ('{"a": ', ["are no JSON"]),
        ("[1]", ["have to be an object"]),
        ("[" * 100_000, ["no JSON"]),
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_called(call, arguments, words):
    result = call(Toolbox.of(add), "add", arguments)
    assert result.problem == "arguments"
    assert all(word in result.text for word in ["add was not called", *words])


def test_an_unknown_tool_is_told_with_those_that_there_are(call):
    result = call(Toolbox.of(add, deliver), "subtract", {})
    assert (result.problem, result.text) == ("unknown", "there is no tool 'subtract'; there are: add, deliver")


def test_an_error_of_a_tool_is_told(call):
    result = call(Toolbox.of(fail), "fail", {"what": "x"})
    assert (result.problem, result.text) == ("error", "KeyError: 'x'")


def test_an_error_may_be_let_through():
    with pytest.raises(KeyError):
        Toolbox.of(fail, passing=(KeyError,)).call_sync(None, "fail", {"what": "x"})
    with pytest.raises(KeyError):
        Toolbox([tool(fail, passing=(LookupError,))]).call_sync(None, "fail", {"what": "x"})


def test_a_long_result_is_bounded_and_says_what_is_left_out(call):
    toolbox = Toolbox()
    toolbox.add(lambda: "a" * 1000 + "z" * 1000, name="long", output_chars_max=400, rest="ask for less")
    result = call(toolbox, "long")
    assert result.text.startswith("a" * 300 + "\n[… 1,600 of 2,000 characters are left out here; ask for less")
    assert result.text.endswith("\n" + "z" * 100)
    assert (result.cut_chars, len(result.value)) == (1600, 2000)


def test_what_cannot_be_kept_is_told(store):
    toolbox = Toolbox()
    toolbox.add(object, name="odd")

    @perdure.agent
    def agent(s):
        s.state["told"] = toolbox.call_sync(s, "odd").problem
        return s.state["told"]

    assert store.run(agent, "q").result == "error"


def test_a_call_is_journaled_by_its_name_and_answered_on_a_replay(store):
    ran = []
    toolbox = Toolbox()

    @toolbox.tool(effect="repeatable")
    def look(where: str) -> str:
        """Looks."""
        ran.append(where)
        return f"seen {where}"

    @perdure.agent
    async def agent(s):
        first = await toolbox.call(s, "look", {"where": "here"})
        if len(ran) == 1 and s.input == "fails" and not s.restored:
            raise RuntimeError
        return first.text

    assert store.run(agent, "q", input="fails").status == "failed"
    assert store.run(agent, "q", input="fails").result == "seen here"
    assert (ran, calls(store)) == (["here"], ["look"])


def test_several_calls_of_one_reply_come_to_results_in_their_order(store):
    meeting, ran = threading.Barrier(2, timeout=60), []
    toolbox = Toolbox.of(fail)

    @toolbox.tool(effect="repeatable")
    def meet(who: str) -> str:
        meeting.wait()
        return who

    @toolbox.tool(effect="once")
    def act(what: str) -> str:
        ran.append(what)
        return what

    @toolbox.tool(effect="repeatable")
    def miss(what: str) -> str:
        raise LookupError(what)

    @perdure.agent
    async def agent(s):
        asked = [("meet", {"who": "a"}), ("meet", {"who": "b"}), ("act", {"what": "1"}), ("miss", {"what": "x"})]
        asked += [("meet", {}), ("nothing", {}), ("act", '{"what": "2"}'), ("fail", {"what": "y"})]
        results = await toolbox.call_all(s, asked)
        if s.restored is None:
            raise RuntimeError("after them")
        return [result.problem or result.text for result in results]

    assert store.run(agent, "q").status == "failed"
    assert store.run(agent, "q").result == ["a", "b", "1", "error", "arguments", "unknown", "2", "error"]
    assert ran == ["1", "2"]


def test_an_error_that_is_let_through_is_raised_of_several(store):
    toolbox = Toolbox([tool(fail, effect="repeatable")], passing=(KeyError,))

    @perdure.agent
    async def agent(s):
        await toolbox.call_all(s, [("fail", {"what": "x"}), ("fail", {"what": "y"})])

    outcome = store.run(agent, "q")
    assert (outcome.status, type(outcome.error)) == ("failed", KeyError)


def test_a_declared_tool_called_by_its_own_name_is_an_action(store):
    toolbox = Toolbox()

    @toolbox.tool
    def count(what: str) -> int:
        return len(what)

    assert count("abc") == 3

    @perdure.agent
    def agent(s):
        return count("abcd") + toolbox["count"](what="ab")

    assert store.run(agent, "q").result == 6
    assert calls(store) == ["count", "count"]


def test_options_that_a_function_was_declared_with_hold():
    @perdure.action(effect="idempotent", name="declared", retries=3)
    def fn(a: int) -> int:
        return a

    made = tool(fn)
    assert (made.name, made.effect, made.fn.__perdure_options__.retries) == ("declared", "idempotent", 3)


UNDONE: list[str] = []


def undo_note(text: str, result: str) -> None:
    UNDONE.append(f"{text} {result}")


def test_a_tool_may_have_an_undo_and_a_time_limit(store):
    over = threading.Event()
    toolbox = Toolbox()

    @toolbox.tool(undo=undo_note)
    def note(text: str) -> str:
        return f"noted {text}"

    @toolbox.tool(effect="repeatable", timeout_s=0.05)
    def sleep() -> None:
        over.wait()

    @perdure.agent
    async def agent(s):
        await s.checkpoint("start")
        if s.strategy is None:
            await toolbox.call(s, "note", {"text": "a"})
            await s.rollback("start", reason="no good", strategy="other")
        return (await toolbox.call(s, "sleep")).text

    told = store.run(agent, "q").result
    over.set()
    assert told.startswith("TimeoutError")
    assert UNDONE == ["a noted a"]


def test_an_error_of_the_session_is_raised():
    def nested() -> None:
        raise errors.DivergedError("the code changed")

    with pytest.raises(errors.DivergedError):
        Toolbox.of(nested).call_sync(None, "nested")


# --- people and notes ------------------------------------------------------------------------------------------------


PAID: list[int] = []


def pay(amount: int) -> str:
    """Pays."""
    PAID.append(amount)
    return f"paid {amount}"


def asking(toolbox, kind, name="pay", arguments=None):
    arguments = {"amount": 5} if arguments is None else arguments
    if kind == "threads":
        return perdure.agent(lambda s: toolbox.call_sync(s, name, arguments).text)

    @perdure.agent
    async def agent(s):
        return (await toolbox.call(s, name, arguments)).text

    return agent


@pytest.mark.parametrize("kind", ["threads", "loop"])
@pytest.mark.parametrize(("answer", "text", "paid"), [("yes", "paid 5", [5]), ("no", "a person said no", [])])
def test_a_person_is_asked_before_an_effect(store, kind, answer, text, paid):
    PAID.clear()
    agent = asking(Toolbox.of(pay, approve="once"), kind)
    outcome = store.run(agent, "q")
    (question,) = outcome.questions
    assert (outcome.status, question.prompt) == ("waiting", "May pay(amount=5) be done?")
    assert question.choices == ["yes", "no"]
    store.answer("q", question.seq, answer)
    assert text in store.run(agent, "q").result
    assert store.run(agent, "q").status == "completed"
    assert paid == PAID


@pytest.mark.parametrize(
    ("approve", "effect", "asked"),
    [
        ("never", "once", False),
        ("once", "once", True),
        ("once", "idempotent", False),
        ("write", "idempotent", True),
        ("write", "repeatable", False),
    ],
)
def test_who_is_asked_goes_by_the_effect(store, approve, effect, asked):
    agent = asking(Toolbox.of(tool(pay, effect=effect), approve=approve), "loop")
    assert store.run(agent, "q").status == ("waiting" if asked else "completed")


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_asking_a_person_is_a_tool(store, kind):
    agent = asking(people(), kind, "ask_person", {"question": "Which?", "choices": ["a", "b"]})
    (question,) = store.run(agent, "q").questions
    assert (question.prompt, question.choices) == ("Which?", ["a", "b"])
    store.answer("q", question.seq, "b")
    assert store.run(agent, "q").result == "b"


def test_outside_of_a_session_nobody_can_be_asked():
    with pytest.raises(errors.RefusedError, match="nobody can be asked"):
        people().call_sync(None, "ask_person", {"question": "Which?"})


def test_notes_stand_in_the_state_and_go_back_with_it(store):
    toolbox = notes()

    @perdure.agent
    async def agent(s):
        await toolbox.call(s, "write_note", {"name": "goal", "text": "find it"})
        await s.checkpoint("start")
        if s.strategy is None:
            await toolbox.call(s, "write_note", {"name": "wrong", "text": "way"})
            await s.rollback("start", reason="wrong", strategy="other")
        await toolbox.call(s, "write_note", {"name": "right", "text": "way"})
        return (await toolbox.call(s, "read_notes")).text, s.state["notes"]

    told, kept = store.run(agent, "q").result
    assert told == "goal: find it\nright: way"
    assert kept == {"goal": "find it", "right": "way"}


def test_notes_are_bounded_and_removed():
    toolbox = notes()

    def note(name: str, text: str) -> Any:
        return toolbox.call_sync(None, "write_note", {"name": name, "text": text})

    assert note("a", "x" * 5000).problem == "error"
    assert note("a", "short").ok
    assert note("a", "").text == "removed 'a'"
    assert toolbox.call_sync(None, "read_notes").text == "there are no notes"


def test_a_question_shows_a_call_within_bounds(store):
    agent = asking(Toolbox.of(tool(lambda text: text, name="say"), approve="once"), "loop", "say", {"text": "x" * 9000})
    (question,) = store.run(agent, "q").questions
    assert len(question.prompt) < limits.TOOL_QUESTION_CHARS_MAX + 200
    assert "are left out here" in question.prompt


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("httpx", "web", "tools"), ("httpx", "SearXNG", "tools"), ("mcp", "mcp_tools", "mcp")],
)
def test_an_extra_that_is_not_there_is_named(package, name, extra):
    code = f"""
import sys
sys.modules[{package!r}] = None
from perdure.errors import ToolError
import perdure.tools
assert perdure.tools.Toolbox and perdure.tools.files and perdure.tools.shell
try:
    perdure.tools.{name}
except ToolError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == f"{name} needs an extra that is not installed: pip install 'perdure[{extra}]'\n"


def test_a_tool_of_a_schema_of_its_own():
    made = Tool("own", "Own.", lambda **given: json.dumps(given), {"type": "object"}, check=dict)
    assert Toolbox([made]).call_sync(None, "own", {"x": 1}).text == '{"x": 1}'
