"""A sealed store as its users meet it: nothing in clear on the disk, keys asked for plainly, forgeries found."""

from __future__ import annotations

import asyncio
import base64
import random
import sqlite3
import string
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from perdure.errors import DamageError, KeyNeededError, KeyWrongError, NotSealedError, StorePlainError
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores.around import Around
from perdure.stores.keys import Key
from perdure.stores.opening import open_bare
from perdure.stores.sealed import SealedStore

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
CANARY = "the-launch-code-is-0451-and-nobody-may-know"
URLS = ("sqlite:{}/agents.db", "file:{}/agents")


@perdure.action(effect="repeatable")
def ask(text: str) -> str:
    return f"{text} {CANARY} answered"


@perdure.agent(version="1")
def agent(s: perdure.Session) -> str:
    s.state["messages"] = [CANARY + " in the state", s.input]
    s.state["large"] = (CANARY + " at length ") * 10_000
    s.checkpoint(CANARY)
    reply = s.call(ask, text=CANARY)
    s.state["messages"].append(reply)
    s.save()
    s.receive(wait_s=0)
    return reply


def lived(url: str, session: str = "s") -> None:
    """A session that has something of every kind."""
    with perdure.open(url, keys=KEY) as store:
        with store.session(session) as s:
            s.state["messages"] = [CANARY + " in the state"]
            s.state["large"] = (CANARY + " at length ") * 10_000
            s.checkpoint(CANARY)
            s.state["messages"].append(s.call(ask, text=CANARY))
            s.save()
        store.send(session, {"text": CANARY})
        store.fork(session, at=CANARY, into=f"{session}-fork", reason=CANARY)


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param.format(tmp_path)


def pieces(path: Path) -> Iterator[bytes]:
    """The bytes of all files, as they are and as far as they are base64 or zlib."""
    for file in sorted(path.rglob("*")):
        yield file.name.encode()
        if file.is_file():
            yield file.read_bytes()


def spellings(text: str, least: int = 16) -> set[bytes]:
    """Every stretch of the text of this length, also as hexadecimal, and in the three phases of base64."""
    plain = text.encode()
    found = {plain[n : n + least] for n in range(len(plain) - least + 1)}
    found |= {piece.hex().encode() for piece in set(found)}
    return found | {base64.b64encode(b"\0" * phase + plain)[4:-4] for phase in range(3)}


def test_no_stretch_of_what_was_stored_is_on_the_disk(url: str, tmp_path: Path) -> None:
    with perdure.open(url, keys=KEY) as held:  # the write-ahead log is there, too
        lived(url)
        held.sessions()
        found = [piece for piece in pieces(tmp_path) if any(word in piece for word in spellings(CANARY))]
        assert found == []
        assert not any(zlib_finds(piece) for piece in pieces(tmp_path))


def test_no_window_of_the_state_is_in_any_file_or_export(url: str, tmp_path: Path) -> None:
    text = "".join(random.Random(7).choices(string.ascii_lowercase + "     ", k=30_000))
    with perdure.open(url, keys=KEY) as store:
        with store.session("s") as s:
            s.state["notes"] = []
            for begin in range(0, len(text), 1000):
                s.state["notes"].append(text[begin : begin + 1000])
                s.save()
            s._keyframer._join()
        store.export_file("s", tmp_path / "s.perdure")
        windows = {text.encode()[n : n + 16] for n in range(len(text) - 15)}
        found = [file for file in tmp_path.rglob("*") if file.is_file() and not windows.isdisjoint(sixteens(file))]
        assert found == []
        assert store.state_at("s")["notes"] == [text[n : n + 1000] for n in range(0, len(text), 1000)]


def sixteens(file: Path) -> Iterator[bytes]:
    content = file.read_bytes()
    return (content[n : n + 16] for n in range(len(content) - 15))


def zlib_finds(piece: bytes) -> bool:
    try:
        return CANARY.encode() in zlib.decompress(piece)
    except zlib.error:
        return False


def test_the_same_in_a_store_without_keys_is_found(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store, store.session("s") as s:
        s.state["code"] = CANARY
        s.checkpoint(CANARY)
    assert any(word in piece for piece in pieces(tmp_path) for word in spellings(CANARY))


def test_what_is_sealed_comes_back_as_it_was(url: str) -> None:
    lived(url)
    with perdure.open(url, keys=KEY) as store:
        assert store.state_at("s")["large"] == (CANARY + " at length ") * 10_000
        assert [point.name for point in store.snapshots("s") if point.name] == [CANARY]
        assert store.state_at("s", CANARY)["messages"] == [CANARY + " in the state"]
        assert store.verify("s", read_data=True).ok
        assert store.verify("s-fork").ok
        with store.session("s-fork") as s:
            assert s.state["messages"] == [CANARY + " in the state"]
            s.state["more"] = 1
        with store.session("s") as s:
            assert s.receive(wait_s=0) == {"text": CANARY}
        assert store.doctor(deep=True).ok
        assert store.gc(keep_last=1, dry_run=False).sessions
        assert store.verify("s").ok


def test_what_looks_like_a_secret_is_kept_exactly(url: str, tmp_path: Path) -> None:
    token = "ghp_" + "Zk4v9Qx2" * 5
    for options in ({}, {"witness": tmp_path / "witness"}):
        with perdure.open(url, keys=KEY, **options) as store, store.session(f"s{len(options)}") as s:
            s.state["config"] = {"api_key": token}
    with perdure.open(url, keys=KEY) as store:
        assert store.state_at("s1") == {"config": {"api_key": token}}
    assert not any(token[:16].encode() in piece for piece in pieces(tmp_path))


def test_without_the_key_it_says_which_one_is_wanted(url: str) -> None:
    lived(url)
    with pytest.raises(KeyNeededError, match=Key.of(KEY).id):
        perdure.open(url)
    with pytest.raises(KeyWrongError, match=Key.of(KEY).id):
        perdure.open(url, keys=OTHER)
    perdure.open(url, keys=[OTHER, KEY]).close()


def test_another_key_of_the_same_name_is_told(url: str) -> None:
    perdure.open(url, keys=Key.of(KEY, name="main")).close()
    with pytest.raises(KeyWrongError, match="main"):
        perdure.open(url, keys=Key.of(OTHER, name="main"))


def test_a_store_with_sessions_in_clear_is_not_sealed_half_way(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store, store.session("s") as s:
        s.state["n"] = 1
    with pytest.raises(StorePlainError, match="copy"):
        perdure.open(url, keys=KEY)
    with perdure.open(url) as store:
        assert store.state_at("s") == {"n": 1}


class MeanwhileSealed(Around):
    """A place that another process seals, and works in, between a look at its envelope and one at its sessions."""

    def __init__(self, url: str) -> None:
        super().__init__(open_bare(url))
        self._url, self._looks = url, 0

    def envelope(self, session: str | None = None) -> bytes | None:
        seen = super().envelope(session)
        self._looks += 1
        if self._looks == 1:
            with perdure.open(self._url, keys=KEY) as store, store.session("s") as s:
                s.state["n"] = 1
        return seen


def test_a_store_that_another_process_seals_at_the_same_time_is_a_sealed_one(url: str) -> None:
    with SealedStore(MeanwhileSealed(url), KEY) as store:
        assert [head.session for head in store.heads()] == ["s"]
    with MeanwhileSealed(url + "2") as place, pytest.raises(KeyWrongError):
        SealedStore(place, OTHER)


def test_an_empty_store_becomes_a_sealed_one(url: str) -> None:
    perdure.open(url).close()
    lived(url)
    with pytest.raises(KeyNeededError):
        perdure.open(url)


def test_runs_are_killed_and_resumed_as_ever(url: str) -> None:
    with perdure.open(url, keys=KEY) as store:
        first = store.run(agent, "r", input="go")
    with perdure.open(url, keys=KEY) as store:
        assert store.run(agent, "r") == first
        assert store.replay("r", agent)


# --- what somebody without the key does to the rows -------------------------------------------------------------------


def forged(place: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(place / "agents.db")) as db:
        assert db.execute(sql, values).rowcount > 0
        db.commit()


def body(place: Path, session: str, seq: int) -> bytes:
    with closing(sqlite3.connect(place / "agents.db")) as db:
        where = "(SELECT number FROM sessions WHERE id = ?) << 32 | ?"
        return db.execute(f"SELECT body FROM records WHERE key = ({where})", (session, seq)).fetchone()[0]  # noqa: S608 - names of ours


def put_body(place: Path, session: str, seq: int, content: bytes) -> None:
    where = "(SELECT number FROM sessions WHERE id = ?) << 32 | ?"
    forged(place, f"UPDATE records SET body = ? WHERE key = ({where})", content, session, seq)  # noqa: S608 - names of ours


FORGERIES: dict[str, Callable[[Path], None]] = {
    "another record's body": lambda place: put_body(place, "s", 3, body(place, "s", 4)),
    "the body of the same record of another session": lambda place: put_body(place, "s", 3, body(place, "t", 3)),
    "a body in clear": lambda place: put_body(place, "s", 3, b"\xd5P" + bytes(60)),
    "a body of another generation": lambda place: put_body(place, "s", 3, bytes_at(body(place, "s", 3), 5)),
    "a flipped bit": lambda place: put_body(place, "s", 3, bytes_at(body(place, "s", 3), 40)),
    "a body that is cut": lambda place: put_body(place, "s", 3, body(place, "s", 3)[:20]),
    "another time": lambda place: forged(place, "UPDATE records SET time_us = time_us + 1 WHERE key = (1 << 32 | 3)"),
    "another kind": lambda place: forged(place, "UPDATE records SET kind = 17 WHERE key = (1 << 32 | 3)"),
    "another family's summary": lambda place: forged(
        place, "UPDATE sessions SET summary = (SELECT summary FROM sessions WHERE id = 't') WHERE id = 's'"
    ),
    "another family's keys": lambda place: forged(
        place,
        "UPDATE envelopes SET content = (SELECT content FROM envelopes WHERE family = "
        "(SELECT family FROM sessions WHERE id = 't')) WHERE family = (SELECT family FROM sessions WHERE id = 's')",
    ),
}


def bytes_at(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_found_before_anything_is_given(tmp_path: Path, forgery: str) -> None:
    url = f"sqlite:{tmp_path}/agents.db"
    for session in ("s", "t"):
        with perdure.open(url, keys=KEY) as store, store.session(session) as s:
            s.state["n"] = 1
            s.save()
            s.state["n"] = 2
    FORGERIES[forgery](tmp_path)
    with perdure.open(url, keys=KEY) as store:
        with pytest.raises(DamageError) as found:
            store.state_at("s")
        assert ("clear" in str(found.value)) == isinstance(found.value, NotSealedError)
        with pytest.raises(DamageError), store.session("s") as s:
            s.state["n"] = 3
        assert not store.verify("s").ok
        assert store.verify("t").ok
        assert store.state_at("t") == {"n": 2}


def test_a_damaged_chunk_is_made_again_from_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    url = f"sqlite:{tmp_path}/agents.db"
    with perdure.open(url, keys=KEY) as store:
        with store.session("s") as s:
            s.state["notes"] = []
            for n in range(10):
                s.state["notes"].append(f"note {n} " * 200)
                s.save()
                s._keyframer._join()
        before = store.state_at("s")
    forged(tmp_path, "UPDATE chunks SET content = zeroblob(length(content)) WHERE number = 1")
    with perdure.open(url, keys=KEY) as store:
        assert not store.verify("s", read_data=True).ok
        assert store.state_at("s") == before


def test_lost_indexes_are_made_anew(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/agents.db"
    with perdure.open(url, keys=KEY) as store, store.session("s") as s:
        s.state["n"] = 1
        s.checkpoint("named")
        s.call(ask, text="x")
    forged(tmp_path, "DELETE FROM points")
    with perdure.open(url, keys=KEY) as store:
        assert not store.verify("s").ok
        assert store.doctor(fix=True).ok
        assert store.verify("s").ok
        assert [point.name for point in store.snapshots("s") if point.name] == ["named"]


def test_it_is_the_same_in_an_event_loop(url: str) -> None:
    async def live() -> None:
        async with store.aio.session("s") as s:
            for n in range(5):
                s.state["n"] = n
                await s.save()

    with perdure.open(url, keys=KEY) as store:
        asyncio.run(live())
        assert store.state_at("s") == {"n": 4}
        assert store.verify("s", read_data=True).ok


def test_pickles_are_kept_in_a_sealed_store(url: str) -> None:
    with perdure.open(url, keys=KEY, protocol="pickle") as store:
        with store.session("s") as s:
            s.state["n"] = (1, {2, 3})
        assert store.state_at("s") == {"n": (1, {2, 3})}
        assert store.verify("s", read_data=True).ok


def test_a_key_that_is_held_elsewhere_is_asked_once_for_each_family(url: str) -> None:
    asked, vault = [], Key.of(KEY, name="vault/1")

    def ask(what: Callable[[bytes], bytes]) -> Callable[[str, bytes], bytes]:
        def answer(name: str, secret: bytes) -> bytes:
            asked.append((what.__name__, name, len(secret)))
            return what(secret)

        return answer

    key = Key.held_elsewhere("vault/1", wrap=ask(vault.wrap), unwrap=ask(vault.unwrap))
    with perdure.open(url, keys=key) as store:
        for session in ("s", "t"):
            with store.session(session) as s:
                for n in range(5):
                    s.state["n"] = n
                    s.save()
    assert [name for name, _, _ in asked].count("wrap") == 3, "the store and two families"
    assert all(length == 32 for what, _, length in asked if what == "wrap")
    asked.clear()
    with perdure.open(url, keys=key) as store:
        assert [store.state_at(session) for session in ("s", "t", "s")] == [{"n": 4}] * 3
    assert [what for what, _, _ in asked] == ["unwrap"] * 3


def test_a_session_in_clear_in_a_sealed_store_is_refused(tmp_path: Path) -> None:
    with perdure.open(f"sqlite:{tmp_path}/plain.db") as store, store.session("s") as s:
        s.state["n"] = 1
    url = f"sqlite:{tmp_path}/agents.db"
    perdure.open(url, keys=KEY).close()
    with closing(sqlite3.connect(tmp_path / "agents.db")) as db:
        db.execute(f"ATTACH '{tmp_path}/plain.db' AS plain")
        for table in ("families", "sessions", "records", "points"):
            db.execute(f"INSERT INTO {table} SELECT * FROM plain.{table}")  # noqa: S608 - names of ours
        db.commit()
    with perdure.open(url, keys=KEY) as store:
        with pytest.raises(NotSealedError, match="clear"):
            store.state_at("s")
        assert [info.status for info in store.sessions()] == ["damaged"]


def test_the_keys_of_an_erased_family_are_nowhere(url: str, tmp_path: Path) -> None:
    lived(url)
    lived(url, "t")
    with perdure.open(url, keys=KEY) as store:
        inner = store.backend.inner  # type: ignore[attr-defined]
        kept = {session: inner.envelope(session) for session in ("s", "t")}
        store.erase("s", family=True)
        assert {key for key, sought in kept.items() if any(sought[40:80] in piece for piece in pieces(tmp_path))} == {
            "t"
        }
        assert store.verify("t").ok
