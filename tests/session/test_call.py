"""What a call is recognised by, and how a function's declaration is found."""

from __future__ import annotations

import functools
import inspect

import pytest

import perdure
from perdure.errors import RefusedError, UnstorableError
from perdure.session.face import is_generator
from perdure.session.rules import call as calls
from perdure.session.rules.call import IdempotencyKey, Options
from perdure.session.trying import is_coroutine


def pay(amount: int, to: str = "ann", *, memo: str = "") -> str:
    return f"{amount} to {to} {memo}"


class Client:
    def ask(self, text: str) -> str:
        return text


def made(fn, *args, options=None, **kwargs):
    return calls.make(fn, args, kwargs, options or calls.options_of(fn))


def test_positional_and_named_arguments_are_the_same_call():
    assert made(pay, 3, "bob").fingerprint == made(pay, to="bob", amount=3).fingerprint


@pytest.mark.parametrize("other", [True, 3.0, "3", [3], (3,)])
def test_arguments_that_only_look_equal_are_other_calls(other):
    assert made(pay, 3).fingerprint != made(pay, other).fingerprint


def test_a_partial_is_the_call_that_it_stands_for():
    call = made(functools.partial(pay, to="bob"), 3)
    assert call.name == "pay"


def test_the_name_is_free_of_the_scopes_around_it():
    def inner() -> None: ...

    assert made(inner).name == "inner"
    assert made(Client().ask, "x").name == "Client.ask"


def test_what_cannot_be_encoded_counts_by_its_type():
    def use(client, n):
        return n

    assert made(use, Client(), 1).fingerprint == made(use, Client(), 1).fingerprint
    assert made(use, Client(), 1).fingerprint != made(use, object(), 1).fingerprint
    assert made(use, Client(), 1).fingerprint != made(use, Client(), 2).fingerprint


def test_ignored_arguments_do_not_count():
    options = Options(ignore=("memo",))
    assert made(pay, 3, memo="a", options=options).fingerprint == made(pay, 3, memo="b", options=options).fingerprint


@pytest.mark.parametrize("key", [None, IdempotencyKey("k")])
def test_the_idempotency_key_is_no_part_of_the_call(key):
    def send(text: str, idempotency_key: perdure.IdempotencyKey | None = None) -> None: ...

    assert made(send, "x", idempotency_key=key).named == {"text": "x"}
    assert calls.shape_of(send).key_parameter == "idempotency_key"


def test_a_key_that_cannot_be_stored_is_refused_with_the_name():
    with pytest.raises(UnstorableError, match="key of pay"):
        made(pay, 3, options=Options(key=lambda *_, **__: object()))


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(RefusedError, match="repeatable, idempotent, once"):
        perdure.action(effect="twice")
    with pytest.raises(RefusedError, match="after_rollback"):
        perdure.action(after_rollback="never")


def test_the_undo_must_be_found_again_by_name():
    def make_undo(n):
        def undo(_):
            return n

        return undo

    with pytest.raises(RefusedError, match="found again by its name"):
        perdure.action(undo=make_undo(1))


@pytest.mark.parametrize(
    ("module", "effect"),
    [
        ("openai.resources.chat.completions.completions", "repeatable"),
        ("anthropic.resources.messages.messages", "repeatable"),
        ("openai.resources.files", None),
        ("openai.resources.chatter", None),
        ("acme.tools", None),
    ],
)
def test_model_clients_are_recognised_by_their_module(module, effect):
    def create(**_):
        return None

    create.__module__ = module
    assert calls.options_of(create).effect == effect


def test_a_long_argument_is_recorded_by_its_digest_and_the_fingerprint_stays_exact():
    long = "x" * 100_000
    shown = calls.shown({"text": long, "n": 1})
    assert shown["text"]["length"] > 100_000
    assert isinstance(shown["n"], bytes)
    assert made(pay, long).fingerprint != made(pay, long + "x").fingerprint
    assert len(calls.call_text("pay", shown)) < 500


def test_the_first_difference_is_named():
    assert calls.first_difference(calls.shown({"a": 1, "b": 2}), {"a": 1, "b": 3}) == "b"
    assert calls.first_difference(calls.shown({"a": 1}), {"a": 1}) is None


async def awaited() -> None: ...


def gives():
    yield 1


async def gives_awaited():
    yield 1


class Awaited:
    async def __call__(self) -> None: ...


async def noted() -> None: ...


noted.note = "as a decorator may leave a function: with something of its own on it"


def later():
    return awaited()


KINDS = {
    "plain": (pay, False, False),
    "lambda": (lambda: 1, False, False),
    "coroutine": (awaited, True, False),
    "generator": (gives, False, True),
    "async generator": (gives_awaited, False, True),
    "declared": (perdure.action()(pay), False, False),
    "declared coroutine": (perdure.action()(awaited), True, False),
    "declared generator": (perdure.action()(gives), False, True),
    "method": (Client().ask, False, False),
    "awaited object": (Awaited(), True, False),
    "partial": (functools.partial(awaited), True, False),
    "partial generator": (functools.partial(gives), False, True),
    "with a note": (noted, True, False),
    "built in": (len, False, False),
}
if hasattr(inspect, "markcoroutinefunction"):  # from Python 3.12 on
    KINDS["marked"] = (inspect.markcoroutinefunction(later), True, False)


@pytest.mark.parametrize("kind", KINDS)
def test_what_calling_it_gives_is_told_by_the_function(kind):
    fn, is_awaited, is_read = KINDS[kind]
    assert (is_coroutine(fn), is_generator(fn)) == (is_awaited, is_read)
