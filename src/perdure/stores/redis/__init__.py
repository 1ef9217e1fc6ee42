"""Sessions on a Redis server: every operation is one script, which the server runs alone and whole."""

from perdure.stores.redis.store import RedisStore, open_url

__all__ = ["RedisStore", "open_url"]
