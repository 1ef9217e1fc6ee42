"""Case 21: a component's configuration was stored with its API key in it; masked, it could not be loaded any more.

Right: the key is nowhere on disk; what is loaded has it from where its reference says, or says that it is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pydantic
import pytest

import perdure
from perdure.errors import SecretFoundError, SecretMissingError
from tests.e2e import bytes_of

KEY = "sk-" + "proj-" + "c4N4ryB1rd" * 4


@perdure.storable("tests.case21.Client")
@dataclass
class Client:
    """Has the key as a Secret: what is stored is its reference."""

    url: str
    key: perdure.Secret

    def call(self) -> str:
        return f"asked {self.url} with {len(self.key.reveal())} characters"


@perdure.storable("tests.case21.Config")
class Config(pydantic.BaseModel):
    """As people configure things."""

    model: str
    api_key: perdure.Secret


@perdure.storable("tests.case21.Careless")
@dataclass
class Careless:
    """Has the key itself."""

    api_key: str


@pytest.fixture(params=["sqlite:///store.db", "file:store"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return request.param


def test_the_key_is_nowhere_and_the_client_works_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASE_21_KEY", KEY)
    key = perdure.Secret("secret://env/CASE_21_KEY")
    with perdure.open(url) as store:
        with store.session("a") as s:
            s.state["client"] = Client("https://example.org", key)
            s.state["config"] = Config(model="m", api_key=key)
            s.state["said"] = s.state["client"].call()
        store.export_file("a", "exported")
        assert bytes_of.in_store(KEY, store) == []
    assert bytes_of.in_files(KEY, tmp_path) == []
    with perdure.open(url) as store, store.session("a") as s:
        assert s.state["client"].call() == s.state["said"]
        assert s.state["config"] == Config(model="m", api_key=key)
    with perdure.open("sqlite:///other.db") as other:
        other.import_file("exported")
        loaded = other.state_at("a")["client"]
        monkeypatch.delenv("CASE_21_KEY")
        with pytest.raises(SecretMissingError, match=r"CASE_21_KEY.*environment"):
            loaded.call()


def test_the_key_itself_is_refused_where_it_is(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store, store.session("a") as s:
        s.state["clients"] = [Careless(KEY)]
        with pytest.raises(SecretFoundError, match=r"^\$\.clients\[0\]\.api_key"):
            s.save()
        s.state["clients"] = []
    assert bytes_of.in_files(KEY, tmp_path) == []
