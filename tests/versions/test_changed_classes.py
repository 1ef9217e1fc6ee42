"""What is kept in the background is kept as it was recorded, whatever became of the classes since."""

from __future__ import annotations

import dataclasses

import pytest

import perdure
from perdure.errors import TagError, VersionError
from perdure.session.keeping.keyframer import Keyframer
from perdure.values import registry


def declare(monkeypatch: pytest.MonkeyPatch, version: int) -> type:
    """The class as code of this version has it, in what stands for a process of its own."""
    monkeypatch.setattr(registry, "_classes", {})
    monkeypatch.setattr(registry, "_tags", {})
    fields = [("n", int), ("unit", str)][:version]
    cls = dataclasses.make_dataclass("Amount", fields)
    cls.__module__ = __name__
    upcasts = {1: lambda old: {**old, "unit": "EUR"}} if version == 2 else {}
    return perdure.storable("acme.Amount", version=version, upcasts=upcasts)(cls)


@pytest.fixture(params=["memory:", "sqlite", "file"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    urls = {"sqlite": f"sqlite:///{tmp_path}/a.db", "file": f"file:///{tmp_path}/a"}
    with perdure.open(urls.get(request.param, request.param)) as opened:
        yield opened


def save(store, amount, *, times: int) -> None:
    with store.session("s") as s:
        for n in range(times):
            s.state.setdefault("log", []).append([n, "x" * 300])
            s.state.setdefault("paid", amount)
            s.save()


def test_a_keyframe_that_new_code_makes_is_read_by_the_old(store, monkeypatch):
    old = declare(monkeypatch, 1)
    save(store, old(5), times=2)
    new = declare(monkeypatch, 2)
    save(store, new(5, "EUR"), times=12)
    assert store.backend.keyframes("s")
    assert store.state_at("s")["paid"] == new(5, "EUR")
    assert store.verify("s").ok
    old = declare(monkeypatch, 1)
    assert store.state_at("s")["paid"] == old(5)
    store.gc("s", keep_last=1, dry_run=False)
    assert store.state_at("s")["paid"] == old(5)


def test_housekeeping_needs_no_class_that_fits(store, monkeypatch):
    new = declare(monkeypatch, 2)
    save(store, new(5, "USD"), times=6)
    declare(monkeypatch, 1)
    with pytest.raises(TagError, match="was stored as version 2; the class here is version 1"):
        store.state_at("s")
    assert store.verify("s").ok
    assert store.doctor(deep=True).ok
    store.gc("s", keep_last=1, dry_run=False)
    store.edit("s", {"log": []})
    new = declare(monkeypatch, 2)
    assert store.state_at("s") == {"log": [], "paid": new(5, "USD")}


def test_what_new_code_cannot_take_is_refused_before_anything_is_written(store, monkeypatch):
    new = declare(monkeypatch, 2)
    save(store, new(5, "USD"), times=2)
    before = [*store.log("s")]
    declare(monkeypatch, 1)
    with pytest.raises(TagError, match="Load it with the newer code"):
        store.session("s")
    assert [*store.log("s")] == before


def test_of_a_newer_version_and_a_newer_class_the_version_is_told(store, monkeypatch):
    new = declare(monkeypatch, 2)
    with store.session("v", version="2") as s:
        s.state["paid"] = new(5, "USD")
    declare(monkeypatch, 1)
    for optimistic in (False, True):
        with pytest.raises(VersionError):
            store.session("v", version="1", optimistic=optimistic)


def test_a_class_without_an_upcast_says_the_line(monkeypatch):
    old = declare(monkeypatch, 1)
    data = perdure.values.encode(old(1))
    monkeypatch.setattr(registry, "_classes", {})
    monkeypatch.setattr(registry, "_tags", {})
    perdure.storable("acme.Amount", version=3, upcasts={2: dict})(
        dataclasses.make_dataclass("Amount", [("n", int)], namespace={"__module__": __name__})
    )
    with pytest.raises(TagError) as raised:
        perdure.values.decode(data)
    assert str(raised.value).endswith('@perdure.storable("acme.Amount", version=3, upcasts={..., 1: lambda old: ...})')
