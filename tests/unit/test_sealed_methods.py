"""What a sealed store hands on as it is: nothing that holds content, also of methods that the contract gets later."""

from __future__ import annotations

from perdure.stores import Store
from perdure.stores.sealed import SealedStore

HANDED_ON = {
    "begin_incarnation",
    "claim",
    "close",
    "envelope",
    "give_back",
    "health",
    "incarnation",
    "keyframes",
    "lease",
    "purge",
    "put_envelope",
    "release",
    "renew",
    "renew_all",
    "still_s",
    "watch",
}
"""Ids, numbers, leases, and the envelopes themselves."""


def test_a_sealed_store_seals_everything_else() -> None:
    operations = {name for name in vars(Store) if callable(getattr(Store, name)) and not name.startswith("_")}
    assert operations - set(vars(SealedStore)) == HANDED_ON
