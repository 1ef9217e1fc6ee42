"""URLs of servers: taken apart exactly, and never shown with what is secret in them."""

from __future__ import annotations

import pytest

from perdure.errors import SecretMissingError, StoreUrlError
from perdure.stores import open_store
from perdure.stores.address import Address, flag, masked
from perdure.values import Secret

CANARY = "c4n4ry-Pa55"


def test_a_url_is_taken_apart() -> None:
    found = Address.of("postgres://me%40home:p%2Fw@db1:5432,[::1]:6/a%20b?schema=x%26y&pool=4&sslmode=require")
    assert (found.scheme, found.user, found.hosts, found.path) == ("postgresql", "me@home", "db1:5432,[::1]:6", "a b")
    assert found.options == (("schema", "x&y"), ("pool", "4"), ("sslmode", "require"))
    assert found.password == "p/w"


def test_what_is_shown_opens_the_same_place() -> None:
    found = Address.of("redis://me%40home:pw@h:1/0?prefix=a%26b%3D1")
    assert found.shown == "redis://me%40home@h:1/0?prefix=a%26b%3D1"
    again = Address.of(found.shown, password="pw")
    assert (again.user, again.options, again.password) == (found.user, found.options, found.password)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{CANARY}@h/db",
        f"postgresql:///db?user=me&password={CANARY}",
        f"redis://:{CANARY}@h",
        f"s3://AKIA:{CANARY}@bucket/prefix",
        f"s3://bucket?secret_access_key={CANARY}&session_token={CANARY}",
        f"mongodb://me:{CANARY}@h/?authMechanismProperties=AWS_SESSION_TOKEN:{CANARY}",
        f"tiered://?hot=redis%3A%2F%2F%3A{CANARY}%40h&cold=s3://bucket?token={CANARY}",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    found = Address.of(url)
    for text in (found.shown, repr(found), str(found), found.without(("prefix",)), masked(url)):
        assert CANARY not in text
    assert CANARY not in found.hidden(f"driver: cannot open {url}")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:a/{CANARY}@h/db",
        f"postgresql://me:1/{CANARY}@h/db",
        f"postgresql://me:1?{CANARY}@h/db",
        f"postgresql://me:1?a={CANARY}@h/db",
        f"postgresql://me:a?x={CANARY}@h/db",
        f"postgresql://me:a#{CANARY}@h/db",
        f"postgresql://me:a@b/{CANARY}@h/db",
        f"postgresql://me:{CANARY}@h:port/db",
        f"postgresql://me:{CANARY}",
        f"s3://AKIA:1/{CANARY}@bucket/x",
        f"postgresql:me:{CANARY}@h/db",
        f"postgresql://h/db?{CANARY}",
        f"mysql://me:{CANARY}@h/db",
        f"sqlite://me:{CANARY}@h/x.db",
        f"file://me:{CANARY}@h/x",
    ],
)
def test_a_url_that_is_refused_is_not_repeated(url: str) -> None:
    assert CANARY not in masked(url)
    with pytest.raises(StoreUrlError) as caught:
        open_store(url)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("path", ["agents.db", "/a:b@c/x.db", "sqlite:////a:b@c/x.db", "file:a@b", "memory:x@y"])
def test_a_path_is_shown_as_it_is(path: str) -> None:
    assert masked(path) == path


def test_a_password_may_be_given_apart() -> None:
    assert Address.of("redis://h", password="pw").password == "pw"
    assert CANARY not in repr(Address.of("redis://h", password=CANARY))
    assert Address.of("redis://h", password=CANARY).hidden(f"AUTH {CANARY}") == "AUTH ***"
    assert Address.of("redis://h").password is None
    with pytest.raises(StoreUrlError, match="give one"):
        Address.of("redis://:pw@h", password="pw")
    with pytest.raises(StoreUrlError, match="takes no password"):
        open_store("memory:", password="pw")


def test_a_secret_is_fetched_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Address.of("redis://h", password=Secret("secret://env/CANARY_PASSWORD"))
    with pytest.raises(SecretMissingError, match="set CANARY_PASSWORD"):
        _ = found.password
    for text in ("one", "two"):
        monkeypatch.setenv("CANARY_PASSWORD", text)
        assert found.password == text


def test_options_have_kinds() -> None:
    found = Address.of("redis://h?pool=4&busy_s=0.5&tls=no")
    assert found.option("pool", kind=int, default=8) == 4
    assert found.option("busy_s", kind=float, default=10.0) == 0.5
    assert found.option("tls", kind=flag, default=True) is False
    assert found.option("prefix", kind=str, default="perdure") == "perdure"
    with pytest.raises(StoreUrlError, match=r"busy_s=0\.5 is no int"):
        found.option("busy_s", kind=int, default=1)
    with pytest.raises(StoreUrlError, match="pool=4 is no flag"):
        found.option("pool", kind=flag, default=True)
    found.check(("pool", "busy_s", "tls"))
    with pytest.raises(StoreUrlError, match=r"no option tls; there are: busy_s, pool$"):
        found.check(("pool", "busy_s"))
    assert found.without(("pool", "tls")) == "redis://h?busy_s=0.5"
