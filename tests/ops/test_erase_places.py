"""No byte of what is erased stays in any durable store: not in its answers, and not in the files of its place."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pymongo
import pytest
from bson.raw_bson import RawBSONDocument

import perdure
from perdure.errors import SessionErasedError, SessionUnknownError
from perdure.ops import erasure
from perdure.stores import Store, open_store
from perdure.stores.address import Address
from tests.servers.mongo import MongoServer
from tests.servers.places import Place
from tests.servers.s3 import S3Server

CANARY: Final = "canary-of-the-erased-"
"""Followed by what no other place on the same server has."""

BEYOND: Final = {"postgres": ("pg_wal",), "pooler": ("pg_wal",), "mongo": ("WiredTiger", "secantus_")}
"""The server's own log and free blocks, which only it can clean, and does in its time: told in docs/stores.md.

Of MongoDB that is all its files, as soon as it writes them, once a minute: its documents are looked at, one by one.
"""

LOOKS: Final = 50
"""At a server's folder, before it is a fault that files go away in each of them."""


def canary(url: str) -> str:
    return f"{CANARY}{hashlib.sha256(url.encode()).hexdigest()[:16]}-"


def filled(url: str) -> None:
    """A session to be erased, collected before, with what waits in its inbox; and another one beside it."""
    with perdure.open(url) as store:
        for session, word in (("gone", canary(url)), ("other", "harmless-")):
            with store.session(session, labels={"word": word}) as s:
                s.state["log"] = []
                for n in range(30):
                    s.state["log"].append(f"{word}{n} " + os.urandom(40).hex())
                    s.state["big"] = os.urandom(90_000) if n % 10 == 0 else word
                    s.save()
            store.send(session, f"{word} in the inbox {os.urandom(40).hex()}")
        store.gc("gone", keep_last=5, dry_run=False)


def stored(store: Store, session: str) -> Iterator[bytes]:
    yield from (record.body for record in store.read(session))
    yield from store.chunks(session, store.chunk_sizes(session)).values()
    yield from (item.content for item in store.inbox(session))


def needles(url: str) -> list[bytes]:
    """Bytes from the end of what is stored of the session and of nothing else; as they are, and as base64."""
    with open_store(url) as store:
        other = b"|".join(stored(store, "other"))
        ends = [frame[-42:-4] for frame in stored(store, "gone") if len(frame) > 100]
    mine = [end for end in ends if end not in other]
    assert len(mine) > 6
    return [canary(url).encode(), *mine, *(base64.b64encode(end)[4:-4] for end in mine)]


def folder_of(place: Place) -> Path:
    if place.server is not None:
        return place.server.folder
    url = dict(Address.of(place.url).options)["cold"] if place.kind == "tiered" else place.url
    return Path(urlsplit(url).path).parent


def having(place: Place, sought: list[bytes]) -> list[str]:
    """The files of the place that have one of these; of a bucket the objects, and of a database the documents, too."""
    return [name for name, content in contents(place) if any(one in content for one in sought)]


def contents(place: Place) -> Iterator[tuple[str, bytes]]:
    if isinstance(place.server, S3Server):
        url = urlsplit(place.url)
        bucket = place.server.bucket(url.netloc)
        for listed in bucket.list(url.path.strip("/")):
            for found in listed:
                yield found["path"], bytes(bucket.get(found["path"]).bytes())
        return
    if isinstance(place.server, MongoServer):
        with pymongo.MongoClient[RawBSONDocument](place.url, document_class=RawBSONDocument) as client:
            database = client.get_default_database()
            for name in database.list_collection_names():
                yield from ((name, found.raw) for found in database[name].find())
    yield from files(folder_of(place), BEYOND.get(place.kind, ()))


def files(folder: Path, beyond: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Of one look at the folder in which nothing went away: what a server moves to another file is in none else."""
    for _ in range(LOOKS):
        with contextlib.suppress(FileNotFoundError):
            return [
                (file.name, file.read_bytes())
                for file in sorted(folder.rglob("*"))
                if not any(part.startswith(beyond) for part in file.parts) and file.is_file()
            ]
    raise AssertionError(f"files of {folder} went away in each of {LOOKS} looks")


def test_no_byte_of_it_stays(place: Place) -> None:
    filled(place.url)
    sought = needles(place.url)
    with perdure.open(place.url) as store:
        late = store.backend.lease("gone")
        store.erase("gone", by="kim")
        assert [(one.by, one.is_there) for one in store.erased()] == [("kim", False)]
        for refused in (
            lambda: store.state_at("gone"),
            lambda: store.session("gone"),
            lambda: store.send("gone", "late"),
            lambda: store.backend.renew(late),
        ):
            with pytest.raises(SessionErasedError):
                refused()
        assert store.verify("other", read_data=True).ok
        assert [info.id for info in store.sessions()] == ["other"]
    assert having(place, sought) == []
    with open_store(place.url) as backend:
        kept = b"|".join(one for head in backend.heads() for one in stored(backend, head.session))
        assert [one for one in sought if one in kept] == []
        with pytest.raises(SessionErasedError):
            backend.head("gone")
        with pytest.raises(SessionUnknownError):
            backend.head("nobody")


def test_what_only_forgets_is_caught(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(place.url)
    sought = needles(place.url)
    monkeypatch.setattr(erasure, "erase", lambda *_, **__: erasure.Erased(("gone",)))
    with perdure.open(place.url) as store:
        store.erase("gone")
    assert having(place, sought)
