"""A Secret is its reference: nothing shows, copies or stores the value, and it is fetched when it is revealed."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from pathlib import Path

import pydantic
import pytest

import perdure
from perdure import values
from perdure.errors import DamageError, SecretMissingError, UnstorableError
from perdure.values.tokens import known

CANARY = "canary-7f3d9a51c2"
NAME = "PERDURE_TEST_CANARY"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> perdure.Secret:
    monkeypatch.setenv(NAME, CANARY)
    return perdure.Secret(f"secret://env/{NAME}")


def test_it_is_fetched_when_it_is_revealed(held: perdure.Secret, monkeypatch: pytest.MonkeyPatch) -> None:
    assert held.reveal() == CANARY
    monkeypatch.setenv(NAME, "another-one-since")
    assert held.reveal() == "another-one-since"


def test_a_file_gives_its_text_without_the_end_of_the_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(CANARY + "\n")
    assert perdure.Secret(f"secret://file/{tmp_path}/key").reveal() == CANARY


def test_a_provider_is_asked_with_what_follows_its_name() -> None:
    asked: list[str] = []
    perdure.Secret.provider("vault", lambda name: asked.append(name) or CANARY)
    assert perdure.Secret("secret://vault/team/agent?version=2").reveal() == CANARY
    assert asked == ["team/agent?version=2"]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("secret://env/PERDURE_NOT_SET", ["PERDURE_NOT_SET", "environment"]),
        ("secret://file//nowhere/key", ["/nowhere/key", "file"]),
        ("secret://nobody/key", ["nobody", "Secret.provider"]),
    ],
)
def test_one_that_is_not_supplied_says_what_was_looked_for_and_where(reference: str, said: list[str]) -> None:
    with pytest.raises(SecretMissingError) as raised:
        perdure.Secret(reference).reveal()
    assert all(word in str(raised.value) for word in [reference, *said])


@pytest.mark.parametrize("reference", [f"secret://env/{NAME}", None])
def test_nothing_shows_the_value(reference: str | None, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError(secret, f"{secret} {secret!r} {secret:>50}")

    secret = perdure.Secret(reference, value=CANARY)
    logging.getLogger("test").warning("%s %r", secret, secret)
    try:
        fail()
    except ValueError as error:
        shown = "".join(traceback.format_exception(error)) + repr(error)
    shown += caplog.text + str([secret]) + values.describe(secret) + values.describe({"k": secret})
    assert CANARY not in shown
    if reference:
        assert CANARY.encode() not in pickle.dumps(secret)
        assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301 - our own bytes
    else:
        with pytest.raises(TypeError, match="reference"):
            pickle.dumps(secret)
    assert copy.deepcopy([secret])[0] is secret


@pytest.mark.parametrize("codec", values.PROTOCOLS)
def test_what_is_stored_is_the_reference(codec: str, held: perdure.Secret) -> None:
    held.reveal()
    data = values.encode({"key": held, "with": perdure.Secret("secret://file/x", value=CANARY)}, codec=codec)
    assert CANARY.encode() not in data
    loaded = values.decode(data, codec=codec, pickled=True)
    assert loaded == {"key": held, "with": perdure.Secret("secret://file/x")}
    assert loaded["key"].reveal() == CANARY


def test_a_bare_value_is_refused_with_its_path_and_what_to_do() -> None:
    with pytest.raises(UnstorableError, match=r"^\$\.client\[1\]: .*secret://env/NAME") as raised:
        values.encode({"client": [0, perdure.Secret(value=CANARY)]})
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("wrong", [CANARY, "secret://", "secret://env/", "secret://Env/x", "secret://env/" + "x" * 501])
def test_what_is_no_reference_is_refused_and_not_quoted(wrong: str) -> None:
    with pytest.raises(ValueError, match="value=") as raised:
        perdure.Secret(wrong)
    assert wrong not in str(raised.value) or wrong == "secret://"


def test_a_stored_one_that_is_no_reference_is_damage() -> None:
    with pytest.raises(DamageError):
        values.decode(b"\xc7\x04\x27\xa3abc")


def test_two_are_equal_by_reference_else_by_value() -> None:
    a, b = perdure.Secret("secret://env/A", value="one"), perdure.Secret("secret://env/A", value="two")
    assert (a == b, hash(a) == hash(b)) == (True, True)
    assert a != perdure.Secret("secret://env/B", value="one")
    assert perdure.Secret(value=CANARY) == perdure.Secret(value=CANARY)
    assert perdure.Secret(value=CANARY) != perdure.Secret(value="another")
    assert a != "secret://env/A"


def test_it_cannot_be_changed(held: perdure.Secret) -> None:
    with pytest.raises(AttributeError):
        held._value = "x"


def test_what_was_revealed_is_remembered(held: perdure.Secret) -> None:
    held.reveal()
    assert CANARY in known()


def test_it_is_a_field_of_a_pydantic_model(held: perdure.Secret) -> None:
    class Client(pydantic.BaseModel):
        key: perdure.Secret

    for given in (held, f"secret://env/{NAME}"):
        client = Client(key=given)
        assert client.key.reveal() == CANARY
        assert CANARY not in client.model_dump_json() + repr(client)
        assert Client.model_validate_json(client.model_dump_json()) == client
    with pytest.raises(pydantic.ValidationError):
        Client(key="x" * 20)


def test_a_table_shows_where_it_is_to_be_had() -> None:
    assert values.describe(perdure.Secret("secret://env/KEY", value="canary")) == "Secret('secret://env/KEY')"
    assert values.describe(perdure.Secret(value="canary")) == "<a Secret without a reference>"
