"""Where sessions are kept: the contract, and one file per kind of place."""

from perdure.stores.contract import INSPECTION, RE_ENTRY, RESTORE_POINT, Batch, Head, Lease, Point, Store

__all__ = ["INSPECTION", "RESTORE_POINT", "RE_ENTRY", "Batch", "Head", "Lease", "Point", "Store"]
