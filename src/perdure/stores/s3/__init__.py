"""Sessions in an object store: a head for each, which changes on condition of what was seen, and the parts of logs."""

from perdure.stores.s3.store import S3Store, open_url

__all__ = ["S3Store", "open_url"]
