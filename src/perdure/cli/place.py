"""Which store a command means, and opening it: only `run` may make one that is not there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import perdure
from perdure import values
from perdure.errors import StoreFailedError, StorePlainError, StoreUrlError
from perdure.ops.config import finding
from perdure.stores.address import LOCAL, masked, scheme_of
from perdure.stores.opening import place_in
from perdure.values import Secret
from perdure.values.secret import PREFIX

if TYPE_CHECKING:
    from perdure.ops.config.settings import Settings
    from perdure.runtime.store import AgentStore

VARIABLE: Final = "PERDURE_STORE"
PROTOCOL: Final = "PERDURE_PROTOCOL"
WITNESS: Final = "PERDURE_WITNESS"
KEY: Final = "PERDURE_KEY"
PASSWORD: Final = "PERDURE_PASSWORD"  # noqa: S105 - the name of the variable
"""The password of the server's user, for a URL without one: itself, or where it is to be had ("secret://…")."""

SECRETS: Final = "PERDURE_SECRETS"
"""What is done about a secret on its way into the store: refuse, mask or allow."""

DEFAULT: Final = "perdure.db"


@dataclass(frozen=True, slots=True)
class Place:
    """A store that is meant. `given`: it was named on this command line, so commands that go on must, too.

    `witness` is the place of its witness, if it has one; `key` what its keys are read from, if it is sealed; `password`
    that of the server's user, if the URL has none; `settings` what was configured, if anything was.
    """

    url: str
    given: bool
    witness: str | None = None
    key: str | None = None
    password: Secret | str | None = field(default=None, repr=False)
    settings: Settings | None = None

    def open(self, *, make: bool = False, protocol: str | None = None, runs: bool = False) -> AgentStore:
        """Opens the store, to write in this protocol, else that of the environment or the configuration.

        Where an agent `runs` in it, the journal that was configured is mirrored. Raises `StoreUrlError` when there is
        none, unless it may be made.
        """
        path = _path(self.url)
        if not make and path is not None and not path.exists():
            raise StoreUrlError(
                f"there is no store at {path}; `perdure run` makes it, --store or {VARIABLE} names another"
            )
        with _hinting(self.url):
            if self.settings is not None:
                return self._open_configured(self.settings, protocol, runs=runs)
            return perdure.open(
                self.url,
                keys=self.key,
                protocol=protocol or _Program.protocol or os.environ.get(PROTOCOL) or values.DEFAULT,
                witness=self.witness,
                secrets=os.environ.get(SECRETS) or None,
                password=self.password,
            )

    def _open_configured(self, settings: Settings, protocol: str | None, *, runs: bool) -> AgentStore:
        from perdure.ops.config.sections import Security
        from perdure.runtime.configured import open_with

        security = Security() if settings.security is None else settings.security
        said = replace(settings, security=replace(security, keys=self.key), journal=settings.journal if runs else None)
        return open_with(said, given={} if protocol is None else {"protocol": protocol})

    def command(self, *words: str | int) -> str:
        """A command of perdure on this store, ready to be pasted into a shell; no password is in it."""
        store = ["--store", masked(self.url)] if self.given else []
        key = [] if self.key in (None, os.environ.get(KEY)) else ["--key", str(self.key)]
        return shlex.join(["perdure", *key, *map(str, words), *store])

    def in_clear(self) -> Place:
        """The same place without keys."""
        return replace(self, key=None)


class _Program:
    """What is said before the command."""

    key: str | None = None
    protocol: str | None = None
    config: str | None = None


def use_config(config: str | None) -> None:
    """From now on this configuration holds, before that of the environment or of a folder."""
    _Program.config = config


def use_protocol(protocol: str | None) -> None:
    """From now on stores are opened to write in this protocol, which goes before that of the environment."""
    _Program.protocol = protocol


def use_key(key: str | None) -> None:
    """From now on the stores that are meant are opened with this key, which goes before that of the environment."""
    _Program.key = key


def settings(option: str | None = None) -> Settings:
    """What is configured, with what this command line says: `--store` (given here), `--key`, `--protocol`.

    Raises `ConfigError`.
    """
    from perdure.ops.config.loading import load

    said = {
        ("storage", "url"): (option, "--store"),
        ("security", "keys"): (_Program.key, "--key"),
        ("serialization", "protocol"): (_Program.protocol, "--protocol"),
    }
    given = {path: (text, where) for path, (text, where) in said.items() if text is not None}
    return load(config_file(), options=given)


def config_file() -> Path | None:
    """The configuration of this command line, of the environment, or of this folder and above."""
    return finding.find(_Program.config)


def place(option: str | None) -> Place:
    """The store of `--store`, else of the environment, else of the configuration, else of this folder."""
    if finding.is_said(_Program.config):
        return _configured(settings(option), given=option is not None)
    witness, key = os.environ.get(WITNESS) or None, _Program.key or os.environ.get(KEY) or None
    url = option if option is not None else os.environ.get(VARIABLE) or DEFAULT
    return Place(url, given=option is not None, witness=witness, key=key, password=_password(url))


def _configured(said: Settings, *, given: bool) -> Place:
    storage = said.storage
    key = None if said.security is None else said.security.keys
    url, witness = (DEFAULT, None) if storage is None else (storage.url, storage.witness)
    return Place(url, given=given, witness=witness, key=key, settings=said)


def other_place(url: str, here: Place, *, key: str | None, in_clear: bool) -> Place:
    """The store that something is brought to: with this key, without one, or with the keys of the one here."""
    return Place(url, given=True, key=None if in_clear else key or here.key)


def open_either(here: Place) -> AgentStore:
    """The store that something is brought out of, also if it is in clear and the key is meant for the other one."""
    try:
        return here.open()
    except StorePlainError:
        return here.in_clear().open()


@contextmanager
def _hinting(url: str) -> Iterator[None]:
    """An error of a server that cannot be used says where to look."""
    try:
        yield
    except StoreFailedError as error:
        if (scheme_of(url) or "sqlite") in LOCAL:
            raise
        hint = (
            f"Does the server run, may this machine reach it, are the URL (--store, {VARIABLE}) and the password right?"
        )
        raise type(error)(f"{str(error).rstrip('.')}. {hint}") from error


def _password(url: str) -> Secret | str | None:
    """The password that the environment has for this store; none is for a place on this machine."""
    given = os.environ.get(PASSWORD) or None
    if given is None or (scheme_of(url) or "sqlite") in LOCAL:
        return None
    return Secret(given) if given.startswith(PREFIX) else given


def _path(url: str) -> Path | None:
    """The file or folder that a URL names; None for a store that is neither."""
    scheme = scheme_of(url)
    if scheme is None:
        return Path(url)
    return Path(place_in(url)) if scheme in ("sqlite", "file") else None
