"""The id that a session has by what a person typed."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest

from perdure.errors import SessionIdError
from perdure.stores.ids import check_session_id, id_of_words


@pytest.mark.parametrize(
    ("text", "session"),
    [
        ("Count the words of a text", "count-the-words-of-a-text"),
        ("A very long idea that goes on and on and on, for ever", "a-very-long-idea-that-goes-on-and-on-and"),
        ("x" * 60, "x" * 40),
        ("../../etc", "etc"),
        ("数える", f"team-{hashlib.sha256('数える'.encode()).hexdigest()[:8]}"),
    ],
)
def test_a_text_names_its_session(text: str, session: str) -> None:
    assert id_of_words(text, kind="team") == session == check_session_id(session)


@pytest.mark.parametrize("code", [*range(0x180), 0x2028, 0x2029, 0xD83D, 0x1F600])
def test_a_character_is_refused_for_what_it_is(code: int) -> None:
    session = f"a{chr(code)}b"
    category = unicodedata.category(chr(code))
    if category in ("Cc", "Cs", "Zl", "Zp"):
        with pytest.raises(SessionIdError, match="character 1 is"):
            check_session_id(session)
    else:
        assert check_session_id(session) == session


@pytest.mark.parametrize("session", ["", " a", "a ", ".", "...", "x" * 201, "e\u0301"])
def test_an_id_that_could_be_taken_for_another_is_refused(session: str) -> None:
    with pytest.raises(SessionIdError):
        check_session_id(session)
