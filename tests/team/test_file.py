"""A team's file is read whole or not at all, and what is wrong with it is said by its place."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import FormatNewerError, TagError, TeamFileError, UnstorableError
from perdure.team import Memory, Plan, content, file, message
from perdure.team.form import MemoryFile
from perdure.team.kinds import plain
from tests.team import files

OURS = {
    "seed": "5e",
    "round": 2,
    "rounds_left": 1,
    "inboxes": {"Writer": ["b2"]},
    "cut_off": {"Writer": {"round": 2, "made": [], "taken": 1}},
}

FREE = ("language", "seen", "temperature", "depth", "i_context", "kwargs", "value", "metadata", "token_costs")
"""Keys under which anything may stand that JSON holds."""

STORM = os.environ.get("PERDURE_STORM") == "full"

WRONG: dict[type, Any] = {str: 5, bool: "x", int: "x", float: "x", list: {}, dict: [], type(None): 5}

NEEDED = {
    *("env", "investment", "idea", "roles"),
    *("name", "profile", "actions", "rc", "__module_class_name"),
    *("memory", "storage", "state", "watch", "react_mode"),
    *("id", "content", "instruct_content", "role", "cause_by", "sent_from", "send_to"),
    "task_id",
}


@pytest.fixture
def theirs() -> dict[str, Any]:
    """The JSON of a file without our part, as MetaGPT writes it."""
    return json.loads(file.dumps(files.team()))


def loaded(value: Any) -> Any:
    return file.loads(json.dumps(value).encode())


def problem(value: Any) -> str:
    """What is wrong with a file; "" if nothing is."""
    try:
        loaded(value)
    except TeamFileError as error:
        return str(error)
    return ""


def told(path: tuple[Any, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def place(error: BaseException) -> str:
    """The path that an error names."""
    found = re.search(r"team\.json: (\$.*?): ", str(error))
    assert found, error
    return found[1]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_file_of_an_earlier_day_is_read_as_it_was_written() -> None:
    team = file.read(files.OURS)
    assert team == files.team(perdure=OURS, more={"env_desc": "a small office"})
    assert file.dumps(team) + b"\n" == files.OURS.read_bytes()


def test_a_file_is_found_in_its_folder_its_storage_or_its_workspace(tmp_path: Path) -> None:
    deep = tmp_path / "workspace/storage/team"
    written = file.write(deep, files.team())
    assert written == deep / "team.json"
    for way in (written, deep, tmp_path / "workspace", tmp_path, str(tmp_path)):
        assert file.read(way) == files.team()


def test_a_file_that_is_not_there_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(TeamFileError) as caught:
        file.read(tmp_path)
    for folder in ("", "storage/team", "workspace/storage/team"):
        assert str(tmp_path / folder / "team.json") in str(caught.value)


def test_keys_that_are_not_known_come_back_where_they_were(theirs: dict[str, Any]) -> None:
    for path in files.paths(theirs):
        at = theirs
        for step in path:
            at = at[step]
        if isinstance(at, dict) and not {*path} & {*FREE, "roles", "index", "task_map", "mapping", "instruct_content"}:
            at["from a later version"] = [{"a": 1}]
    assert json.loads(file.dumps(loaded(theirs))) == theirs


def test_classes_that_are_not_known_can_be_looked_at_and_are_named() -> None:
    team = file.read(files.OURS)
    assert team.unknown_classes() == [
        *("acts.Collector", "acts.DraftNotes", "acts.Outline", "acts.WriteReport", "acts.Writer")
    ]
    assert team.unknown_contents() == ["acts.Outline"]
    assert {one["id"] for one in team.messages()} == {"a1", "b2", "c3"}
    assert team.env.roles["Writer"].rc.memory.storage[1]["instruct_content"]["value"] == {
        "parts": ["sources", "mouths"]
    }


def test_what_it_holds_becomes_messages_memories_and_plans_and_back() -> None:
    role = file.read(files.OURS).env.roles["Writer"]
    memory = Memory.model_validate(plain(role.rc.memory))
    assert memory.model_dump() == plain(role.rc.memory)
    assert memory.get_by_action("acts.Outline")[0].instruct_content.parts == ["sources", "mouths"]
    observed = message.load(role.latest_observed_msg)
    assert message.dump(observed) == role.latest_observed_msg
    assert observed.instruct_content == content.load(files.NOTES["instruct_content"])
    plan = Plan.model_validate(plain(role.planner.plan))
    assert plan.current_task.instruction == "write"
    assert plan.model_dump() == plain(role.planner.plan)


def test_a_type_in_it_that_is_not_understood_is_kept_until_somebody_builds_it(theirs: dict[str, Any]) -> None:
    observed = theirs["env"]["roles"]["Writer"]["latest_observed_msg"]
    observed["instruct_content"]["mapping"]["points"] = "(exit(), Ellipsis)"
    team = loaded(theirs)
    assert json.loads(file.dumps(team)) == theirs
    with pytest.raises(TagError, match=r"exit\(\)"):
        message.load(team.env.roles["Writer"].latest_observed_msg)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    data = files.OURS.read_bytes().rstrip()
    for length in range(len(data)):
        with pytest.raises(TeamFileError, match="no whole JSON file"):
            file.loads(data[:length])


def test_a_file_in_which_any_byte_is_another_is_refused() -> None:
    data = files.OURS.read_bytes().rstrip()
    taken = []
    ends = (*range(40), *range(len(data) - 400, len(data)))
    for at in range(len(data)) if STORM else sorted({*ends, *range(0, len(data), 5)}):
        changed = bytearray(data)
        changed[at] ^= 1
        try:
            file.loads(bytes(changed))
        except (TeamFileError, FormatNewerError):
            continue
        taken.append((at, bytes(changed[at - 10 : at + 10])))
    assert taken == []


def test_a_value_of_another_type_is_refused_by_its_path(theirs: dict[str, Any]) -> None:
    seen = 0
    for path in files.paths(theirs):
        if {*path} & {*FREE}:
            continue
        at = theirs
        for step in path:
            at = at[step]
        with pytest.raises(TeamFileError) as caught:
            loaded(files.put(theirs, path, WRONG[type(at)]))
        named = place(caught.value)
        assert told(path).startswith(named), (path, named)
        inside = path.index("instruct_content") + 1 if "instruct_content" in path else len(path)
        assert told(path[:inside]) == named or path[:-1] == ("context",), (path, named)
        seen += 1
    assert seen > 200


def test_a_key_that_is_missing_is_named_or_has_a_value_of_its_own(theirs: dict[str, Any]) -> None:
    needed = set()
    for path in files.paths(theirs):
        if not path or isinstance(path[-1], int) or {*path} & {*FREE}:
            continue
        fewer = files.put(theirs, path, None)
        at = fewer
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]
        error = problem(fewer)
        if f"{told(path[:-1])}: the key {path[-1]!r} is missing" in error:
            needed.add(path[-1])
        else:
            assert error == "" or path[-1] in ("mapping", "module", "class") or "no task" in error, error
    assert needed == NEEDED


@pytest.mark.parametrize(
    ("path", "item", "words"),
    [
        (("env", "roles", "Writer", "rc", "state"), 2, "2 is none of -1 to 1"),
        (("env", "roles", "Writer", "rc", "state"), -2, "-2 is none of -1 to 1"),
        (("env", "roles", "Writer", "rc", "react_mode"), "again", "one of react, by_order, plan_and_act"),
        (("env", "roles", "Writer", "rc", "max_react_loop"), -1, "a count is expected"),
        (("env", "roles", "Writer", "profile"), "Editor", r"\$\.env\.roles\.Writer: here stands 'Ben'.*'Editor'"),
        (("env", "roles", "Writer", "rc", "memory", "index"), {"acts.Outline": [files.NOTES]}, "'b2' is not in"),
        (("env", "roles", "Writer", "rc", "memory", "index"), {"acts.Outline": [files.IDEA]}, "something else caused"),
        (("env", "roles", "Writer", "planner", "plan", "tasks", 1, "task_id"), "1", "two tasks have one id"),
        (("env", "roles", "Writer", "planner", "plan", "current_task_id"), "9", "no task '9'"),
        (("context", "cost_manager"), "{", "its text is no JSON"),
        (("context", "cost_manager"), '{"total_cost": "much"}', r"cost_manager\.total_cost: a number is expected"),
        (("context", "cost_manager"), '{"total_prompt_tokens": -1}', "a count is expected"),
        ((), 3, "an object is expected, not 3"),
        ((), [], "an object is expected"),
        ((), None, "an object is expected"),
    ],
)
def test_values_that_contradict_one_another_are_refused(
    theirs: dict[str, Any], path: tuple[Any, ...], item: Any, words: str
) -> None:
    with pytest.raises(TeamFileError, match=words):
        loaded(files.put(theirs, path, item))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no whole JSON"),
        (b"\xff\xfe{}", "no whole JSON"),
        (b"\xef\xbb\xbf{}", "no whole JSON"),
        (b'{"idea": NaN}', "NaN is no JSON"),
        (b'{"idea": -Infinity}', "-Infinity is no JSON"),
        (b'{"idea": 1, "idea": 2}', "'idea' stands twice"),
        (b"[" * 200_000, "nested too deep"),
        (b'{"idea": ' + b"9" * 10_000 + b"}", "no whole JSON"),
    ],
    ids=range(8),
)
def test_what_is_no_json_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(TeamFileError, match=words):
        file.loads(data)


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_that_is_none_is_refused_wherever_it_stands(theirs: dict[str, Any], number: str) -> None:
    for path in (("investment",), ("context", "kwargs"), ("env", "new"), ("env", "roles", "Writer", "seen")):
        text = json.dumps(files.put(theirs, path, "HERE")).replace('"HERE"', f'{{"a": [{number}]}}')
        with pytest.raises(TeamFileError, match=re.escape(told(path))):
            file.loads(text.encode())


def test_values_that_are_nested_without_end_are_refused(theirs: dict[str, Any]) -> None:
    theirs["env"]["more"] = json.loads("[" * 300 + "]" * 300)
    with pytest.raises(TeamFileError, match="deep"):
        loaded(theirs)


def written(team: file.TeamFile) -> file.TeamFile:
    """As it is once it was written: by nobody's hand."""
    if team.perdure is None:
        return team
    return dataclasses.replace(team, perdure={k: v for k, v in team.perdure.items() if k != file.EDITED})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just(files.IDEA),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

WHOLE = json.loads(file.dumps(files.team(perdure=OURS)))


@given(st.sampled_from(files.paths(WHOLE)), ANYTHING)
def test_a_file_with_anything_in_it_is_read_exactly_or_refused(path: tuple[Any, ...], item: Any) -> None:
    value = files.put(WHOLE, path, item)
    if path[:1] != ("perdure",) and path:
        value["perdure"]["digest"] = None
    try:
        team = loaded(value)
    except (TeamFileError, FormatNewerError):
        return
    again = json.loads(file.dumps(team))
    assert loaded(again) == written(team)
    assert files.is_within(value, again)


# --- our part ---------------------------------------------------------------------------------------------------------


def test_a_file_of_a_newer_perdure_is_told_as_such() -> None:
    value = json.loads(files.OURS.read_bytes())
    value["perdure"]["form"] = file.FORM + 1
    value["env"] = "something else"
    with pytest.raises(FormatNewerError, match=f"its form is {file.FORM + 1}"):
        loaded(value)


@pytest.mark.parametrize("form", [None, 0, "1", True, 1.0, "gone"])
def test_a_form_that_never_was_is_refused(form: Any) -> None:
    value = json.loads(files.OURS.read_bytes())
    value["perdure"]["form"] = form
    if form == "gone":
        del value["perdure"]["form"]
    with pytest.raises(TeamFileError, match=r"\$\.perdure"):
        loaded(value)


def test_a_file_that_was_changed_by_hand_says_how_it_is_taken() -> None:
    value = json.loads(files.OURS.read_bytes())
    value["env"]["roles"]["Writer"]["goal"] = "write less"
    with pytest.raises(TeamFileError, match=r"\$\.perdure\.digest.*put null here"):
        loaded(value)
    value["perdure"]["digest"] = None
    assert loaded(value).env.roles["Writer"].goal == "write less"
    del value["perdure"]["digest"]
    with pytest.raises(TeamFileError, match=r"\$\.perdure\.digest"):
        loaded(value)


def test_a_file_that_was_laid_out_otherwise_is_the_same_file() -> None:
    value = json.loads(files.OURS.read_bytes())
    assert file.loads(json.dumps(value, indent=4, sort_keys=True).encode()) == file.read(files.OURS)


def test_a_file_without_our_part_gets_none() -> None:
    assert "perdure" not in json.loads(file.dumps(files.team()))
    assert json.loads(file.dumps(files.team(perdure={})))["perdure"].keys() == {"form", "digest"}
    assert file.loads(file.dumps(files.team(perdure={}))).perdure == {}


# --- as MetaGPT has it ------------------------------------------------------------------------------------------------


def test_a_file_is_at_most_twice_what_is_remembered() -> None:
    said = [message.dump(message.Message(f"{n} " * 50, role="r", cause_by=f"acts.A{n % 3}")) for n in range(5000)]
    team = files.team(perdure={})
    empty = len(file.dumps(team))
    writer = team.env.roles["Writer"]
    full = dataclasses.replace(writer, rc=dataclasses.replace(writer.rc, memory=MemoryFile.of(said)))
    team.env.roles["Writer"] = full
    assert len(file.dumps(team)) - empty <= 2 * len(json.dumps(said, ensure_ascii=False, separators=(",", ":")))


@pytest.fixture(scope="module")
def sample() -> Path:
    """The file that MetaGPT wrote."""
    place = Path(os.environ.get("PERDURE_METAGPT") or Path(__file__).resolve().parents[3] / "shared/data/metagpt")
    if not place.is_dir():
        pytest.skip("the file that MetaGPT wrote is not here")
    return place / "team.json"


def test_a_file_of_metagpt_is_imported_exactly(sample: Path) -> None:
    team = file.read(sample)
    writer, collector = team.env.roles["Writer"], team.env.roles["Collector"]
    assert (writer.rc.state, writer.rc.react_mode, len(writer.actions)) == (1, "by_order", 2)
    assert [one["content"] for one in writer.rc.memory.storage] == ["write a report about rivers", "outline ready"]
    assert writer.latest_observed_msg["content"] == "notes drafted"
    assert (collector.rc.state, collector.latest_observed_msg) == (-1, None)
    assert team.unknown_classes() == [
        *("acts.Collector", "acts.DraftNotes", "acts.Outline", "acts.WriteReport", "acts.Writer")
    ]
    assert team.context.cost.token_costs["gpt-4o"] == {"prompt": 0.005, "completion": 0.015}
    for role in (writer, collector):
        assert Memory.model_validate(plain(role.rc.memory)).model_dump() == plain(role.rc.memory)
    assert message.load(writer.latest_observed_msg).instruct_content.points == ["one", "two"]


def test_a_file_of_metagpt_is_written_as_it_was(sample: Path) -> None:
    value, again = json.loads(sample.read_bytes()), json.loads(file.dumps(file.read(sample)))
    spent, spent_again = (json.loads(one["context"].pop("cost_manager")) for one in (value, again))
    assert json.dumps(again) == json.dumps(value)
    assert json.dumps(spent_again) == json.dumps(spent)


def test_a_file_of_ours_has_the_keys_and_types_of_one_of_metagpt(sample: Path) -> None:
    value, ours = json.loads(sample.read_bytes()), json.loads(file.dumps(plain_team()))
    spent, spent_ours = (json.loads(one["context"]["cost_manager"]) for one in (value, ours))
    del spent["token_costs"]  # left out, so that MetaGPT takes the prices that it knows
    assert files.structure(spent_ours) == files.structure(spent)
    assert files.structure(ours) == files.structure(value)


def plain_team() -> Any:
    """The team of the sample, made of parts that say no more than they must."""
    team = files.team()
    writer = team.env.roles["Writer"]
    team.env.roles["Writer"] = dataclasses.replace(
        writer,
        actions=[files.action("Outline"), files.action("WriteReport")],
        rc=dataclasses.replace(
            writer.rc,
            memory=MemoryFile(
                storage=[files.IDEA, {**files.OUTLINE, "instruct_content": None}],
                index={
                    files.IDEA["cause_by"]: [files.IDEA],
                    "acts.DraftNotes": [],
                    "acts.Outline": [{**files.OUTLINE, "instruct_content": None}],
                },
            ),
            working_memory=MemoryFile(),
        ),
        planner=type(writer.planner)(),
        latest_observed_msg=files.NOTES,
        more={},
    )
    return team


def test_a_tree_that_could_not_be_read_back_is_not_written() -> None:
    team = files.team()
    odd = dataclasses.replace(team.env.roles["Writer"], more={"seen": [{"a": (1, 2)}]})
    for broken, path in (
        (dataclasses.replace(team, investment=float("nan")), "$.investment"),
        (dataclasses.replace(team, idea=None), "$.idea"),
        (dataclasses.replace(team, more={"a": {1: 2}}), "$.a"),
        (dataclasses.replace(team, perdure={"at": {1, 2}}), "$.perdure.at"),
        (dataclasses.replace(team, env=dataclasses.replace(team.env, roles={"Writer": odd})), ".Writer.seen[0].a"),
    ):
        with pytest.raises(UnstorableError, match=re.escape(path)):
            file.dumps(broken)


def test_half_of_a_surrogate_pair_comes_back() -> None:
    team = files.team(perdure={"text": "\ud800"})
    assert file.loads(file.dumps(team)) == team
