"""URLs of stores, ids of sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import ClosedError, SessionIdError, StoreUrlError
from perdure.stores import check_session_id, open_store
from perdure.testing.conformance.sessions import BAD_IDS, IDS


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite:{}"])
def test_a_path_is_a_sqlite_store(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a #?%41 b.db"
    with open_store(form.format(path)) as store:
        store.create("s", owner="me")
        assert store.url == f"sqlite:///{path}"
    with open_store(store.url) as again:
        assert again.head("s").seq == 0
    assert path.is_file()


@pytest.mark.parametrize("url", ["agents.db", "sqlite:///agents.db", "sqlite:agents.db"])
def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(url) as store:
        monkeypatch.chdir("/")
        store.create("s", owner="me")
        assert store.url == f"sqlite:///{tmp_path}/agents.db"


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "FILE:///{}", "file:agents #?%41 b"])
def test_a_folder_is_a_file_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    path = tmp_path / "agents #?%41 b"
    monkeypatch.chdir(tmp_path)
    with open_store(form.format(path)) as store:
        monkeypatch.chdir("/")
        store.create("s", owner="me")
        assert store.url == f"file://{path}"
    with open_store(store.url) as again:
        assert again.head("s").seq == 0
    assert (path / "sessions" / "s").is_dir()


def test_memory_is_fresh_or_shared_by_name(tmp_path: Path) -> None:
    with open_store("memory:") as one, open_store("memory:") as two:
        one.create("s", owner="me")
        assert two.heads() == []
    with pytest.raises(ClosedError):
        one.heads()
    with open_store(f"memory:{tmp_path}") as one:
        one.create("s", owner="me")
    with open_store(f"memory:{tmp_path}") as two:
        assert two.url == one.url
        assert len(two.heads()) == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x", "no store mysql:; there are: a plain path, sqlite:, file:, memory:"),
        ("postgresql:///db?partitions=x", "partitions=x is no int"),
        ("redis://h/agents", "number of a database"),
        ("s3://", "names no bucket"),
        ("mongodb://h", "names no database"),
        ("file://host/x", "three slashes"),
        ("file:", "needs a path"),
        ("tiered:", "tiered: needs cold="),
        ("tiered:?cold=memory%3A", "tiered: needs hot="),
        ("tiered:?cold=memory%3A&hot=memory%3A&mode=sideways", "mode=sideways"),
        ("tiered:?cold=memory%3A&hot=memory%3A&behind_s=-1", "below 0"),
        ("tiered:?cold=memory%3A&hot=memory%3A&cool=1", "no option cool"),
        ("sqlite://host/x.db", "three slashes"),
        ("sqlite:", "needs a path"),
        ("", "needs a path"),
    ],
)
def test_what_is_no_store_is_explained(url: str, said: str) -> None:
    with pytest.raises(StoreUrlError) as caught:
        open_store(url)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("url", "modules", "extra"),
    [
        ("postgresql:///db", ["psycopg", "psycopg_pool"], "postgres"),
        ("redis://h/0", ["redis"], "redis"),
        ("s3://bucket", ["obstore"], "s3"),
        ("mongodb://h/db", ["bson", "pymongo"], "mongo"),
    ],
)
def test_an_extra_that_is_not_there_is_named(url: str, modules: list[str], extra: str) -> None:
    code = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from perdure.errors import StoreUrlError
from perdure.stores import open_store
try:
    open_store({url!r})
except StoreUrlError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    scheme = url.partition(":")[0]
    assert told == f"{scheme}: needs an extra that is not installed: pip install 'perdure[{extra}]'\n"


@pytest.mark.parametrize("url", ["{}/agents.db", "file://{}/agents", "memory:"])
def test_an_unknown_option_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(TypeError, match="buzy_s"):
        open_store(url.format(tmp_path), buzy_s=1)


@pytest.mark.parametrize("session", IDS)
def test_an_id_is_left_as_it_is(session: str) -> None:
    assert check_session_id(session) == session


@pytest.mark.parametrize("session", BAD_IDS)
def test_what_is_no_id_is_refused(session: str) -> None:
    with pytest.raises(SessionIdError):
        check_session_id(session)


@pytest.mark.parametrize(
    ("session", "offer"), [(" a\n", "'a'"), ("e\u0301", "'é'"), ("a\0b\ud83d", "'ab'"), ("x" * 201, repr("x" * 200))]
)
def test_the_clean_id_is_offered(session: str, offer: str) -> None:
    with pytest.raises(SessionIdError) as caught:
        check_session_id(session)
    assert str(caught.value).endswith(f"; use {offer}")


@pytest.mark.parametrize("session", ["", "..", " ", "\0"])
def test_nothing_is_offered_where_nothing_is_left(session: str) -> None:
    with pytest.raises(SessionIdError) as caught:
        check_session_id(session)
    assert "use" not in str(caught.value)
