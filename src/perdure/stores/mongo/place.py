"""What a database tells of itself as a place: that it is ours, in which format and incarnation, and how it is.

Its one document is made with the first opening, the indexes with it. It knows no sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bson import Int64
from pymongo.errors import OperationFailure

from perdure.errors import FormatNewerError
from perdure.stores.contract import Health
from perdure.stores.mongo.envelopes import PLACE
from perdure.stores.mongo.link import NO_SUCH_COMMAND, Documents, Link

FORMAT: Final = 1
_NOT_ALLOWED: Final = 13
_BEHIND: Final = (
    "MongoDB runs as a standalone server: an acknowledged save is on its one disk and nowhere else, and whoever waits "
    "for a session looks now and then. Make it a replica set, of one member at least"
)


class Database:
    """The place itself."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def prepare(self) -> None:
        """Makes what is not there: two who do it at once make the same. Raises `FormatNewerError`."""
        self._link.use(self._prepare)

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        found = self._link.place.find_one({"_id": PLACE}) or {}
        return int(found.get("incarnation", 0))

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self._link.place.update_one({"_id": PLACE}, {"$max": {"incarnation": Int64(number)}}, upsert=True)

    def now_ms(self) -> int:
        """The server's own time."""
        return int(self._link.client.admin.command("hello")["localTime"].timestamp() * 1000)

    def give_back(self) -> int:
        """Asks the server to give back what its files do not use; 0, as it takes what is left into use again."""
        for documents in self._documents():
            try:
                self._link.database.command("compact", documents.name, force=True)
            except OperationFailure as error:  # a server that has none, or a user who may not: it is used again
                if error.code not in (NO_SUCH_COMMAND, _NOT_ALLOWED):
                    raise
                return 0
        return 0

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        problems, settings = tuple(self._problems() if deep else ()), tuple(self._settings())
        said = self._link.database.command("dbStats", freeStorage=1)
        unused = said.get("freeStorageSize")
        used = int(said.get("totalSize", said.get("storageSize", 0)))
        free = int(said["fsTotalSize"] - said["fsUsedSize"]) if "fsTotalSize" in said else None
        return Health(problems, settings, used=used, unused=None if unused is None else int(unused), free=free)

    def _settings(self) -> Iterator[str]:
        hello = self._link.client.admin.command("hello")
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            yield _BEHIND

    def _problems(self) -> Iterator[str]:
        for documents in self._documents():
            said = self._link.database.command("validate", documents.name)
            if not said["valid"]:
                yield f"{documents.name}: " + "; ".join(map(str, said.get("errors", ())))

    def _documents(self) -> list[Documents]:
        link = self._link
        mine = [link.sessions, link.records, link.index, link.parts, link.sent, link.chunks, link.families, link.place]
        there = set(link.database.list_collection_names())
        return [documents for documents in mine if documents.name in there]

    def _prepare(self) -> None:
        link = self._link
        found = link.place.find_one({"_id": PLACE})
        if found is not None and found.get("format", 0) > FORMAT:
            raise FormatNewerError(
                f"{link.url}: is in format {found['format']}, a newer perdure made it; this one knows {FORMAT}. "
                "Nothing was changed"
            )
        if found is not None and "format" in found:
            return
        for documents, keys in (
            (link.sessions, ("id",)),
            (link.sessions, ("f",)),
            (link.records, ("s", "q")),
            (link.index, ("s", "n")),
            (link.index, ("s", "m")),
            (link.parts, ("s", "x")),
            (link.sent, ("s",)),
            (link.chunks, ("f",)),
        ):
            documents.create_index([(key, 1) for key in keys])
        link.sessions.create_index("base", sparse=True)  # few are forks
        link.place.update_one({"_id": PLACE}, {"$set": {"format": FORMAT}}, upsert=True)
