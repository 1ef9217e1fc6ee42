"""A session that was exported by each format version: it always imports, verifies, has its states and goes on.

`python -c "from tests.golden.test_golden_session import write; write()"` makes what is not kept yet; kept files are
never written again.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

import perdure
from perdure import values
from perdure.ops import portable
from perdure.runtime import operator
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer

VERSIONS = ["v1"]
FOLDER = Path(__file__).parent
SUBJECT = "golden/subject"
OWNER = '{"host": "golden", "pid": 1}'
MANUAL = "".join(map(str, range(1500)))
"""Large enough for a chunk of its own, which then serves as dictionary."""


@perdure.action(effect="repeatable")
def look(number: int) -> str:
    if number == 3:
        raise LookupError("nothing there")
    return f"item {number}: " + sha256(str(number).encode()).hexdigest() * 3


@perdure.action(effect="idempotent", key=lambda place: place)
def send(place: str) -> str:
    return f"sent to {place}"


@perdure.action(effect="once")
def pay(amount: int) -> int:
    return amount


# The kept sessions were made by this code: it is never changed, only added to at its end.
@perdure.agent(append_only=["notes"])
def agent(s: perdure.Session) -> list[str]:
    """Calls of each class, an error, values, saves, a rollback, keyframes, a question."""
    notes = s.state["notes"] = []
    s.state["step"], s.state["manual"] = 0, MANUAL
    s.state["drawn"] = (s.now(), s.uuid(), s.random())
    s.checkpoint("start")
    first = 0 if s.strategy is None else 10
    for number in range(first, first + 6):
        try:
            notes.append(s.call(look, number))
        except LookupError as error:
            notes.append(repr(error))
        s.state["step"] = number
        s.save(reason=f"after {number}")
        s._keyframer._join()
    if s.strategy is None:
        s.call(pay, 7)
        s.rollback("start", reason="another way", strategy="more")
    s.state["sent"] = send("here")
    s.checkpoint("sent")
    return [*notes, s.ask("Publish?", key="publish", choices=["yes", "no"])]


RESULT = [*(look(number) for number in range(10, 16)), "yes"]


def fill(store: AgentStore) -> None:
    """The subject, with its question answered and a name given by a person."""
    assert store.run(agent, SUBJECT, input={"why": "golden"}, labels={"team": "a"}).status == "waiting"
    store.checkpoint(SUBJECT, "kept", by="tester")
    store.answer(SUBJECT, "publish", "yes", by="tester")


def _states(store: AgentStore) -> str:
    """A line for each snapshot: its number, and the digest of its state."""
    found = ((point.seq, store.state_at(SUBJECT, point.seq)) for point in store.snapshots(SUBJECT))
    return "".join(f"{seq} {sha256(values.encode(state)).hexdigest()}\n" for seq, state in found)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_session_imports_and_goes_on(version: str) -> None:
    with open_agent_store("memory:") as store:
        store.import_file(FOLDER / version / "session.perdure")
        assert store.verify(SUBJECT, read_data=True).ok
        assert _states(store) == (FOLDER / version / "session.states").read_text()
        assert store.run(agent, SUBJECT, accept_change=True).result == RESULT
        assert store.verify(SUBJECT, read_data=True).ok


def test_the_newest_version_is_written_so_still(tmp_path: Path) -> None:
    kept = FOLDER / VERSIONS[-1] / "session.perdure"
    with open_agent_store("memory:") as store:
        store.import_file(kept)
        store.export_file(SUBJECT, tmp_path / "again")
    with portable.read(kept) as was, portable.read(tmp_path / "again") as now:
        assert list(next(was).items) == list(next(now).items)


def write() -> None:
    """Makes the newest version's files, if they are not there."""
    folder = FOLDER / VERSIONS[-1]
    with open_agent_store("memory:") as store, pytest.MonkeyPatch.context() as patch:
        patch.setitem(Keyframer.__init__.__kwdefaults__, "every", 3)
        patch.setattr(store, "_owner", OWNER)
        patch.setattr(operator, "new_owner", lambda: OWNER)
        if not (folder / "session.perdure").exists():
            fill(store)
            store.export_file(SUBJECT, folder / "session.perdure")
            (folder / "session.states").write_text(_states(store))
