"""The default store: one SQLite file with a write-ahead log, for any number of processes of one machine."""

from perdure.stores.sqlite.store import SqliteStore, open_url

__all__ = ["SqliteStore", "open_url"]
