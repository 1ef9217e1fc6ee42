"""The tools of one agent: what a model is told of them, and how a call that it makes is carried out.

Whatever a model may get wrong is a result that says so; only what concerns the session itself is raised. How questions
are put and actions awaited is for the two faces at the end.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from pydantic_core import to_jsonable_python

from perdure import limits, values
from perdure.errors import AbandonedError, PerdureError, RecordedError, RefusedError, StorableError
from perdure.session.waiting import in_thread
from perdure.tools import result as results
from perdure.tools.described import Tool, tool
from perdure.tools.result import ToolResult
from perdure.tools.wish import Notes, Noting, Question

if TYPE_CHECKING:
    from perdure.session.async_session import AsyncSession
    from perdure.session.session import Session

F = TypeVar("F", bound=Callable[..., Any])

Approve: TypeAlias = Literal["once", "write", "never"]
"""Before which calls a person is asked: those of tools whose effect is `once`, all that change something, none."""

_ASKED: Final = {"once": ("once",), "write": ("once", "idempotent"), "never": ()}

_YES: Final = "yes"

_TOLD: Final = (RecordedError, AbandonedError, StorableError)
"""Errors of ours that are about the call; all others are about the session, and are raised."""


@dataclass(frozen=True, slots=True)
class Acting:
    """A tool that is to be called."""

    tool: Tool
    arguments: dict[str, Any]


Request: TypeAlias = Question | Noting | Acting

Steps: TypeAlias = Generator[Request, Any, ToolResult]

NOTES: Final = "notes"
"""The part of the state that notes are kept in."""


class Toolbox:
    """A set of tools, by name. Functions are added by `add` or `@toolbox.tool(…)`, other sets by `Toolbox.of`.

    `approve` says before which calls a person is asked (`once`, `write`, `never`); `passing` are errors of tools that
    are raised, not told to the model, so that a failure policy deals with them.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        approve: Approve = "never",
        passing: tuple[type[Exception], ...] = (),
    ) -> None:
        if approve not in _ASKED:
            raise RefusedError(f"approve={approve!r}: it is one of {', '.join(_ASKED)}")
        self.approve, self.passing = approve, tuple(passing)
        self._tools: dict[str, Tool] = {}
        self._notes: Notes = {}
        for each in tools:
            self._put(each)

    @classmethod
    def of(
        cls,
        *sets: Toolbox | Tool | Callable[..., Any],
        approve: Approve = "never",
        passing: tuple[type[Exception], ...] = (),
    ) -> Toolbox:
        """The tools of all these, in order. Raises `RefusedError` where two have one name."""
        made = cls(approve=approve, passing=passing)
        for each in sets:
            for one in each if isinstance(each, Toolbox) else (each,):
                made._put(one if isinstance(one, Tool) else tool(one))
        return made

    def add(self, fn: Callable[..., Any] | Tool, **options: Any) -> Tool:
        """Adds a function as a tool; `options` as for `tool`. The tool that it became."""
        if isinstance(fn, Tool):
            return self._put(replace(fn, **options) if options else fn)
        return self._put(tool(fn, **options))

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(self, fn: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, fn: Any = None, /, **options: Any) -> Any:
        """Adds a function as a tool, as a decorator. The name then stands for the declared action."""

        def put(function: Any) -> Any:
            return self.add(function, **options).fn

        return put if fn is None else put(fn)

    def _put(self, one: Tool) -> Tool:
        if one.name in self._tools:
            raise RefusedError(f"there are two tools of the name {one.name}: give one of them another with name=")
        self._tools[one.name] = one
        return one

    def only(self, *names: str) -> Toolbox:
        """A set with these of its tools. Raises `RefusedError` for a name that is none."""
        return Toolbox((self[name] for name in names), approve=self.approve, passing=self.passing)

    def __getitem__(self, name: str) -> Tool:
        if name not in self._tools:
            raise RefusedError(f"there is no tool {name!r}; there are: {', '.join(self._tools)}")
        return self._tools[name]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    # --- what a model is told -----------------------------------------------------------------------------------------

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as OpenAI's chat completions have them."""
        return [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": dict(one.schema)},
            }
            for one in self
        ]

    def definitions(self) -> list[Any]:
        """The tools as `pydantic_ai.tools.ToolDefinition`. Needs the extra `agents`."""
        from pydantic_ai.tools import ToolDefinition

        return [
            ToolDefinition(name=one.name, description=one.description, parameters_json_schema=dict(one.schema))
            for one in self
        ]

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self, s: AsyncSession | None, name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> ToolResult:
        """Carries out a call that a model makes: in a session as a journaled action of the tool's name.

        `arguments` is a mapping, or JSON. Called from the agent's own code, outside of actions: a person may be asked
        first. What the model got wrong, and errors of the tool, are results. Raises the errors of `passing`, and
        those that concern the session. `s` None: nothing is recorded, and nobody can be asked.
        """
        steps = self._steps(name, arguments, s)
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                request = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            answer, error = None, None
            try:
                answer = await _awaited(s, request)
            except Exception as raised:  # noqa: BLE001 - what is told and what is raised is decided in one place
                error = raised

    def call_sync(self, s: Session | None, name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolResult:
        """As `call`, for a session of threads. Raises `RefusedError` for a tool that is a coroutine function."""
        steps = self._steps(name, arguments, s)
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                request = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            answer, error = None, None
            try:
                answer = _done(s, request)
            except Exception as raised:  # noqa: BLE001 - as above
                error = raised

    async def call_all(
        self, s: AsyncSession, calls: Sequence[tuple[str, Mapping[str, Any] | str | None]]
    ) -> list[ToolResult]:
        """Carries out the calls (name, arguments) of one reply of a model; the results, in their order.

        Those in a row that change nothing run at the same time, all others one after the other. Raises as `call`.
        """
        told: list[ToolResult] = []
        together: list[tuple[Steps, Acting]] = []
        for name, arguments in calls:
            one = self._tools.get(name)
            if one is not None and one.effect == "repeatable" and one.place == "action":
                steps = self._steps(name, arguments, s)
                try:
                    request = next(steps)
                except StopIteration as ended:
                    told += [*await _together(s, together), ended.value]
                    together = []
                    continue
                assert isinstance(request, Acting)  # noqa: S101 - nobody is asked about what changes nothing
                together.append((steps, request))
            else:
                told += [*await _together(s, together), await self.call(s, name, arguments)]
                together = []
        return [*told, *await _together(s, together)]

    def _steps(self, name: str, arguments: Mapping[str, Any] | str | None, s: Any) -> Steps:
        bound = limits.TOOL_OUTPUT_CHARS_MAX
        if name not in self._tools:
            return results.problem("unknown", f"there is no tool {name!r}; there are: {_names(self)}", chars_max=bound)
        one = self._tools[name]
        try:
            checked = one.checked(arguments)
        except ValueError as error:
            text = f"{name} was not called, its arguments are wrong:\n{error}"
            return results.problem("arguments", text, chars_max=one.output_chars_max)
        if one.place == "agent":
            return (yield from self._granted(one, checked, s))
        if one.effect in _ASKED[self.approve]:
            said = yield from _put_to(Question(f"May {_shown(name, checked)} be done?", (_YES, "no")), s)
            if said != _YES:
                return results.problem("refused", f"{name} was not called: a person said no", chars_max=bound)
        return (yield from self._acted(one, checked, in_session=s is not None))

    def _granted(self, one: Tool, checked: dict[str, Any], s: Any) -> Steps:
        """What a tool wishes of the agent's own code."""
        wish = one.fn(**checked)
        if isinstance(wish, Question):
            answer = yield from _put_to(wish, s)
            return results.told(answer, chars_max=one.output_chars_max, where="")
        notes = (yield wish) if s is not None else self._notes
        try:
            return results.told(wish.use(notes), chars_max=one.output_chars_max, where=one.rest)
        except ValueError as error:
            return results.problem("error", results.error_text(error), chars_max=one.output_chars_max)

    def _acted(self, one: Tool, checked: dict[str, Any], *, in_session: bool) -> Steps:
        try:
            value = yield Acting(one, checked)
        except (*self.passing, *one.passing):
            raise
        except PerdureError as error:
            if not isinstance(error, _TOLD):
                raise
            return results.problem("error", results.error_text(error), chars_max=one.output_chars_max)
        except Exception as error:  # noqa: BLE001 - that a tool fails is for the model to know
            return results.problem("error", results.error_text(error), chars_max=one.output_chars_max)
        kept = "the whole of it is in the session's log" if in_session else ""
        where = "; ".join(filter(None, (one.rest, kept)))
        return results.told(value, chars_max=one.output_chars_max, where=where)


def _put_to(question: Question, s: Any) -> Generator[Question, Any, Any]:
    if s is None:
        raise RefusedError(f"nobody can be asked outside of a session: {question.prompt}")
    return (yield question)


def _names(tools: Collection[Any] | Toolbox) -> str:
    return ", ".join(one.name for one in tools)


def _shown(name: str, arguments: dict[str, Any]) -> str:
    told = ", ".join(
        f"{key}={json.dumps(to_jsonable_python(value, fallback=repr))}" for key, value in arguments.items()
    )
    text, _ = results.bounded(f"{name}({told})", chars_max=limits.TOOL_QUESTION_CHARS_MAX, where="")
    return values.outward.text(text)


# --- the two faces ---------------------------------------------------------------------------------------------------


async def _together(s: AsyncSession, calls: list[tuple[Steps, Acting]]) -> list[ToolResult]:
    """The results of calls that run at the same time."""
    if not calls:
        return []
    async with s.parallel() as block:
        promises = [block.call(request.tool.fn, **request.arguments) for _, request in calls]
        outcomes: list[tuple[Any, Exception | None]] = []
        for promise in promises:
            try:
                outcomes.append((await promise, None))
            except Exception as raised:  # noqa: BLE001 - as in `call`
                outcomes.append((None, raised))
    return [_ended(steps, *outcome) for (steps, _), outcome in zip(calls, outcomes, strict=True)]


def _ended(steps: Steps, value: Any, error: Exception | None) -> ToolResult:
    try:
        if error is None:
            steps.send(value)
        else:
            steps.throw(error)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    raise AssertionError("a call asks for one thing")


async def _awaited(s: AsyncSession | None, request: Request) -> Any:
    if isinstance(request, Question):
        assert s is not None  # noqa: S101 - nobody is asked without a session
        return await s.ask(request.prompt, choices=None if request.choices is None else list(request.choices))
    if isinstance(request, Noting):
        assert s is not None  # noqa: S101 - else they are kept here
        if NOTES in s.state:
            await s.load(NOTES)
        return s.state.setdefault(NOTES, {})
    fn = request.tool.fn
    if s is not None:
        return await s.call(fn, **request.arguments)
    if inspect.iscoroutinefunction(fn):
        return await fn(**request.arguments)
    return await in_thread(fn, **request.arguments)


def _done(s: Session | None, request: Request) -> Any:
    if isinstance(request, Question):
        assert s is not None  # noqa: S101 - nobody is asked without a session
        return s.ask(request.prompt, choices=None if request.choices is None else list(request.choices))
    if isinstance(request, Noting):
        assert s is not None  # noqa: S101 - else they are kept here
        return s.state.setdefault(NOTES, {})
    fn = request.tool.fn
    if inspect.iscoroutinefunction(fn):
        raise RefusedError(f"{request.tool.name} is a coroutine function: call it from an async session")
    return fn(**request.arguments) if s is None else s.call(fn, **request.arguments)
