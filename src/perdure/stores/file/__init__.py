"""A folder of files that `tail`, `grep` and `jq` read: a folder per session, for the processes of one machine."""

from perdure.stores.file.store import FileStore, open_url

__all__ = ["FileStore", "open_url"]
