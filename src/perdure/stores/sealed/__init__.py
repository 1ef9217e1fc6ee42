"""A store around a store that keeps nothing in clear: see `docs/protection.md`, and `docs/format.md` for the bytes."""

from perdure.stores.sealed.store import SealedStore

__all__ = ["SealedStore"]
