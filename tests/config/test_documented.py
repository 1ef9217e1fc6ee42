"""Every key is on the page, with its default and its meaning, and no other is; the file of `init` says the same."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from perdure.ops.config.keys import every_key, keys_of
from perdure.ops.config.loading import SHORT, load
from perdure.ops.config.sections import SECTIONS
from perdure.ops.config.settings import Settings
from perdure.ops.config.writing import schema, table, template

PAGE = (Path(__file__).resolve().parents[2] / "docs/configuration.md").read_text()


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_on_the_page_as_it_is_declared(section: str) -> None:
    written = PAGE.partition(f"\n## `{section}`\n")[2].partition("\n## ")[0].strip()
    assert written == f"{SECTIONS[section].told}\n\n" + "\n".join(table(section))


def test_no_other_section_and_variable_is_on_the_page() -> None:
    assert re.findall(r"^## `(\w+)`", PAGE, re.MULTILINE) == list(SECTIONS)
    assert set(SHORT) <= set(re.findall(r"PERDURE_[A-Z]+(?!\w)", PAGE))


def test_every_key_is_told_and_every_section_is_a_setting() -> None:
    assert [key.dotted for key in every_key() if not key.told] == []
    assert {field.name for field in dataclasses.fields(Settings)} - {"places", "file"} == set(SECTIONS)


def test_the_file_of_init_says_nothing_and_uncommented_says_every_default(tmp_path: Path) -> None:
    file = tmp_path / "perdure.yaml"
    file.write_text(template())
    assert load(file, environment={}) == Settings(file=file)
    whole = re.sub(r"^#(?=\S|  )", "", template(), flags=re.MULTILINE)
    file.write_text(re.sub(r"^  (zone|path|url): .*", r"  \1: x", whole, flags=re.MULTILINE))
    said = load(file, environment={})
    assert {path for path in said.places if len(path) == 2} == {(key.section, key.name) for key in every_key()}
    for key in every_key():
        if key.name not in ("zone", "path", "url"):
            assert getattr(getattr(said, key.section), key.name) == key.default, key.dotted


def test_the_schema_takes_what_is_right_and_refuses_an_unknown_key() -> None:
    told = schema()
    jsonschema.Draft202012Validator.check_schema(told)
    right = yaml.safe_load(
        "storage: {url: a.db, lease_s: 30s}\nretention: {bytes_max: 2GB, keep_last: null}\nprogress:"
    )
    jsonschema.validate(right, told)
    for wrong in (
        {"storage": {"urll": "a"}},
        {"retension": {}},
        {"state": {"keyframe_deltas": "many"}},
        {"journal": {}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, told)


def test_a_variable_is_named_after_its_key() -> None:
    assert keys_of("retention")["keep_last"].variable == "PERDURE_RETENTION__KEEP_LAST"
