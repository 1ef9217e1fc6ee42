"""The id that a session has by what a person typed."""

from __future__ import annotations

import hashlib

import pytest

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
