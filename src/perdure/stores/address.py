"""Where a store on a server is: a URL taken apart, with what must never be shown kept apart from what may be.

`shown` is what stands in `store.url`, errors and output; no password is in it, nor in the text of the object itself.
It must not know any server: which options there are, and what a path means, is for the store that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote, unquote

from perdure.errors import StoreUrlError
from perdure.values import Secret

T = TypeVar("T")

HIDDEN: Final = "***"
"""Stands in a text where a password was."""

LOCAL: Final = frozenset({"sqlite", "file", "memory"})
"""Schemes whose URLs name a place on this machine: the rest of them is a path, and no server, user or option."""

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
"""Two characters at least: a single one is a drive."""

_SAME: Final = {"postgres": "postgresql"}
_HOST: Final = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]*)(?::\d{1,5})?")
_CREDENTIAL: Final = re.compile(r"pass(word|wd)?$|^pwd$|secret|token|^authMechanismProperties$", re.IGNORECASE)
_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """`scheme://user:password@hosts/path?option=value&…`, percent-decoded.

    `hosts` is "host", "host:port" or several of them, apart by commas, as written; `path` is without its first slash.
    `options` are those that may be shown, in the order given.
    """

    scheme: str
    user: str = ""
    hosts: str = ""
    path: str = ""
    options: tuple[tuple[str, str], ...] = ()
    _credentials: tuple[tuple[str, str], ...] = ()
    _given: Secret | str | None = None

    @classmethod
    def of(cls, url: str, *, password: Secret | str | None = None) -> Address:
        """Takes a URL apart. `password` is that of the user, for a URL that has none.

        Raises `StoreUrlError`, in which no part of the URL stands that could belong to a password.
        """
        scheme, rest = _split(url)
        netloc, path, query = _parts(scheme, rest)
        before, _, hosts = netloc.rpartition("@")
        user, colon, secret = before.partition(":")
        if not all(_HOST.fullmatch(host) for host in hosts.split(",")):
            _refuse(scheme, "what stands for its host is none")
        pairs = [_pair(scheme, part) for part in query.split("&") if part]
        hidden = [(name, value) for name, value in pairs if _CREDENTIAL.search(name)]
        if colon:
            hidden.insert(0, ("password", unquote(secret)))
        if password is not None and any(name == "password" for name, _ in hidden):
            raise StoreUrlError(
                f"{scheme}: there is a password in the URL, and one beside it (password=, PERDURE_PASSWORD); give one"
            )
        shown = tuple(pair for pair in pairs if not _CREDENTIAL.search(pair[0]))
        return cls(scheme, unquote(user), hosts, unquote(path), shown, tuple(hidden), password)

    @property
    def password(self) -> str | None:
        """The user's password; None: none was given. A `Secret` is fetched anew each time, so that it may change.

        Raises `SecretMissingError`.
        """
        if isinstance(self._given, Secret):
            return self._given.reveal()
        return self._given if self._given is not None else self.credential("password")

    @property
    def given(self) -> Secret | str | None:
        """The password that was given beside the URL, for who opens another place with it."""
        return self._given

    def credential(self, name: str) -> str | None:
        """An option that is not shown, such as `secret_access_key`."""
        return dict(self._credentials).get(name)

    def option(self, name: str, *, kind: Callable[[str], T], default: T) -> T:
        """The value of an option, as this kind: `str`, `int`, `float` or `flag`. Raises `StoreUrlError`."""
        text = dict(self.options).get(name)
        if text is None:
            return default
        try:
            return kind(text)
        except ValueError:
            raise StoreUrlError(f"{self.shown}: {name}={text} is no {kind.__name__}") from None

    def check(self, known: Collection[str]) -> None:
        """Raises `StoreUrlError` for an option that is none of these."""
        for name, _ in (*self.options, *self._credentials):
            if name not in known and name != "password":
                there = ", ".join(sorted(known)) or "none"
                raise StoreUrlError(f"{self.shown}: there is no option {name}; there are: {there}")

    def without(self, own: Collection[str]) -> str:
        """The URL without passwords and without these options: what the driver is given, beside the password."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        path = f"/{quote(self.path, safe='/:,+=')}" if self.path else ""
        pairs = [f"{quote(name)}={quote(masked(text), safe='/:,')}" for name, text in self.options if name not in own]
        return f"{self.scheme}://{user}{self.hosts}{path}" + ("?" + "&".join(pairs) if pairs else "")

    @property
    def shown(self) -> str:
        """The URL without passwords: opens the same place, if the password is given in another way."""
        return self.without(())

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def hidden(self, text: object) -> str:
        """What a driver said, without passwords that it may have repeated."""
        said = str(text)
        for secret in self.secrets():
            for form in {secret, quote(secret, safe=""), quote(secret)} - {""}:
                said = said.replace(form, HIDDEN)
        return said

    def secrets(self) -> Iterator[str]:
        """What must not be shown, also of URLs that stand in options."""
        yield from (value for _, value in self._credentials)
        if isinstance(self._given, str):
            yield self._given
        for _, value in self.options:
            with suppress(StoreUrlError):
                yield from Address.of(value).secrets() if "://" in value else ()


def scheme_of(url: str) -> str | None:
    """The scheme of a URL, in lower case, with one name for each kind of store; None for a plain path."""
    found = _SCHEME.match(url)
    return None if found is None else _SAME.get(found[1].lower(), found[1].lower())


def masked(url: str) -> str:
    """A URL, or a path, as it may be shown; "scheme:…" for one that cannot be taken apart."""
    scheme = scheme_of(url)
    if scheme is None or (scheme in LOCAL and not re.match(r"[^:]*://[^/]*@", url)):
        return url
    try:
        return Address.of(url).shown
    except StoreUrlError:
        return f"{scheme}:…"


def flag(text: str) -> bool:
    """The value of an option that is true or false. Raises `ValueError`."""
    try:
        return _FLAGS[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _split(url: str) -> tuple[str, str]:
    scheme = scheme_of(url)
    if scheme is None:
        raise StoreUrlError("a store on a server is named by a URL: scheme://user@host/…")
    rest = url.partition(":")[2]
    if scheme == "tiered" and not rest.startswith("//"):
        return scheme, rest  # it names no server
    if not rest.startswith("//"):
        _refuse(scheme, "after its scheme come two slashes")
    return scheme, rest[2:]


def _parts(scheme: str, rest: str) -> tuple[str, str, str]:
    """What names the server, the path, and the options; refused where a password could be among the last two."""
    before, _, query = rest.partition("?")
    netloc, _, path = before.partition("/")
    if "#" in rest:
        _refuse(scheme, "there is a # in it")
    if ("@" in path and scheme != "s3") or (":" in netloc and "@" not in netloc and "@" in path + query):
        _refuse(scheme, "there is an @ behind the host")
    return netloc, path, query


def _pair(scheme: str, part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        _refuse(scheme, "one of its options has no value")
    return unquote(name), unquote(value)


def _refuse(scheme: str, why: str) -> NoReturn:
    raise StoreUrlError(
        f"{scheme}: this is no URL of a store: {why}. It is {scheme}://user@host:port/path?option=value, in which "
        "/ ? # @ : % of a user's name, a password or a value are written %2F %3F %23 %40 %3A %25"
    )
