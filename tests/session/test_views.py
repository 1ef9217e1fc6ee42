"""A store of files shows what its records say: strict JSON that nothing is read back from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import limits
from perdure.log.readable import document


@perdure.action(effect="idempotent")
def look(text: str, client: object = None) -> dict[str, Any]:
    return {"found": text, "odd": [b"\xff", (1, 2), "\ud83d", '","chain":"', "}\n{"]}


def fill(store: perdure.AgentStore) -> None:
    with store.session("s") as s:
        s.state["log"] = []
        for text in ("a", "x" * (2 * limits.VIEW_BYTES_MAX)):
            s.state["log"].append(s.call(look, text, object()))
            s.save()
        with pytest.raises(ZeroDivisionError):
            s.call(lambda: 1 // 0)
        s.checkpoint("done")


def lines(folder: Path) -> list[dict[str, Any]]:
    found = []
    for segment in sorted(folder.glob("sessions/s/*.ndjson")):
        found += [json.loads(line) for line in segment.read_text(encoding="ascii").splitlines()]
    return [line for line in found if "seq" in line]


def test_every_record_says_what_its_body_says(tmp_path: Path) -> None:
    with perdure.open(f"file://{tmp_path}/agents") as store:
        fill(store)
        entries = {entry.seq: entry for entry in store.log("s")}
        assert store.verify("s", read_data=True).ok
    shown = lines(tmp_path / "agents")
    assert [line["seq"] for line in shown] == list(entries)
    for line in shown:
        whole = document(entries[line["seq"]], "s")["body"]
        assert line["view"].keys() == whole.keys() - {"manifest"}
        for name, value in line["view"].items():
            assert value == whole[name] or "$long" in json.dumps(value)
    (first, *_) = [line for line in shown if line["kind"] == "action_finished"]
    assert first["view"]["value"]["found"] == "a"
    long = [line for line in shown if "$long" in json.dumps(line["view"])]
    assert {line["kind"] for line in long} >= {"action_finished", "saved"}
    assert all(len(json.dumps(line["view"])) < limits.VIEW_BYTES_MAX for line in long)


def test_a_view_goes_with_the_body_that_is_dropped(tmp_path: Path) -> None:
    with perdure.open(f"file://{tmp_path}/agents") as store:
        with store.session("s") as s:
            for n in range(8):
                s.state["secret"] = f"canary {n}"
                s.save()
        store.gc("s", keep_last=1, dry_run=False)
        assert store.verify("s", read_data=True).ok
    text = "".join(path.read_text() for path in (tmp_path / "agents").rglob("*.ndjson"))
    assert "canary 7" in text
    assert "canary 2" not in text


def test_a_changed_view_is_damage_like_any_other_byte(tmp_path: Path) -> None:
    with perdure.open(f"file://{tmp_path}/agents") as store:
        fill(store)
    (segment,) = (tmp_path / "agents").glob("sessions/s/*.ndjson")
    content = segment.read_bytes()
    assert content.count(b'"found":"a"') > 1
    segment.write_bytes(content.replace(b'"found":"a"', b'"found":"b"', 1))
    with perdure.open(f"file://{tmp_path}/agents") as store:
        assert not store.verify("s", read_data=True).ok


def test_other_stores_are_given_no_views(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        seen = []
        append = store.backend.append
        store.backend.append = lambda session, batch, **rest: seen.append(batch) or append(session, batch, **rest)  # type: ignore[method-assign]
        fill(store)
    assert seen
    assert not any(batch.views for batch in seen)
