"""Where sessions are kept: the contract, and one file or folder per kind of place."""

from perdure.log import Base
from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Store, Watch
from perdure.stores.ids import check_session_id
from perdure.stores.opening import open_store

__all__ = [
    "Base",
    "Batch",
    "Change",
    "Head",
    "Health",
    "Held",
    "Item",
    "Lease",
    "Point",
    "Store",
    "Watch",
    "check_session_id",
    "open_store",
]
