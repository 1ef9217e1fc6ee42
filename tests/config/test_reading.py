"""What is wrong in a configuration is told, all of it, with its place and key; and nothing is guessed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perdure import limits
from perdure.errors import ConfigError
from perdure.ops.config.finding import find
from perdure.ops.config.loading import load
from perdure.ops.config.settings import Settings


def loaded(tmp_path: Path, text: str | bytes, **environment: str) -> Settings:
    file = tmp_path / "perdure.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(file, environment=environment)


def problems(tmp_path: Path, text: str | bytes, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, text, **environment)
    return [str(one).removeprefix(f"{tmp_path}/") for one in raised.value.problems]


def test_every_problem_is_told_at_once_with_line_and_key(tmp_path: Path) -> None:
    text = """\
storage:
  urll: a.db
  lease_s: soon
recovery:
  use: newest
  partial: yes
retension:
  keep_last: 3
progress:
  repeat_count: 1
journal:
  backups: 3
"""
    told = problems(tmp_path, text, PERDURE_STATE__KEYFRAMES="3")
    begins = {one.rsplit(": ", 1)[0] if one.count(": ") == 1 else ": ".join(one.split(": ")[:2]) for one in told}
    assert begins == {
        "perdure.yaml:2: storage.urll",
        "perdure.yaml:3: storage.lease_s",
        "perdure.yaml:5: recovery.use",
        "perdure.yaml:6: recovery.partial",
        "perdure.yaml:7: retension",
        "perdure.yaml:10: progress.repeat_count",
        "perdure.yaml:11: journal.path",
        "PERDURE_STATE__KEYFRAMES: state.keyframes",
    }
    assert any("did you mean url?" in one for one in told)
    assert any("did you mean retention?" in one for one in told)


TRAPS = {
    "octal": ("state: {keyframe_deltas: 010}", "1: state.keyframe_deltas: '010'"),
    "sexagesimal": ("state:\n  keyframe_deltas: 1:30", "2: state.keyframe_deltas: '1:30'"),
    "a quoted number": ("state:\n  keyframe_deltas: '30'", "without quotation marks"),
    "yes": ("recovery: {partial: on}", "write true or false"),
    "not a number": ("storage: {lease_s: .nan}", "storage.lease_s: '.nan'"),
    "infinite": ("storage: {lease_s: 1e999}", "lease_s=inf"),
    "a key twice": ("storage:\n  url: a\n  url: b", "3: storage.url: is said twice, first at"),
    "a section twice": ("storage: {url: a}\nstorage: {url: b}", "2: storage: is said twice"),
    "an anchor": ("storage: &s {url: a}", "1: storage: &s: anchors"),
    "an alias": ("progress: {models: [a, *x]}", "progress.models[1]: *x: aliases"),
    "a tag": ("storage: {url: !!python/name:os.system ''}", "tags are not read here"),
    "a merge key": ("storage:\n  <<: {url: a}", "2: storage: <<: merge keys"),
    "a second document": ("storage: {url: a}\n---\nstorage: {url: b}", "2: a second document"),
    "a tab": ("storage:\n\turl: a", "2: is no YAML"),
    "a control character": ("storage:\n  url: a\x07", "2: a character that YAML does not allow: U+0007"),
    "not UTF-8": (b"storage:\n  url: \xff", "2: is not UTF-8"),
    "too long": (b"#" * (limits.CONFIG_BYTES_MAX + 1), "is longer than"),
    "too deep": ("storage: " + "[" * 500, "nested too deeply"),
    "a list": ("- storage", "1: is no mapping of sections"),
    "a section that is text": ("storage: agents.db", "1: storage: is a section"),
    "a key that is none": ("storage: {[a]: b}", "a key is a name"),
    "nothing where something is needed": ("storage: {url: null}", "storage.url: needs a value"),
    "tiers without their URL": ("storage: {hot: a.db, cold: b.db}", "hot and cold are for url"),
    "one tier": ("storage: {url: 'tiered:', hot: a.db}", "hot and cold are said together"),
    "a wait that the store has not": ("storage: {url: 'memory:', busy_s: 3}", "storage.busy_s: busy_s is for sqlite"),
    "a point for every run": ("recovery: {use: at}", "use='at' needs a point"),
    "a secret that is none": ("storage: {password: secret://x}", "storage.password"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_told(trap: str, tmp_path: Path) -> None:
    text, told = TRAPS[trap]
    assert any(told in one for one in problems(tmp_path, text)), problems(tmp_path, text)


def test_laughs_are_not_multiplied(tmp_path: Path) -> None:
    lines = ["a0: &a0 [lol]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert any("aliases" in one for one in problems(tmp_path, "\n".join(lines)))


def test_a_text_is_what_its_key_wants(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "\ufeffstorage: {url: 'memory:', lease_s: 2 min}\n"
        "progress: {ignore: [no, 010, 1:30, 2026-01-01, ~x], repeat_count: 7}\n"
        "retention: {bytes_max: 1.5 GB, keep_s: 1e3, keep_last: null}\n"
        "failure_policy: {rollback_to: {tool_error: start, invalid_output: -1}, budget: {usd: 1.5}}\n",
    )
    assert found.storage is not None
    assert found.progress is not None
    assert found.retention is not None
    assert found.failure_policy is not None
    assert found.storage.lease_s == 120
    assert (found.progress.ignore, found.progress.repeat_count) == (("no", "010", "1:30", "2026-01-01", "~x"), 7)
    assert (found.retention.bytes_max, found.retention.keep_s, found.retention.keep_last) == (1_500_000_000, 1000, None)
    assert found.failure_policy.rollback_to == {"tool_error": "start", "invalid_output": -1}
    assert found.failure_policy.budget == {"usd": 1.5}


@pytest.mark.parametrize("text", ["", "# nothing", "storage:\n", "---\n", "null"])
def test_a_file_may_say_nothing(text: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, text).storage is None


def test_the_environment_is_stronger_than_the_file_and_options_than_both(tmp_path: Path) -> None:
    file = tmp_path / "perdure.yaml"
    file.write_text("storage: {url: file.db, lease_s: 3}\nretention: {keep_last: 1, keep_s: 5}\n")
    said = {"PERDURE_STORE": "env.db", "PERDURE_RETENTION__KEEP_LAST": "2", "PERDURE_WITNESS": "", "HOME": "/"}
    found = load(file, environment=said, options={("storage", "url"): ("flag.db", "--store")})
    assert found.storage is not None
    assert found.retention is not None
    assert (found.storage.url, found.storage.lease_s) == ("flag.db", 3)
    assert (found.retention.keep_last, found.retention.keep_s) == (2, 5)
    assert found.places["storage", "url"] == "--store"
    assert found.places["retention", "keep_last"] == "PERDURE_RETENTION__KEEP_LAST"
    assert found.places["retention", "keep_s"] == f"{file}:2"


def test_one_key_under_two_names_is_told(tmp_path: Path) -> None:
    told = problems(tmp_path, "", PERDURE_STORE="a", PERDURE_STORAGE__URL="b")
    assert told == ["PERDURE_STORE: storage.url: is said by PERDURE_STORAGE__URL, too: set one of them"]


def test_what_belongs_to_a_store_does_not_go_with_the_url_of_another(tmp_path: Path) -> None:
    text = (
        "storage: {url: 'redis://a/0', password: secret://env/P, witness: w}\nsecurity: {keys: 'env:K', secrets: mask}"
    )
    kept, left = loaded(tmp_path, text), loaded(tmp_path, text, PERDURE_STORE="redis://b/0")
    assert kept.storage is not None
    assert left.storage is not None
    assert left.security is not None
    assert kept.storage.password is not None
    assert (left.storage.password, left.storage.witness, left.security.keys) == (None, None, None)
    assert left.security.secrets == "mask"


def test_paths_of_a_file_are_beside_it(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, "storage: {url: a.db, witness: w}\nsecurity: {keys: 'file:k,env:K'}\njournal: {path: j.ndjson}\n"
    )
    assert found.storage is not None
    assert found.security is not None
    assert found.journal is not None
    assert (found.storage.url, found.storage.witness) == (f"{tmp_path}/a.db", f"{tmp_path}/w")
    assert found.security.keys == f"file:{tmp_path}/k,env:K"
    assert found.journal.path == tmp_path / "j.ndjson"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "perdure.yaml")
    with pytest.raises(ConfigError, match="is not a file"):
        load(tmp_path / "perdure.yaml", environment={})


@pytest.mark.parametrize(("mark", "is_found"), [(None, False), (".git", True), ("pyproject.toml", True)])
def test_it_is_looked_for_up_to_the_root_of_the_project(
    mark: str | None, is_found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_CONFIG", raising=False)
    root, here = tmp_path / "root", tmp_path / "root/a/b"
    here.mkdir(parents=True)
    (tmp_path / "perdure.yaml").touch()
    monkeypatch.chdir(here)
    if mark:
        (root / mark).touch()
    assert find() is None, "what is above the project is none of ours"
    (root / "perdure.yaml").touch()
    assert (find() == root / "perdure.yaml") is is_found
    monkeypatch.setenv("PERDURE_CONFIG", "other.yaml")
    assert find() == here / "other.yaml"
