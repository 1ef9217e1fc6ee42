"""Whether a server keeps the conditions that everything here depends on; a few small requests find out.

A server that takes a conditional put for a plain one would let two writers write over one another in silence.
"""

from __future__ import annotations

from typing import Final

from perdure import clock
from perdure.errors import StoreUrlError
from perdure.stores.s3 import names
from perdure.stores.s3.bucket import SAME, Bucket, Found, UnsureError

_NONE: Final = '"00000000000000000000000000000000"'
_IGNORES: Final = "it ignores If-Match, so a put on condition of what was seen replaces something else"


def check_conditions(bucket: Bucket) -> None:
    """Raises `StoreUrlError` for a server that cannot keep a store; nine requests, and nothing stays."""
    key = f"{names.TRIAL}/{clock.new_uuid().hex}"
    try:
        fault = _fault(bucket, key)
    except UnsureError as error:
        raise error.error from error
    finally:
        bucket.delete([key])
    if fault:
        raise StoreUrlError(
            f"{bucket.url}: this server cannot keep a store: {fault}. Two writers could lose one another's saves. "
            "Nothing was made"
        )


def _fault(bucket: Bucket, key: str) -> str:
    """What is wrong with it; nothing if all is right."""
    first = bucket.create(key, b"1")
    if first is None:
        return "it says that an object is there which never was"
    if bucket.create(key, b"2") is not None:
        return "it ignores If-None-Match, so a put that must make an object replaces one"
    if bucket.replace(key, b"3", etag=_NONE) is not None:
        return _IGNORES
    second = bucket.replace(key, b"4", etag=first)
    if second is None or second == first:
        return "it refuses a put with If-Match for an object that is as it was"
    return _IGNORES if bucket.replace(key, b"5", etag=first) is not None else _stale(bucket, key, second)


def _stale(bucket: Bucket, key: str, etag: str) -> str:
    """What is wrong with what is read after a put."""
    found = bucket.get(key)
    if not isinstance(found, Found) or found.content != b"4" or found.etag != etag:
        return "what was put is not what is got directly afterwards"
    if bucket.get(key, unless=etag) is not SAME:
        return "it ignores If-None-Match of a get"
    is_listed = key in [one.key for one in bucket.list(names.TRIAL)]
    return "" if is_listed else "what was put is not listed directly afterwards"
