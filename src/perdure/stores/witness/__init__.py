"""What is told outside of a store, so that an older copy of it is noticed.

It knows the contract of stores and nothing above it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from perdure.errors import WitnessFailedError
from perdure.stores.opening import open_store
from perdure.stores.witness.place import FileWitness, Listener, Witness
from perdure.stores.witness.second import StoreWitness
from perdure.stores.witness.store import WitnessedStore
from perdure.stores.witness.told import Roll, Signer
from perdure.syncing import fcntl

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from perdure.stores.contract import Store
    from perdure.stores.witness.told import Ring

Given: TypeAlias = "str | os.PathLike[str] | Witness | Callable[[Sequence[str]], object]"
"""What `perdure.open(…, witness=…)` takes."""

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)

__all__ = ["Given", "Witness", "WitnessedStore", "witnessed"]


def witnessed(inner: Store, given: Given, *, keys: Ring | None = None) -> WitnessedStore:
    """The store with this witness.

    A path or `file:` URL is a file, another URL a store; else an object with `tell` and `told`, or a function to tell.
    """
    signer = Signer(keys)
    return WitnessedStore(inner, _witness(given, signer), signer=signer)


def _witness(given: Given, signer: Signer) -> Witness:
    if isinstance(given, Witness):
        return given
    if callable(given):
        return Listener(given)
    text, fold = str(given), partial(_newest, signer=signer)
    if _URL.match(text) and not text.startswith("file:"):
        return StoreWitness(open_store(text), fold=fold)
    if fcntl is None:
        raise WitnessFailedError(f"the witness {text}: a file is one on Linux and macOS; take a store, or a function")
    return FileWitness(text.removeprefix("file:").removeprefix("//"), fold=fold)


def _newest(lines: list[str], signer: Signer) -> list[str]:
    """Of each session the line that counts, and what must be known to read it."""
    roll, first, texts = Roll(), [], {}
    for line, told in zip(lines, signer.read(lines), strict=True):
        if told is None:
            first.append(line)
            continue
        roll.take(told)
        if roll.newest(told.session) is told:
            texts[told.session] = line
    return [*first, *texts.values()]
