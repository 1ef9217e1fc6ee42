"""Where sessions are kept: the contract, and one file or folder per kind of place."""

from perdure.stores.contract import INSPECTION, RE_ENTRY, RESTORE_POINT, Batch, Head, Lease, Point, Store
from perdure.stores.ids import check_session_id
from perdure.stores.opening import open_store

__all__ = [
    "INSPECTION",
    "RESTORE_POINT",
    "RE_ENTRY",
    "Batch",
    "Head",
    "Lease",
    "Point",
    "Store",
    "check_session_id",
    "open_store",
]
