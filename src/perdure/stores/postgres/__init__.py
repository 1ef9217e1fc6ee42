"""Sessions in a schema of a PostgreSQL database: for any number of processes on any number of machines."""

from perdure.stores.postgres.store import PostgresStore, open_url

__all__ = ["PostgresStore", "open_url"]
