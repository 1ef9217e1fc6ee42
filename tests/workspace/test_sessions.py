"""Files that belong to a session: captured with its state, taken back with it, or neither of them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

import perdure
from perdure.errors import RefusedError, WorkspaceError
from perdure.recovery import files
from perdure.session.rules import files as rules
from perdure.stores.keys import new_key
from perdure.workspace import Budget, Folder
from tests.workspace.trees import told


@perdure.action(effect="once", after_rollback="again")
def write(path: str, text: str) -> None:
    Path(path).write_text(text)


@perdure.action(effect="once", after_rollback="again")
def shell(folder: str, line: str) -> str:
    return subprocess.run(["sh", "-c", line], cwd=folder, check=True, capture_output=True, text=True).stdout


@perdure.action(effect="repeatable", writes=True)
def touch(path: str) -> None:
    Path(path).write_text("touched")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/theirs").write_text("theirs")
    return tmp_path / "root"


@pytest.fixture(params=["{}/agents.db", "file:{}/agents", "memory:"])
def store(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with perdure.open(request.param.format(tmp_path)) as store:
        yield store


def entries(store, session="s"):
    return list(store.log(session))


def test_a_run_goes_back_with_its_files(store, root: Path) -> None:
    seen = []

    @perdure.agent(workspace=root)
    def agent(s):
        write(f"{root}/a", "one")
        s.state["a"] = "one"
        s.checkpoint("start")
        seen.append(told(root))
        if s.strategy is None:
            shell(str(root), "echo two >a; mkdir d; echo new >d/new; rm theirs; ln -s a l")
            touch(f"{root}/t")
            s.state["a"] = "two"
            s.rollback("start", reason="worse", strategy="other")
        return (root / "a").read_text(), sorted(told(root))

    outcome = store.run(agent, "s")
    assert outcome.status == "completed", outcome.error
    assert outcome.result == ("one", ["a", "theirs"])
    assert seen[0] == seen[1] == told(root)
    assert store.verify("s", read_data=True).ok


def test_a_handle_goes_back_with_its_files(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        s.state["a"] = 1
        first = s.save()
        was = told(root)
        s.call(shell, str(root), "echo two >a; echo b >b")
        s.state["a"] = 2
        s.save()
        assert s.rollback(first)["a"] == 1
        assert told(root) == was
    assert store.verify("s", read_data=True).ok


def test_so_does_a_handle_of_an_event_loop(store, root: Path) -> None:
    async def work() -> None:
        async with store.aio.session("s", workspace=root) as s:
            await s.call(write, f"{root}/a", "one")
            s.state["a"] = 1
            first = await s.save()
            was = told(root)
            await s.call(shell, str(root), "echo two >a; echo b >b")
            s.state["a"] = 2
            await s.save()
            assert (await s.rollback(first))["a"] == 1
            assert told(root) == was

    asyncio.run(work())


def test_what_somebody_else_changed_refuses_it_and_nothing_is_changed(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        first = s.save()
        s.call(write, f"{root}/a", "two")
        (root / "a").write_text("by hand")
        (root / "new").write_text("by hand")
        now, head = told(root), len(entries(store))
        with pytest.raises(WorkspaceError, match="somebody else changed a "):
            s.rollback(first)
        assert told(root) == now
        assert len(entries(store)) == head
        s.call(write, f"{root}/b", "it goes on")


def test_what_somebody_else_changed_is_kept_aside_if_that_is_declared(store, root: Path) -> None:
    with store.session("s", workspace=Folder(root, conflicts="keep")) as s:
        s.call(write, f"{root}/a", "one")
        first = s.save()
        s.call(write, f"{root}/a", "two")
        (root / "a").write_text("by hand")
        (root / "new").write_text("by hand")
        s.rollback(first)
        assert (root / "a").read_text() == "one"
        assert (root / "a.perdure-kept-1").read_text() == "by hand"
        assert (root / "new").read_text() == "by hand"
    (note,) = [e for e in entries(store) if e.kind == "note" and e.body.get("why") == "taken back"]
    assert note["kept"] == [["a", "a.perdure-kept-1"]]


def test_the_view_tells_what_a_rollback_did_to_calls_and_files(store, root: Path) -> None:
    with store.session("s", workspace=Folder(root, conflicts="keep")) as s:
        s.call(write, f"{root}/a", "one")
        s.call(write, f"{root}/c", "one")
        s.state["n"] = 1
        s.checkpoint("first")
        for name in "abc":
            s.call(write, f"{root}/{name}", "two")
        (root / "a").write_text("by hand")
        s.rollback("first", reason="worse", strategy=perdure.Strategy("other", pace=2))
        found = store.detail("s")
    (one,) = found.rollbacks
    assert (one.name, one.strategy, one.reason, one.by) == ("first", "other", "worse", "agent")
    assert [call.partition("(")[0] for call in one.standing] == ["write"] * 3
    assert [(change.path, change.what) for change in one.files.changes] == [
        ("a", "write"),
        ("b", "delete"),
        ("c", "write"),
    ]
    assert one.files.kept == (("a", "a.perdure-kept-1"),)
    assert (found.files.folder, found.files.count, found.files.missing) == (str(root), 4, "")
    assert found.files.bytes == len("oneoneby handtheirs")


def test_the_view_tells_why_nothing_is_known_of_files(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.state["n"] = 1
        s.checkpoint("first")
        s.call(write, f"{root}/a", "two")
    store.rollback("s", "first")
    (one,) = store.detail("s").rollbacks
    assert (one.files.changes, one.files.missing) == ((), files.OWED)
    with store.session("s", workspace=Folder(root, budget=Budget(names_max=0))):
        pass
    found = store.detail("s")
    assert found.rollbacks[0].files.missing == found.files.missing == "there are more than 0 names"
    with store.session("t"):
        pass
    assert store.detail("t").files is None


def test_a_folder_that_stays_is_where_it_was_last(store, root: Path, tmp_path: Path) -> None:
    folders = []

    def work(folder: Folder) -> None:
        with store.session("s", workspace=folder) as s:
            folders.append(s.folder)
            s.call(write, f"{s.folder}/a", "one")

    work(Folder(root, stays=True))
    root.rename(tmp_path / "real")
    work(Folder(tmp_path / "real"))
    work(Folder(root, stays=True))
    assert folders == [root, tmp_path / "real", tmp_path / "real"]
    assert not root.exists()
    (tmp_path / "real").rename(root)
    with pytest.raises(WorkspaceError, match="real"):
        work(Folder(root, stays=True))
    with store.session("t") as s:
        assert s.folder is None


def test_a_point_without_its_files_is_none_to_go_back_to(store, root: Path) -> None:
    with store.session("s", workspace=Folder(root, budget=Budget(names_max=2))) as s:
        for name in ("a", "b"):
            s.call(write, f"{root}/{name}", "x")
        s.state["a"] = 1
        point = s.save()
        (root / "a").unlink()
        with pytest.raises(RefusedError, match="there are more than 2 names"):
            s.rollback(point)
    (saved,) = [e for e in entries(store) if e.seq == point]
    assert saved["files"] == "there are more than 2 names"


def test_steps_capture_the_end_of_each(store, root: Path) -> None:
    @perdure.steps(workspace=lambda s: root)
    def agent(s):
        n = s.state.setdefault("n", 0)
        write(f"{root}/{n}", "x")
        s.state["n"] = n + 1
        if n == 2:
            s.complete(sorted(told(root)))

    assert store.run(agent, "s").result == ["0", "1", "2", "theirs"]
    saved = [entry["files"] for entry in entries(store) if entry.kind == "saved"]
    assert len(set(saved)) == 3
    assert all(type(one) is bytes for one in saved)


def test_files_do_not_stay_behind_when_the_workspace_is_not_declared(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        point = s.checkpoint("p")
        s.call(write, f"{root}/a", "two")
    with store.session("s") as s, pytest.raises(RefusedError, match="open it with its workspace="):
        s.rollback(point)


def test_a_session_without_a_lease_has_no_workspace(store, root: Path) -> None:
    with pytest.raises(RefusedError, match="one writer at a time"):
        store.session("s", workspace=root, optimistic=True)
    with store.session("s") as s:
        s.state["a"] = 1


def test_a_preview_and_a_difference_tell_of_files(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        first = s.checkpoint("first")
        s.call(shell, str(root), "echo two >a; echo b >b; rm theirs; chmod 755 .")
        last = s.save()
        (root / "theirs").write_text("theirs")
        (root / "b").write_text("by hand")
        s.save()
        s.call(shell, str(root), "true")
        s.save()
    found = store.preview_rollback("s", first).files
    assert [(one.path, one.what, one.conflict) for one in found.changes] == [
        ("a", "write", False),
        ("b", "delete", True),
    ]
    diff = store.diff("s", first, to=last)
    assert [(one.path, one.what) for one in diff.files] == [("a", "write"), ("b", "write"), ("theirs", "delete")]


def test_a_sealed_store_has_neither_names_nor_content_in_clear(tmp_path: Path, root: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with perdure.open(f"file:{tmp_path}/sealed", keys=new_key()) as store:
        with store.session("s", workspace=root) as s:
            s.call(write, f"{root}/plainly-named", "content " * 20)
            point, was = s.checkpoint("p"), told(root)
            s.call(shell, str(root), "rm plainly-named")
        assert list(store.rekey(data=True))
        assert store.verify("s", read_data=True).ok
        with store.session("s", workspace=root) as s:
            s.rollback(point)
            assert told(root) == was
        kept = [
            path.read_bytes() for top in ("sealed", "cache") for path in (tmp_path / top).rglob("*") if path.is_file()
        ]
        assert kept
        assert not any(word in data for data in kept for word in (b"plainly-named", b"content content"))
        store.erase("s")
    assert not list((tmp_path / "sealed").rglob("*.chunk"))


def test_a_fork_has_the_captures_of_its_base(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        point, was = s.checkpoint("p"), told(root)
        s.call(write, f"{root}/a", "two")
    store.fork("s", at=point, into="f")
    store.gc("s", keep_last=1, dry_run=False)
    assert store.verify("f", read_data=True).ok
    with store.session("f", workspace=Folder(root, conflicts="keep")) as s:
        s.rollback(point)
    assert {path: thing for path, thing in told(root).items() if "kept" not in path} == was


async def _agent(root: Path):
    @perdure.agent(workspace=root)
    async def agent(s):
        await s.call(write, f"{root}/a", "one")
        await s.checkpoint("start")
        if s.strategy is None:
            await s.call(write, f"{root}/b", "two")
            await s.rollback("start", strategy="other")
        return sorted(told(root))

    return agent


def test_an_async_run_goes_back_with_its_files(store, root: Path) -> None:
    async def run():
        return await store.arun(await _agent(root), "s")

    outcome = asyncio.run(run())
    assert (outcome.status, outcome.result) == ("completed", ["a", "theirs"]), outcome.error


def test_a_rollback_by_a_person_is_finished_at_the_next_opening(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        s.state["a"] = 1
        point = s.checkpoint("one")
        was = told(root)
        s.call(write, f"{root}/a", "two")
        s.state["a"] = 2
    store.rollback("s", point)
    with pytest.raises(RefusedError, match="still to be taken back"), store.session("s"):
        pass
    with store.session("s", workspace=root) as s:
        assert s.state["a"] == 1
        assert told(root) == was


def test_a_rollback_by_a_person_is_finished_where_the_files_are(
    store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there", "here/root"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for session, folder in (("s", Folder("root")), ("t", Folder(tmp_path / "here/root", stays=True))):
        with store.session(session, workspace=folder) as s:
            s.call(write, f"{s.folder}/{session}", "one")
            s.state["n"] = 1
            s.checkpoint("first")
            s.call(write, f"{s.folder}/{session}", "two")
        store.rollback(session, "first")
    monkeypatch.chdir(tmp_path / "there")
    with store.session("s", workspace=Folder("root")) as s:
        assert (s.folder, (tmp_path / "here/root/s").read_text()) == (tmp_path / "here/root", "one")
    with store.session("t", workspace=Folder(tmp_path / "there", stays=True)) as s:
        assert (s.folder, (tmp_path / "here/root/t").read_text()) == (tmp_path / "here/root", "one")
    assert list((tmp_path / "there").iterdir()) == []


def test_files_that_are_gone_are_told_before_anything_runs(
    store, root: Path, tmp_path: Path, caplog, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with store.session("s", workspace="root") as s:
        s.call(write, f"{root}/a", "one")
    (root / "a").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with store.session("s", workspace="root") as s:
        assert "files of the workspace are missing since the session was here last: a" in caplog.text
        s.call(write, f"{root}/b", "two")
        s.save()
    assert [e["missing"] for e in entries(store) if e.kind == "note"] == [[], ["a"]]
    root.rename(tmp_path / "moved")
    with pytest.raises(WorkspaceError, match="say where it is now"), store.session("s", workspace="root"):
        pass
    with store.session("s", workspace=tmp_path / "moved") as s:
        s.call(write, f"{tmp_path}/moved/c", "three")


def test_a_copy_an_export_and_a_collection_keep_what_is_needed(store, root: Path, tmp_path: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        s.state["a"] = 1
        point = s.checkpoint("one")
        was = told(root)
        for n in range(30):
            s.call(write, f"{root}/a", f"{n}" * 1000)
            s.state["a"] = n
            s.save()
    store.export_file("s", tmp_path / "out")
    store.gc("s", keep_last=2, dry_run=False)
    assert store.verify("s", read_data=True).ok
    with perdure.open(str(tmp_path / "other.db")) as other:
        other.import_file(tmp_path / "out")
        assert other.verify("s", read_data=True).ok
    with store.session("s", workspace=root) as s:
        s.rollback(point)
        assert told(root) == was


def test_a_missing_capture_is_found(store, root: Path) -> None:
    with store.session("s", workspace=root) as s:
        s.call(write, f"{root}/a", "one")
        s.save()
    backend = store.backend
    named = {digest for entry in entries(store) for digest in rules.named(entry)}
    lease, head = backend.lease("s"), backend.head("s")
    backend.drop_chunks(list(named)[:1], seen={lease: head.seq})
    found = store.verify("s", read_data=True)
    assert not found.ok
    assert "files captured there" in str(found)
