"""MongoDB: sessions in a database of a server, for any number of processes of any number of machines."""

from perdure.stores.mongo.store import MongoStore, open_url

__all__ = ["MongoStore", "open_url"]
