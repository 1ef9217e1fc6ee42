"""A file tool in a workspace: both know how to take a change back; it is taken back once, and stands nowhere."""

from __future__ import annotations

from pathlib import Path

import perdure
from perdure.tools import files


def test_what_the_workspace_took_back_is_undone_and_may_be_done_again(tmp_path: Path) -> None:
    """Two changes of one file, of which the rollback leaves neither: the undo of the second does not find the first."""
    tools = files(tmp_path)
    (tmp_path / "base").write_text("base")

    @perdure.agent(workspace=tmp_path)
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is None:
            for text in ("one", "two"):
                tools.call_sync(s, "write_file", {"path": "made/a", "text": text})
            tools.call_sync(s, "move_file", {"source": "base", "target": "moved"})
            s.rollback("start", strategy="again")
        return tools.call_sync(s, "write_file", {"path": "made/a", "text": "two"}).text

    with perdure.open("memory:") as store:
        outcome = store.run(agent, "q")
        assert outcome.result == "made made/a: 3 bytes", outcome
        assert store.detail("q").standing == ()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["base", "made", "made/a"]


def test_what_the_workspace_leaves_out_the_tool_undoes(tmp_path: Path) -> None:
    tools = files(tmp_path)

    @perdure.agent(workspace=tmp_path)
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is None:
            tools.call_sync(s, "write_file", {"path": ".venv/a", "text": "one"})
            s.rollback("start", strategy="again")
        return "done"

    with perdure.open("memory:") as store:
        assert store.run(agent, "q").result == "done"
        assert store.detail("q").standing == ()
    assert [*tmp_path.iterdir()] == []
