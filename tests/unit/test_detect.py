"""Secrets are found by shape, by the name of their field and if they were revealed; ordinary text is left alone."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import values
from perdure.errors import SecretFoundError
from perdure.values import detect, tokens
from perdure.values.guard import ALLOW, MASK, REFUSE
from tests.property import classes as c

ROOT = Path(__file__).resolve().parents[2]
RUN = "aB3dE6gH9k" * 12
HEX = "0a1b2c3d" * 12

TOKENS = {
    "anthropic": "sk-" + "ant-api03-" + RUN[:40],
    "openai": "sk-" + RUN[:48],
    "openai project": "sk-" + "proj-" + RUN[:100],
    "aws": "AK" + "IA" + "ABCD2345EFGH6723",
    "github": "gh" + "p_" + RUN[:36],
    "github fine": "github" + "_pat_" + RUN[:60],
    "gitlab": "gl" + "pat-" + RUN[:20],
    "google": "AI" + "za" + RUN[:35],
    "slack": "xo" + "xb-1234567890-" + RUN[:20],
    "stripe": "sk" + "_live_" + RUN[:24],
    "huggingface": "hf" + "_" + RUN[:34],
    "npm": "npm" + "_" + RUN[:36],
    "pypi": "pypi-" + "AgE" + RUN[:60],
    "sendgrid": "SG." + RUN[:22] + "." + RUN[:43],
    "telegram": "123456789:" + "AA" + RUN[:33],
    "vault": "hvs" + "." + RUN[:30],
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + RUN[:30] + "." + RUN[:40],
    "digitalocean": "dop" + "_v1_" + HEX[:64],
    "databricks": "da" + "pi" + HEX[:32],
    "shopify": "shp" + "at_" + HEX[:32],
    "bearer": "Authorization: Bearer " + RUN[:40],
    "bearer of digits": "Authorization: Bearer " + HEX[:40],
    "basic of digits": "Basic " + HEX[:40],
    "sendgrid of digits": "SG." + HEX[:22] + "." + HEX[:43],
    "vault of digits": "hvs" + "." + HEX[:30],
    "url": "postgresql://agent:s3cr3tPw@db.internal/x",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE" + RUN + "\n-----END RSA " + "PRIVATE KEY-----",
}

ORDINARY = [
    "The token count is 4096, of which max_tokens=512 are left; task-1234567890abcdef1234 is done.",
    "call_aB3dE6gH9kaB3dE6gH9kaB3d chatcmpl-aB3dE6gH9kaB3dE6gH9kaB3d toolu_01aB3dE6gH9kaB3dE6gH9k",
    "sk-learn is scikit-learn-extra-package-name-v2; disk-usage-monitor-daemon-process-2",
    "https://example.org:8080/path?x=1@2 and git@github.com:owner/repository-with-a-long-name.git",
    "postgresql://user:${PASSWORD}@host/db and http://<user>:<password>@host/",
    "AKIAIOSFODNN7EXAMPLE is the key in every manual, as is sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "550e8400-e29b-41d4-a716-446655440000 " + HEX[:40] + " /usr/lib/python3/dist-packages/some_module_name.py",
    base64.b64encode(bytes(range(256)) * 20).decode(),
]

NAMED = [("api_key", "x9F3k2"), ("OPENAI_API_KEY", "abcdef"), ("X-API-Key", "abcdef1"), ("password", "hunter2")]
NAMED += [("clientSecret", "correct-horse"), ("Authorization", "Basic dXNlcg=="), ("db.password", "pässwort")]
NAMED += [("token", RUN[:20]), ("session_cookie", RUN[:30])]

NOT_NAMED = [
    ("max_tokens", "123456789"),
    ("token", "hello"),
    ("tokens", RUN[:40]),
    ("password", ""),
    ("secret", "santa"),
]
NOT_NAMED += [
    ("nextPageToken", RUN[:40]),
    ("api_key", "${API_KEY}"),
    ("password", "<your password>"),
    ("password", "string"),
]
NOT_NAMED += [("api_key", "your-api-key-here"), ("authorization", "a manager must agree"), ("password", "********")]
NOT_NAMED += [("api_key", tokens.MASK), ("api_key", "secret://env/API_KEY")]


def paths(value: Any) -> list[str]:
    found = detect.search(values.encode(value))
    return [] if found is None else found.paths


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "see {} there", "x={};", '{{"k": "{}"}}', "é{}é", "line\\n{}", "job-{}", "KEY_{}"]
)
def test_a_token_is_found_in_any_text_and_only_it_is_masked(name: str, around: str) -> None:
    text = around.format(TOKENS[name])
    made = tokens.masked(text)
    assert tokens.MASK in made
    assert RUN[:16] not in made
    assert HEX[:16] not in made
    assert made.startswith(around.partition("{}")[0].replace("{{", "{")[:4])
    assert tokens.masked(made) == made


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert tokens.masked(text) is text
    assert paths([text, {"content": text}]) == []


@pytest.mark.parametrize("field", NAMED)
def test_a_field_with_the_name_of_a_secret_is_one(field: tuple[str, str]) -> None:
    assert len(paths({"config": [dict([field])]})) == 1


@pytest.mark.parametrize("name", [*tokens.NAMES, *tokens.VAGUE])
def test_each_name_of_a_secret_is_known_at_the_end_of_a_name(name: str) -> None:
    for one in (name, f"my_{name}", name.upper(), name.replace("_", "-"), name.replace("_", "")):
        assert len(paths({"before": 1, one: RUN[:20], "after": "x"})) == 1, one


@pytest.mark.parametrize("beside", [0, 200])
@pytest.mark.parametrize("joins", [0, 1, 60, 300])
@pytest.mark.parametrize("before", ["", "of the third ", "x" * 300])
def test_a_name_is_found_however_it_is_joined(before: str, joins: int, beside: int) -> None:
    name = f"{before}client{'-_. '[joins % 4] * joins}secret"
    assert len(paths({name: "hunter2", "beside": ["x"] * beside})) == 1


@pytest.mark.parametrize("field", NOT_NAMED)
def test_a_field_that_holds_none_is_left_alone(field: tuple[str, str]) -> None:
    assert paths({"config": [dict([field])]}) == []


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(
    value=VALUES,
    name=st.sampled_from(sorted(TOKENS)),
    before=st.text(max_size=300).map(lambda text: text and text + " "),
    after=st.integers(0, 70_000),
    nest=st.sampled_from(["list", "tuple", "dict", "key", "set", "class", "bytes", "map"]),
)
def test_the_look_at_the_bytes_misses_nothing(value: Any, name: str, before: str, after: int, nest: str) -> None:
    text = before + TOKENS[name] + " " * after
    made = {
        "list": lambda: [value, text, value],
        "tuple": lambda: (text, value),
        "dict": lambda: {"a": value, "b": text, "c": value},
        "key": lambda: {text: value},
        "set": lambda: {text, 1},
        "class": lambda: c.Plain(text, [value]),
        "bytes": lambda: {"raw": text.encode()},
        "map": lambda: {1: text, 2: value},
    }[nest]()
    found = detect.search(values.encode(made))
    assert found is not None
    assert RUN[:16].encode() not in found.data
    assert detect.search(found.data) is None
    assert type(values.decode(found.data)) is type(made)


@pytest.mark.parametrize("length", [*range(23, 140), 0x2D30, 0x3030, 0x30303, 3_000_000])
def test_a_leaf_of_any_length_is_looked_at(length: int) -> None:
    token = "sk-" + RUN[:17] + "1a2"
    assert paths([(token + " " * length)[:length].ljust(len(token))]) == ["$[0]"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": {"b c": [0, TOKENS["github"]]}}, "$.a['b c'][1]"),
        (({"password": "hunter2"},), "$[0].password"),
        (c.Model(name=TOKENS["aws"]), "$.name"),
        ({1: {"api_key": "abcdef"}}, "$[1].api_key"),
        ({TOKENS["github"]: 1}, "$.x"),
        ("half \ud83d " + TOKENS["github"], "$"),
    ],
)
def test_its_path_is_told_and_quotes_no_secret(value: Any, path: str) -> None:
    found = paths(value)
    assert len(found) == 1
    assert TOKENS["github"] not in found[0]
    if path != "$.x":
        assert found == [path] or path == "$[1].api_key"


def test_what_was_revealed_is_known_in_each_of_its_forms() -> None:
    value = "correct horse battery staple/1"
    values.Secret("secret://env/X", value=value)
    forms = [value, quote(value, safe=""), json.dumps(value)]
    forms += [base64.b64encode(lead + value.encode() + b"tail").decode() for lead in (b"", b"x", b"xy")]
    for form in forms:
        assert paths({"said": f"before {form} after"}) == ["$.said"], form
        assert "horse" not in tokens.masked(form)


def test_a_short_word_is_not_looked_for_although_it_was_revealed() -> None:
    values.Secret(value="postgres")
    assert paths(["the postgres server"]) == []


def test_a_secret_itself_is_no_secret() -> None:
    assert paths({"api_key": values.Secret("secret://env/API_KEY")}) == []


def test_the_three_policies() -> None:
    data = values.encode({"api_key": "abcdef"})
    with pytest.raises(SecretFoundError, match=r"^here\.api_key: .*perdure\.Secret.*keys=.*secrets=") as raised:
        REFUSE.passed(data, at="here")
    assert "abcdef" not in str(raised.value)
    assert values.decode(MASK.passed(data).data) == {"api_key": tokens.MASK}
    assert ALLOW.passed(data).data == data
    assert values.decode(REFUSE.kept(data).data) == {"api_key": tokens.MASK}


@pytest.mark.parametrize("kind", ["saved", "keyframe"])
@pytest.mark.parametrize("field", ["name", "reason", "open", "files", "parent"])
@pytest.mark.parametrize("told", [TOKENS["github"], [4, TOKENS["github"]], values.encode({"api_key": "abcdef"})])
def test_all_that_goes_beside_a_delta_is_looked_at(kind: str, field: str, told: Any) -> None:
    looked_at = {"saved": "delta", "keyframe": "manifest"}[kind]
    body = {"parent": 3, looked_at: TOKENS["github"].encode(), "flags": 3, "name": None, "reason": None, "open": []}
    assert REFUSE.body(kind, body) is body
    with pytest.raises(SecretFoundError, match=rf"^{kind}\.{field}"):
        REFUSE.body(kind, body | {field: told})


def test_what_the_project_ships_looks_like_no_secret() -> None:
    files = [*ROOT.glob("src/perdure/demo/corpus/*"), *ROOT.glob("examples/*"), *ROOT.glob("docs/*.md")]
    found = {path.name: tokens.masked(text) != text for path in files if path.is_file() for text in [_text(path)]}
    assert len(found) > 20
    assert [name for name, hit in found.items() if hit] == []


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_the_page_lists_the_names_and_whose_tokens_are_known() -> None:
    page = (ROOT / "docs/secrets.md").read_text()
    names = re.findall(r"`(\w+)`", page.partition("## What looks like one")[2].partition("\n## ")[0])
    assert {*tokens.NAMES, *tokens.VAGUE} <= set(names)
    assert all(whose in page for owners in tokens.TOKENS for whose in owners.split(", "))
