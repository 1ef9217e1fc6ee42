"""A process that is forked while a thread of it takes its first session: the child can work."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import perdure
from perdure.runtime import running
from perdure.session.keeping.lease import new_owner
from perdure.testing.lives import forked


def test_the_first_session_of_one_thread_does_not_stop_a_forked_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, inside, go_on = os.getpid(), threading.Event(), threading.Event()

    def slow() -> str:
        if os.getpid() == parent:
            inside.set()
            go_on.wait()
        return new_owner()

    def saves(session: str) -> bytes:
        with perdure.open(f"file://{tmp_path}/agents") as store, store.session(session) as s:
            s.state["n"] = 1
            s.save()
        return b"saved"

    monkeypatch.setattr(running, "new_owner", slow)
    thread = threading.Thread(target=saves, args=("parent",))
    thread.start()
    try:
        inside.wait()
        assert forked(lambda: saves("child"), life_s_max=20)[0] == b"saved"
    finally:
        go_on.set()
        thread.join()
