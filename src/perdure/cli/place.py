"""Which store a command means, and opening it: only `run` may make one that is not there."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import perdure
from perdure import values
from perdure.errors import StoreUrlError
from perdure.stores.opening import place_in

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore

VARIABLE: Final = "PERDURE_STORE"
PROTOCOL: Final = "PERDURE_PROTOCOL"
WITNESS: Final = "PERDURE_WITNESS"
SECRETS: Final = "PERDURE_SECRETS"
"""What is done about a secret on its way into the store: refuse, mask or allow."""

DEFAULT: Final = "perdure.db"

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """A store that is meant. `given`: it was named on this command line, so commands that go on must, too.

    `witness` is the place of its witness, if it has one.
    """

    url: str
    given: bool
    witness: str | None = None

    def open(self, *, make: bool = False) -> AgentStore:
        """Opens the store. Raises `StoreUrlError` when there is none, unless it may be made."""
        path = _path(self.url)
        if not make and path is not None and not path.exists():
            raise StoreUrlError(
                f"there is no store at {path}; `perdure run` makes it, --store or {VARIABLE} names another"
            )
        return perdure.open(
            self.url,
            protocol=os.environ.get(PROTOCOL) or values.DEFAULT,
            witness=self.witness,
            secrets=os.environ.get(SECRETS) or None,
        )

    def command(self, *words: str | int) -> str:
        """A command of perdure on this store, ready to be pasted into a shell."""
        store = ["--store", self.url] if self.given else []
        return shlex.join(["perdure", *map(str, words), *store])


def place(option: str | None) -> Place:
    """The store of `--store`, else of the environment, else of this folder; its witness is that of the environment."""
    witness = os.environ.get(WITNESS) or None
    if option is not None:
        return Place(option, given=True, witness=witness)
    return Place(os.environ.get(VARIABLE) or DEFAULT, given=False, witness=witness)


def _path(url: str) -> Path | None:
    """The file or folder that a URL names; None for a store that is neither."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        return Path(url)
    return Path(place_in(url)) if scheme[1].lower() in ("sqlite", "file") else None
