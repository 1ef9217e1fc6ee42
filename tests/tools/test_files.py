"""File tools: what they do, that they never leave their folder, and that a rollback puts all back exactly."""

from __future__ import annotations

import os
import random
import re
import shutil
import stat
from pathlib import Path

import pytest

import perdure
from perdure import errors, limits
from perdure.testing import crash_everywhere
from perdure.tools import Toolbox, files
from perdure.tools.folder import kept, names

FULL = os.environ.get("PERDURE_STORM") == "full"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
def tools(folder):
    return files(folder)


def told(tools, name, **arguments):
    result = tools.call_sync(None, name, arguments)
    assert result.ok, result.text
    return result.text


def refused(tools, name, **arguments):
    result = tools.call_sync(None, name, arguments)
    assert not result.ok, result.text
    return result.text


def tree(folder):
    """All that is in a folder, exactly, but for the times of folders."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        status = path.lstat()
        what = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        times = status.st_mtime_ns if path.is_file() and not path.is_symlink() else None
        found[os.fsencode(path.relative_to(folder))] = stat.S_IMODE(status.st_mode), what, times
    return found


def entries(folder):
    return [os.fsencode(path.name) for path in folder.iterdir()]


# --- looking ---------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(errors.ToolError, match="is no folder"):
        files(tmp_path / "missing")


def test_reading_lines(folder, tools):
    (folder / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert told(tools, "read_file", path="a.txt", first_line=3, lines=2) == (
        "a.txt, lines 3 to 4; read on with first_line=5\nline 3\nline 4\n"
    )
    assert told(tools, "read_file", path="./a.txt", first_line=9).startswith(
        "a.txt, lines 9 to 10; the end of the file"
    )
    assert "fewer than 99 lines" in told(tools, "read_file", path="a.txt", first_line=99)
    (folder / "empty").touch()
    assert told(tools, "read_file", path="empty") == "empty is empty"
    assert "first_line and lines are 1 or more" in refused(tools, "read_file", path="a.txt", first_line=0)


def test_reading_what_is_no_text_tells_what_it_is(folder, tools):
    (folder / "image").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert told(tools, "read_file", path="image") == "image is a binary file: 108 bytes, image/png"
    (folder / "latin.txt").write_bytes("caf\xe9 au lait, tr\xe8s bien, merci beaucoup".encode("latin-1"))
    assert "caf\\xe9" in told(tools, "read_file", path="latin.txt")
    os.mkfifo(folder / "pipe")
    assert "no regular file" in refused(tools, "read_file", path="pipe")
    assert "is a folder" in refused(tools, "read_file", path=".")
    assert "there is no such file" in refused(tools, "read_file", path="missing")


def test_reading_a_huge_file_takes_little(folder, tools):
    with (folder / "huge").open("wb") as file:
        file.write(b"first\n" + b"x" * (3 << 20))
        file.truncate(1 << 40)
    result = tools.call_sync(None, "read_file", {"path": "huge"})
    assert len(result.value) < limits.TOOL_READ_CHARS_MAX * 2
    assert len(result.text) < limits.TOOL_OUTPUT_CHARS_MAX + 500
    assert "read on with first_line" in result.text


def test_listing(folder, tools):
    (folder / "b.txt").write_text("12345")
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "sub/c").touch()
    (folder / "link").symlink_to("sub/c")
    assert told(tools, "list_files").splitlines() == ["b.txt  5 bytes", "link -> sub/c", "sub/"]
    assert told(tools, "list_files", depth=2).splitlines()[2:] == ["sub/", "sub/c  0 bytes", "sub/deep/"]
    assert told(tools, "list_files", path="sub/deep") == "sub/deep is empty"
    assert "is no folder" in refused(tools, "list_files", path="b.txt")
    assert "no such folder" in refused(tools, "list_files", path="x/y")


def test_a_long_listing_is_bounded(folder, tools, monkeypatch):
    monkeypatch.setattr(limits, "TOOL_ENTRIES_COUNT_MAX", 3)
    for n in range(5):
        (folder / f"f{n}").touch()
    assert told(tools, "list_files").splitlines()[3:] == ["… and more; list one of its folders"]


def test_searching(folder, tools):
    (folder / "sub").mkdir()
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("needle")
    (folder / "a.py").write_text("one\nneedle here\n")
    (folder / "sub/b.txt").write_text("a needle\r\nnothing\nneedle\n")
    (folder / "bin").write_bytes(b"\0needle")
    (folder / "out").symlink_to("/")
    assert told(tools, "search_files", pattern="need.e").splitlines() == [
        "a.py:2:needle here",
        "sub/b.txt:1:a needle",
        "sub/b.txt:3:needle",
    ]
    assert told(tools, "search_files", pattern="needle", glob="*.py") == "a.py:2:needle here"
    assert told(tools, "search_files", pattern="needle", path="sub", matches=1).splitlines() == [
        "sub/b.txt:1:a needle",
        "… more than 1 matches",
    ]
    assert told(tools, "search_files", pattern="needle", path="a.py") == "a.py:2:needle here"
    assert told(tools, "search_files", pattern="nowhere") == "no match"
    assert "no regular expression" in refused(tools, "search_files", pattern="(")


def test_a_search_that_would_take_for_ever_is_ended(folder, tools, monkeypatch):
    monkeypatch.setattr(limits, "TOOL_SEARCH_S", 1.0)
    (folder / "a").write_text("a" * 60 + "!")
    assert "the search was ended" in refused(tools, "search_files", pattern="(a+)+$")


# --- changing --------------------------------------------------------------------------------------------------------


def test_writing_editing_appending_moving_deleting(folder, tools):
    assert told(tools, "write_file", path="x/y/a.txt", text="one two\n") == "made x/y/a.txt: 8 bytes"
    assert told(tools, "append_file", path="x/y/a.txt", text="three\n") == "changed x/y/a.txt: 14 bytes"
    assert told(tools, "edit_file", path="x/y/a.txt", old="two", new="2") == "changed x/y/a.txt: 12 bytes"
    assert (folder / "x/y/a.txt").read_text() == "one 2\nthree\n"
    assert told(tools, "move_file", source="x/y/a.txt", target="z/b.txt") == "moved x/y/a.txt to z/b.txt"
    assert (folder / "z/b.txt").read_text() == "one 2\nthree\n"
    assert told(tools, "delete_file", path="z/b.txt") == "deleted z/b.txt"
    assert told(tools, "delete_file", path="x/y") == "deleted x/y"
    assert sorted(p.name for p in folder.rglob("*")) == ["x", "z"]


def test_an_edit_is_exact_and_unique_or_refused(folder, tools):
    file = folder / "a.txt"
    file.write_bytes(b"a b\r\na c\r\n")
    assert "is in the file 2 times" in refused(tools, "edit_file", path="a.txt", old="a ", new="x ")
    assert r"end in \r\n" in refused(tools, "edit_file", path="a.txt", old="b\na", new="x")
    assert "without the white space" in refused(tools, "edit_file", path="a.txt", old=" a c\t", new="x")
    assert "is not in the file" in refused(tools, "edit_file", path="a.txt", old="zzz", new="x")
    assert "old is empty" in refused(tools, "edit_file", path="a.txt", old="", new="x")
    assert "no such file" in refused(tools, "edit_file", path="b.txt", old="a", new="x")
    assert file.read_bytes() == b"a b\r\na c\r\n"
    told(tools, "edit_file", path="a.txt", old="a ", new="x ", every=True)
    assert file.read_bytes() == b"x b\r\nx c\r\n"


def test_a_mode_is_kept_and_a_link_is_written_through(folder, tools):
    script = folder / "run.sh"
    script.write_text("echo 1\n")
    script.chmod(0o751)
    (folder / "link").symlink_to("run.sh")
    told(tools, "write_file", path="link", text="echo 2\n")
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("echo 2\n", 0o751)
    told(tools, "delete_file", path="link")
    assert script.exists()


def test_what_cannot_be_undone_is_refused(folder, tools, monkeypatch):
    monkeypatch.setattr(limits, "TOOL_FILE_BYTES_MAX", 10)
    (folder / "big").write_text("12345678901")
    assert "only files up to 10" in refused(tools, "delete_file", path="big")
    assert "is a folder" in refused(tools, "write_file", path=".", text="x")
    assert "itself is not deleted" in refused(tools, "delete_file", path=".")
    (folder / "full").mkdir()
    (folder / "full/a").touch()
    assert "not empty" in refused(tools, "delete_file", path="full")
    assert "is there already" in refused(tools, "move_file", source="full", target="big")
    assert "into itself" in refused(tools, "move_file", source="full", target="full/x/y")


def test_read_only_tools_change_nothing(folder):
    assert [one.name for one in files(folder, read_only=True)] == ["read_file", "list_files", "search_files"]
    assert {one.name: one.effect for one in files(folder)}["write_file"] == "idempotent"


# --- never out of the folder -----------------------------------------------------------------------------------------


@pytest.fixture
def outside(folder):
    secret = folder.parent / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    (folder / "to_file").symlink_to(secret / "file")
    (folder / "to_folder").symlink_to("../secret")
    (folder / "round").symlink_to("round2")
    (folder / "round2").symlink_to("round")
    (folder / "sub").mkdir()
    (folder / "sub/up").symlink_to("../..")
    return secret


@pytest.mark.parametrize(
    "path",
    [
        "../secret/file",
        "sub/../../secret/file",
        "to_file",
        "to_folder/file",
        "sub/up/secret/file",
        "round",
        "/etc/passwd",
        "../folder2/x",
    ],
)
def test_no_path_leads_out(folder, tools, outside, path):
    (folder.parent / "folder2").mkdir()
    before = tree(folder.parent)
    for name, arguments in [
        ("read_file", {"path": path}),
        ("write_file", {"path": path, "text": "x"}),
        ("append_file", {"path": path, "text": "x"}),
        ("edit_file", {"path": path, "old": "secret", "new": "x"}),
        ("list_files", {"path": path}),
        ("search_files", {"path": path, "pattern": "secret"}),
    ]:
        assert "OutsideError" in refused(tools, name, **arguments)
    assert tree(folder.parent) == before


def test_a_move_or_a_deletion_takes_the_link_and_not_what_it_leads_to(folder, tools, outside):
    told(tools, "move_file", source="to_file", target="sub/to_file")
    told(tools, "delete_file", path="to_folder")
    assert "OutsideError" in refused(tools, "move_file", source="sub/up/secret/file", target="x")
    assert "OutsideError" in refused(tools, "move_file", source="sub", target="../x")
    assert (outside / "file").read_text() == "secret"


def test_links_within_the_folder_are_followed(folder, tools):
    (folder / "real").mkdir()
    (folder / "real/a").write_text("inside")
    (folder / "short").symlink_to("real")
    (folder / "absolute").symlink_to(folder / "real")
    assert "inside" in told(tools, "read_file", path="short/a")
    assert "inside" in told(tools, "read_file", path="absolute/../real/a")
    assert "inside" in told(tools, "read_file", path=str(folder / "real/a"))


def test_a_link_that_is_put_in_between_leads_nowhere(folder, tools, outside, monkeypatch):
    """Somebody swaps a folder for a link after the path was looked at: what was looked at is what is changed."""
    (folder / "work").mkdir()
    (folder / "work/file").write_text("inside")
    look = kept.keep.__wrapped__

    def look_then_swap(*args, **kwargs):
        found = look(*args, **kwargs)
        (folder / "work").rename(folder / "moved")
        (folder / "work").symlink_to(outside)
        return found

    monkeypatch.setattr(kept, "keep", look_then_swap)
    assert "OutsideError" in refused(tools, "write_file", path="work/file", text="x")
    assert (outside / "file").read_text() == "secret"


ODD = [
    b"new\nline",
    b"\xff\xfe",
    b'quo"te',
    b"back\\slash",
    b" space ",
    b"-rf",
    "ünï".encode(),
    b"tab\t",
    b"\x1b[31m",
    b"$(x)",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_shown_so_that_they_can_be_named(folder, tools, name):
    told(tools, "write_file", path=names.shown(name), text="x\nneedle\n")
    assert entries(folder) == [name]
    (line,) = told(tools, "list_files").splitlines()
    shown = line.removesuffix("  9 bytes")
    assert shown == names.shown(name)
    assert shown.isprintable()
    assert "needle" in told(tools, "read_file", path=shown)
    assert told(tools, "search_files", pattern="needle") == f"{shown}:2:needle"
    told(tools, "move_file", source=shown, target="plain")
    assert entries(folder) == [b"plain"]


def test_a_quoted_name_is_read_back_whatever_it_is():
    for byte in range(1, 256):
        for name in (bytes([byte]), b"a" + bytes([byte]) + b"\xe2\x82\xac"):
            if b"/" not in name:
                assert names.read(names.shown(name)) == name
    with pytest.raises(ValueError, match="NUL"):
        names.read("a\0b")
    with pytest.raises(ValueError, match="a backslash stands before"):
        names.read('"\\q"')


def test_a_name_that_is_too_long_is_told(tools):
    assert "too long" in refused(tools, "write_file", path="x" * 5000, text="")


# --- in a session ----------------------------------------------------------------------------------------------------


def programme(tools):
    """Changes of every kind, one on top of the other."""
    return [
        ("write_file", {"path": "new/deep/file", "text": "new"}),
        ("edit_file", {"path": "there", "old": "old", "new": "edited"}),
        ("append_file", {"path": "there", "text": "more\n"}),
        ("delete_file", {"path": "gone"}),
        ("delete_file", {"path": "link"}),
        ("delete_file", {"path": "empty"}),
        ("move_file", {"path": None, "source": "moved", "target": "far/away/moved"}),
        ("write_file", {"path": "gone", "text": "again"}),
    ]


def prepared(folder):
    (folder / "there").write_bytes(b"old\r\n\xff\n")
    (folder / "there").chmod(0o640)
    (folder / "gone").write_bytes(bytes(range(256)))
    (folder / "gone").chmod(0o400)
    os.utime(folder / "gone", ns=(1, 1_234_567_890_123_456_789))
    (folder / "link").symlink_to("nowhere")
    (folder / "empty").mkdir(mode=0o710)
    (folder / "moved").write_text("moved")


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_a_rollback_puts_everything_back_exactly(folder, tools, kind):
    prepared(folder)
    before = tree(folder)
    seen = {}

    def changes():
        return [(name, {k: v for k, v in given.items() if v is not None}) for name, given in programme(tools)]

    @perdure.agent
    def agent(s):
        s.checkpoint("start")
        if s.strategy is None:
            for name, given in changes():
                assert tools.call_sync(s, name, given).ok
            seen["changed"] = tree(folder)
            s.rollback("start", reason="no good", strategy="other")
        return "done"

    @perdure.agent
    async def in_loop(s):
        await s.checkpoint("start")
        if s.strategy is None:
            for name, given in changes():
                assert (await tools.call(s, name, given)).ok
            seen["changed"] = tree(folder)
            await s.rollback("start", reason="no good", strategy="other")
        return "done"

    with perdure.open("memory:") as store:
        assert store.run(agent if kind == "threads" else in_loop, "q").result == "done"
    assert seen["changed"] != before
    assert b"far/away/moved" in seen["changed"]
    assert tree(folder) == before


PLACES = ["a", "b", "d/a", "d/e/a", "d", "d/e", names.shown(b"\xff\n"), names.shown(b"d/\xff"), "to_d/a", "f/g/h"]


def random_call(chance):
    place, other = chance.choice(PLACES), chance.choice(PLACES)
    text = chance.choice(["", "one\n", "two\n" * 50])
    return chance.choice(
        [
            ("write_file", {"path": place, "text": text}),
            ("append_file", {"path": place, "text": text}),
            ("edit_file", {"path": place, "old": "one", "new": "1", "every": True}),
            ("delete_file", {"path": place}),
            ("move_file", {"source": place, "target": other}),
        ]
    )


@pytest.mark.parametrize("seed", range(200 if FULL else 15))
def test_a_rollback_puts_back_whatever_was_done(folder, tools, seed):
    """Random programs, of which many calls are refused; in the middle of each it goes back, and goes on."""
    chance = random.Random(seed)
    (folder / "d/e").mkdir(parents=True)
    (folder / "d/e/a").write_text("one two\n")
    (folder / "d/e/a").chmod(0o604)
    (folder / "to_d").symlink_to("d")
    first, left, last = ([random_call(chance) for _ in range(12)] for _ in range(3))
    trees, done = [], []

    @perdure.agent
    def agent(s):
        for name, given in first:
            tools.call_sync(s, name, given)
        s.checkpoint("start")
        if s.strategy is None:
            trees.append(tree(folder))
            done.extend(tools.call_sync(s, name, given).ok for name, given in left)
            s.rollback("start", reason="no good", strategy="other")
        trees.append(tree(folder))
        for name, given in last:
            tools.call_sync(s, name, given)

    with perdure.open("memory:") as store:
        assert store.run(agent, "q").status == "completed"
    assert any(done)
    assert trees[0] == trees[1]


def test_what_somebody_else_changed_is_not_put_back(folder, tools):
    @perdure.agent
    def agent(s):
        s.checkpoint("start")
        if s.strategy is None:
            tools.call_sync(s, "write_file", {"path": "a", "text": "ours"})
            (folder / "a").write_text("theirs")
            s.rollback("start", reason="no good", strategy="other")
        return "done"

    with perdure.open("memory:") as store:
        store.run(agent, "q")
        undone = [entry for entry in store.log("q") if entry.kind == "action_finished" and entry["how"] == "error"]
    assert (folder / "a").read_text() == "theirs"
    assert len(undone) == 1


def test_what_a_person_changed_since_it_was_looked_at_is_left(folder):
    before = kept.keep(str(folder), "a")
    (folder / "a").write_text("theirs")
    with pytest.raises(kept.ChangedMeanwhileError):
        kept.change(str(folder), "a", before.kept, kept.Kept("file", b"ours"))
    assert (folder / "a").read_text() == "theirs"


@pytest.fixture(params=["threads", "loop"])
def bench(request, tmp_path):
    """An agent with file tools, and an effect that is counted beside them; it goes back once."""
    place = tmp_path / "place"

    def fresh():
        if place.exists():
            shutil.rmtree(place)
        place.mkdir()
        (place / "counted").touch()
        (place / "there").write_text("a")

    @perdure.action(effect="once")
    def count() -> str:
        """Counts."""
        with (place / "counted").open("a") as file:
            file.write("x")
        return "counted"

    @perdure.agent
    def agent(s):
        tools = Toolbox.of(files(place), count)
        tools.call_sync(s, "append_file", {"path": "there", "text": "b"})
        tools.call_sync(s, "count")
        s.checkpoint("start")
        if s.strategy is None:
            tools.call_sync(s, "append_file", {"path": "there", "text": "c"})
            tools.call_sync(s, "write_file", {"path": "new/file", "text": "d"})
            s.rollback("start", reason="no good", strategy="other")
        tools.call_sync(s, "append_file", {"path": "there", "text": "e"})
        return {path.name: path.is_file() and path.read_text() for path in place.iterdir() if path.name != "counted"}

    @perdure.agent
    async def in_loop(s):
        tools = Toolbox.of(files(place), count)
        await tools.call(s, "append_file", {"path": "there", "text": "b"})
        await tools.call(s, "count")
        await s.checkpoint("start")
        if s.strategy is None:
            await tools.call_all(s, [("append_file", {"path": "there", "text": "c"})])
            await tools.call(s, "write_file", {"path": "new/file", "text": "d"})
            await s.rollback("start", reason="no good", strategy="other")
        await tools.call(s, "append_file", {"path": "there", "text": "e"})
        return {path.name: path.is_file() and path.read_text() for path in place.iterdir() if path.name != "counted"}

    fresh()
    options = {"effects": lambda: {"count": len((place / "counted").read_text())}, "fresh": fresh}
    return (agent if request.param == "threads" else in_loop), options, place


POINTS = ["effect.before", "effect.after", "append.before", "append.after"] if FULL else ["effect.after"]


def test_killed_everywhere_each_change_is_made_once_and_undone_exactly(bench):
    agent, options, place = bench
    report = crash_everywhere(agent, points=POINTS, **options)
    assert report.lives > (60 if FULL else 12)
    assert {path.name: path.read_text() for path in place.iterdir()} == {"there": "abe", "counted": "x"}


def test_one_that_looks_again_after_a_crash_is_caught(bench, monkeypatch):
    """A wrong build: what was there before is not recorded, so a change that is made again is made twice."""
    agent, options, _ = bench
    monkeypatch.setattr(kept, "keep", kept.keep.__wrapped__)
    with pytest.raises(AssertionError, match="then resumed"):
        crash_everywhere(agent, points=["append.before"], **options)


def test_a_file_with_a_secret_is_changed_only_where_it_can_be_kept(folder, tools):
    secret = f"sk-ant-api03-{'aB3dE5fG7h' * 9}-AAAAAA"
    (folder / "env").write_text(f"KEY={secret}\nA=1\n")

    @perdure.agent
    def agent(s):
        return tools.call_sync(s, "edit_file", {"path": "env", "old": "A=1", "new": "A=2"}).text

    with perdure.open("memory:") as store:
        assert "holds what looks like a secret" in store.run(agent, "q").result
    assert (folder / "env").read_text() == f"KEY={secret}\nA=1\n"
    with perdure.open("memory:", secrets="allow") as store:
        assert store.run(agent, "q").result.startswith("changed env")


def test_what_a_killed_write_left_is_taken_by_the_next(folder, tools):
    (name,) = {kept._temporary(kept.Kept("file", b"text"), "a").decode()}
    assert re.fullmatch(r"\.perdure-[0-9a-f]{16}\.tmp", name)
    (folder / name).write_text("half of it, and longer than the whole")
    told(tools, "write_file", path="a", text="text")
    assert entries(folder) == [b"a"]
    assert (folder / "a").read_text() == "text"
