"""One call to the outside, as the code makes it.

The function, its arguments, how it was declared, what it is recognised by.

It knows nothing of the log. How a function is declared stands on the function (`Options`), put there by
`perdure.action`.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, quick, values
from perdure.errors import RefusedError
from perdure.log.action import STRICTNESS
from perdure.session.rules import argument
from perdure.session.rules.shared import SESSION, STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perdure.state.digest import Digests


class IdempotencyKey(str):
    """A parameter of this type is handed the action's idempotency key.

    The same for each attempt at one effect, and for no other effect. It is no part of what the call is recognised by.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done:
    """What a `verify` returns when the effect happened: `result` is what the call is answered with."""

    result: Any = None


class NotDone:
    """What a `verify` returns when the effect did not happen: the action runs (again)."""


class Unknown:
    """What a `verify` returns when it cannot tell: a person is asked."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an action is declared. `docs/actions.md` tells what each option means."""

    effect: str | None = None
    key: Any = None
    verify: Callable[..., Any] | None = None
    undo: Callable[..., Any] | str | None = None
    after_rollback: str = "ask"
    not_done: tuple[type[Exception], ...] = ()
    retries: int = 0
    ignore: tuple[str, ...] = ()
    name: str | None = None
    timeout_s: float | None = None
    backoff_s: float = limits.BACKOFF_S
    scope: str = SESSION
    combine: Callable[[list[Any]], Any] | None = None
    cost: Callable[[Any], Mapping[str, float]] | None = None
    writes: bool | None = None

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise RefusedError(f"timeout_s={self.timeout_s!r}: it is a number of seconds above 0, or None for no limit")
        if self.retries < 0 or not self.backoff_s >= 0:
            raise RefusedError(f"retries={self.retries!r}, backoff_s={self.backoff_s!r}: neither can be negative")
        if self.effect is not None and self.effect not in STRICTNESS:
            raise RefusedError(f"effect={self.effect!r}: it is one of {', '.join(STRICTNESS)}")
        if self.scope not in (SESSION, STORE):
            raise RefusedError(f"scope={self.scope!r}: it is '{SESSION}' or '{STORE}'")
        if self.scope == STORE and self.key is None:
            raise RefusedError(f"scope='{STORE}' needs a key: that is what makes it one effect")
        if self.after_rollback not in ("ask", "again"):
            raise RefusedError(f"after_rollback={self.after_rollback!r}: it is 'ask' or 'again'")


@quick.dataclass(frozen=True, slots=True)
class Call:
    """One call, ready to be recognised and run. `fingerprint` is exact over name and arguments (16 bytes)."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str
    options: Options
    effect: str
    key: bytes | None
    named: dict[str, Any] = field(repr=False)
    fingerprint: bytes
    undoes: int | None = None

    @property
    def match(self) -> tuple[Any, ...]:
        """What it is recognised by: its key, else its name and arguments."""
        return (self.key,) if self.key is not None else (self.name, self.fingerprint)

    def text(self) -> str:
        """The call as a person would write it, bounded in length."""
        return f"{self.name}({', '.join(f'{key}={values.describe(value, key)}' for key, value in self.named.items())})"


DECLARED: Final = "__perdure_options__"

MODEL_CLIENTS: Final = (
    "anthropic.resources.completions",
    "anthropic.resources.messages",
    "google.genai.models",
    "litellm.main",
    "mistralai.chat",
    "ollama._client",
    "openai.resources.chat",
    "openai.resources.completions",
    "openai.resources.embeddings",
    "openai.resources.responses",
    "perdure.models.sending",
)
"""Modules whose functions ask a language model and do nothing else: running one twice does no harm."""


def options_of(fn: Any) -> Options:
    """How a function is declared: by decorator, or because it is a model client that we recognise."""
    found = getattr(fn, DECLARED, None)
    if found is None and isinstance(fn, functools.partial):
        return options_of(fn.func)
    if isinstance(found, Options):
        return found
    return _OF_A_MODEL if is_model_client(fn) else _UNDECLARED


_OF_A_MODEL: Final = Options(effect="repeatable")
_UNDECLARED: Final = Options()


def is_model_client(fn: Any) -> bool:
    """Whether it is known, by where it comes from, that it asks a model and does nothing else."""
    if isinstance(fn, functools.partial):
        return is_model_client(fn.func)
    return _is_of_a_model(str(getattr(fn, "__module__", None)))


@functools.lru_cache(maxsize=1024)
def _is_of_a_model(module: str) -> bool:
    return any(f"{module}.".startswith(f"{client}.") for client in MODEL_CLIENTS)


def name_of(fn: Any) -> str:
    """What an action is called in the log: the declared name, else the function's own without the scopes around it."""
    if isinstance(fn, functools.partial):
        return name_of(fn.func)
    text = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return str(text).rsplit("<locals>.", 1)[-1]


def undo_name(undo: Callable[..., Any] | str | None) -> str | None:
    """What finds an undo again after a crash: module and name, since two modules may each have a `cancel`."""
    if undo is None or isinstance(undo, str):
        return undo
    return f"{getattr(undo, '__module__', '')}:{name_of(undo)}"


@quick.dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a function: names in order of position, and the one that takes the idempotency key."""

    names: tuple[str, ...]
    key_parameter: str | None


_OTHER_SIGNATURE: Final = frozenset({"__wrapped__", "__signature__"})
"""Attributes of a function that is not called as its code says."""


@functools.lru_cache(maxsize=4096)
def _shape(code: Any) -> Shape:
    parameters = _parameters(code)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taking = [p.name for p in parameters if _takes_key(p.annotation)]
    return Shape(tuple(p.name for p in parameters if p.kind in positional), taking[0] if taking else None)


def _takes_key(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "") or str(annotation)
    return "IdempotencyKey" in text


def shape_of(fn: Any) -> Shape:
    """The parameters of a function. What is no plain one is remembered from one call to the next."""
    if type(fn) is FunctionType and fn.__dict__.keys().isdisjoint(_OTHER_SIGNATURE):
        code = fn.__code__
        kinds = fn.__annotations__
        taking = [name for name, kind in kinds.items() if name != "return" and _takes_key(kind)] if kinds else ()
        return Shape(code.co_varnames[: code.co_argcount], taking[0] if taking else None)
    try:
        return _shape(fn)
    except TypeError:  # not hashable: looked at each time
        return _shape.__wrapped__(fn)


def make(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    held: Digests | None = None,
) -> Call:
    """The call of a function under these options. Raises `UnstorableError` when its key cannot be stored.

    `held` knows the lists of the state, whose digests it need not make anew.
    """
    shape = shape_of(fn)
    named: dict[str, Any] = dict(zip(shape.names, args, strict=False))
    if len(args) > len(shape.names):
        named |= {str(i): value for i, value in enumerate(args[len(shape.names) :], len(shape.names))}
    named |= kwargs
    for left_out in options.ignore:
        named.pop(left_out, None)
    if shape.key_parameter is not None:
        named.pop(shape.key_parameter, None)
    name = options.name or name_of(fn)
    key = options.key(*args, **kwargs) if callable(options.key) else options.key
    return Call(
        fn=fn,
        args=args,
        kwargs=kwargs,
        name=name,
        options=options,
        effect=options.effect or "once",
        key=None if key is None else values.encode(key, at=f"key of {name}"),
        named=named,
        fingerprint=argument.fingerprint(name, named, held),
    )


def with_given(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], given: Mapping[str, bytes]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the function is called with, with these arguments (encoded, by name) in the place of its own."""
    names = [*shape_of(fn).names[: len(args)], *map(str, range(len(shape_of(fn).names), len(args)))]
    other = {name: values.decode(data) for name, data in given.items()}
    told = tuple(other.pop(name, value) for name, value in zip(names, args, strict=True))
    return told, {**kwargs, **other}


def placed(fn: Callable[..., Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How a function is called with arguments by name: in their places where it takes them no other way.

    Those that a call gave behind all parameters have their places for names.
    """
    kwargs = dict(named)
    behind = [kwargs.pop(name) for name in named if name.isdigit()]
    args = []
    for parameter in _parameters(fn):
        in_place = parameter.kind is parameter.POSITIONAL_ONLY or (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and behind
        )
        if not in_place or parameter.name not in kwargs:
            break
        args.append(kwargs.pop(parameter.name))
    return (*args, *behind), kwargs


def takes(fn: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(each.name == name and each.kind not in variable for each in _parameters(fn))


def _parameters(fn: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return ()


def with_options(options: Options, changes: Mapping[str, Any]) -> Options:
    """The options with some changed, as `session.action(fn, …)` does it."""
    if options is _UNDECLARED and all(type(value) is str for value in changes.values()):
        return _undeclared_with(tuple(changes.items()))
    return replace(options, **changes) if changes else options


@functools.lru_cache(maxsize=1024)
def _undeclared_with(changes: tuple[tuple[str, str], ...]) -> Options:
    return replace(_UNDECLARED, **dict(changes))  # type: ignore[arg-type]


def changed(call: Call, held: Digests | None = None) -> bool:
    """Whether the arguments are not any more what they were when the call was made."""
    if all(values.is_immutable(type(value)) for value in call.named.values()):
        return False
    return argument.fingerprint(call.name, call.named, held) != call.fingerprint


def shown(named: dict[str, Any], held: Digests | None = None, *, of: int = 0, whole: bool = False) -> dict[str, Any]:
    """The arguments as they are recorded (see `argument.recorded`)."""
    return {name: argument.recorded(value, held, of=of, whole=whole) for name, value in named.items()}


def screened(call: Call, shown: dict[str, Any], guard: values.Guard, *, whole: bool) -> dict[str, Any]:
    """The arguments as they may be recorded; the function gets them as they are.

    Raises `SecretFoundError`, nothing having happened; also where they must be had again as they were (`whole`).
    """
    if not guard.looks:
        return shown
    if call.key is not None:
        values.REFUSE.passed(call.key, at=f"key of {call.name}")
    chosen = values.REFUSE if whole else guard
    return {name: argument.screened(name, each, chosen, of=call.name) for name, each in shown.items()}


def call_text(name: str, args: dict[str, Any]) -> str:
    """A recorded or live call as a person would write it: `pay(amount=3)`."""
    return f"{name}({', '.join(f'{key}={argument.text(value, key)}' for key, value in args.items())})"


def differences(recorded: dict[str, Any], live: dict[str, Any]) -> list[str]:
    """The names of the arguments that differ between a recorded call and a live one, in order."""
    now = shown(live)
    names = [*recorded, *(name for name in now if name not in recorded)]
    return [name for name in names if not argument.same(recorded.get(name), now.get(name))]


def first_difference(recorded: dict[str, Any], live: dict[str, Any]) -> str | None:
    """The first of them."""
    return next(iter(differences(recorded, live)), None)
