"""Keys: where they come from, what they wrap, and what is said when one is wrong."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import KeysError, KeyWrongError
from perdure.stores.keys import Key, Keys, from_environment, keys_from, new_key

ONE, TWO = bytes(range(32)), bytes(range(32, 64))
ONE_TEXT = base64.b64encode(ONE).decode()


def test_what_a_key_wraps_it_unwraps() -> None:
    key = Key.of(ONE)
    wrapped = key.wrap(b"secret")
    assert (key.unwrap(wrapped), Key.of(ONE).unwrap(wrapped)) == (b"secret", b"secret")
    assert b"secret" not in wrapped
    assert key.wrap(b"secret") != wrapped


def test_another_key_of_the_same_name_opens_nothing() -> None:
    wrapped = Key.of(ONE, name="main").wrap(b"secret")
    with pytest.raises(KeyWrongError, match="main"):
        Key.of(TWO, name="main").unwrap(wrapped)
    with pytest.raises(KeyWrongError):
        Key.of(ONE, name="other").unwrap(wrapped)


@pytest.mark.parametrize("place", range(0, 34, 3))
def test_a_changed_byte_is_found(place: int) -> None:
    wrapped = bytearray(Key.of(ONE).wrap(b"secret"))
    wrapped[place] ^= 1
    with pytest.raises(KeyWrongError):
        Key.of(ONE).unwrap(bytes(wrapped))


@pytest.mark.parametrize("length", range(0, 28, 7))
def test_what_is_cut_is_found(length: int) -> None:
    with pytest.raises(KeyWrongError):
        Key.of(ONE).unwrap(Key.of(ONE).wrap(b"secret")[:length])


def test_an_id_follows_from_the_key_and_shows_nothing_of_it() -> None:
    assert Key.of(ONE).id == Key.of(ONE).id != Key.of(TWO).id
    assert Key.of(ONE, name="prod-2026").id == "prod-2026"
    shown = repr(Key.of(ONE)) + repr(Keys((Key.of(ONE),)))
    assert not any(part in shown for part in (ONE.hex(), ONE_TEXT[:12], repr(ONE)))


def test_keys_come_as_bytes_text_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text(ONE_TEXT + "\n")
    (tmp_path / "raw").write_bytes(ONE)
    monkeypatch.setenv("PERDURE_KEY", f"{ONE_TEXT}, file:{tmp_path / 'other'}")
    (tmp_path / "other").write_bytes(TWO)
    one, two = Key.of(ONE).id, Key.of(TWO).id
    for given in (ONE, ONE_TEXT, Key.of(ONE), f"file:{tmp_path / 'text'}", f"file://{tmp_path / 'raw'}", [ONE]):
        assert [key.id for key in keys_from(given)] == [one]
    assert [key.id for key in keys_from([TWO, "env:PERDURE_KEY"][1:])] == [one, two]
    found = from_environment()
    assert found is not None
    assert (found.first.id, found.named(two).id) == (one, two)
    monkeypatch.setenv("PERDURE_KEY", "")
    assert from_environment() is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "no key"),
        ([], "no key"),
        ("not base64!", "base64"),
        (base64.b64encode(b"short").decode(), "5 bytes"),
        (b"short", "5 bytes"),
        ("file:/nowhere/key", "/nowhere/key"),
        ("env:PERDURE_NO_SUCH", "PERDURE_NO_SUCH"),
        ([ONE, ONE_TEXT], "one id"),
    ],
)
def test_what_is_no_key_is_refused(given: object, said: str) -> None:
    with pytest.raises(KeysError, match=said):
        keys_from(given)  # type: ignore[arg-type]


def test_a_refused_key_is_not_in_the_message() -> None:
    with pytest.raises(KeysError) as refused:
        keys_from(ONE_TEXT[:-4])
    assert ONE_TEXT[:8] not in str(refused.value)


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(KeyWrongError, match=f"wanted.*{Key.of(ONE).id}|{Key.of(ONE).id}"):
        keys_from(ONE).named("wanted")


def test_a_key_may_be_held_elsewhere() -> None:
    asked = []

    def wrap(name: str, secret: bytes) -> bytes:
        asked.append(name)
        return secret[::-1]

    key = Key.held_elsewhere("kms/1", wrap=wrap, unwrap=wrap)
    assert key.unwrap(key.wrap(b"secret")) == b"secret"
    assert asked == ["kms/1", "kms/1"]


def test_a_new_key_is_one_and_another_each_time() -> None:
    assert keys_from(new_key()).first.id != keys_from(new_key()).first.id


def test_the_library_behind_it_is_loaded_with_the_first_key() -> None:
    program = "import perdure, perdure.stores.keys, sys; print('cryptography' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"
