"""The scripts as the server has them: each defines all that it names of what scripts have in common, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from redis import Redis

from perdure.stores.redis import scripts

COMMON = ("common", "writing", "lasting")
LUA = Path(scripts.__file__).with_name("lua")
NAMES = sorted(path.stem for path in LUA.glob("*.lua") if path.stem not in COMMON)
STRING = re.compile(r"'[^']*'")


def parts(text: str) -> list[tuple[set[str], set[str]]]:
    """Of each definition that stands at the beginning of a line, which names it defines, and which it says."""
    found = []
    for part in re.findall(r"^local .*?(?=^local |\Z)", text, re.MULTILINE | re.DOTALL):
        first = re.match(r"local (?:function (\w+)|([\w, ]+))", part)
        assert first
        names = set(re.findall(r"\w+", first[1] or first[2]))
        found.append((names, set(re.findall(r"\w+", STRING.sub("", part)))))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_script_defines_what_it_names_of_what_is_in_common(name: str) -> None:
    found = scripts.script(name)
    text, own = found.text.partition("return run(")[::2]
    common = parts("\n".join(map(scripts._file, COMMON if found.writes else COMMON[:1])))
    there = {one for names, _ in parts(text) for one in names}
    for place, (names, said) in enumerate([*common, (set(), set(re.findall(r"\w+", STRING.sub("", own))))]):
        if names <= there:
            before = {one for others, _ in common[:place] for one in others}
            assert said & before <= there


def test_an_append_does_not_define_what_only_others_need() -> None:
    assert "local function add(" in scripts.script("create").text
    assert "local function add(" not in scripts.script("append").text
    assert "local function check_kin(" not in scripts.script("append").text


@pytest.mark.parametrize("name", NAMES)
def test_the_server_takes_it(admin: Redis, name: str) -> None:
    assert admin.script_load(scripts.script(name).text).encode() == scripts.script(name).sha


def test_what_is_in_common_begins_with_a_definition() -> None:
    for part in COMMON:
        lines = [line for line in scripts._file(part).splitlines() if line]
        assert lines[0].startswith("local ")
        assert all(line.startswith(("local ", " ", "end", "}")) for line in lines)
