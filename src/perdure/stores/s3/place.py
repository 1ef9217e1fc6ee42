"""Where a store is: its bucket and prefix, and how the server that has them is reached. Credentials are never shown.

What a URL does not say the driver finds in its usual places: AWS_ACCESS_KEY_ID and the other variables, a web identity,
the machine's own role.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any, Final

from obstore.store import S3Store as Driver

from perdure.errors import FormatNewerError, StoreUrlError
from perdure.stores.address import Address, flag
from perdure.stores.s3 import names
from perdure.stores.s3.bucket import Bucket, UnsureError
from perdure.stores.s3.trial import check_conditions

LAYOUT: Final = 1

OWN: Final = ("busy_s", "poll_s", "timeout_s")
"""Options that are ours, not the driver's."""

_FLAGS: Final = {"virtual_hosted": "virtual_hosted_style_request", "anonymous": "skip_signature"}
_TEXTS: Final = (
    "access_key_id",
    "checksum_algorithm",
    "disable_bulk_delete",
    "endpoint",
    "region",
    "request_payer",
    "server_side_encryption",
    "sse_kms_key_id",
    "unsigned_payload",
)
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_SECRETS: Final = ("secret_access_key", "session_token")
_RETRIES: Final = 1000
"""More than there can be in `busy_s`, which decides."""


def bucket_at(address: Address, *, busy_s: float, timeout_s: float) -> Bucket:
    """The bucket and prefix that an address names. Raises `StoreUrlError`."""
    address.check((*OWN, *_FLAGS, *_TEXTS, *_SECRETS))
    if not address.hosts:
        raise StoreUrlError(f"{address.shown}: names no bucket; write s3://bucket/prefix")
    try:
        driver = Driver(
            address.hosts,
            prefix=address.path.strip("/") or None,
            config=_config(address),
            client_options=_client(address, timeout_s=timeout_s),
            retry_config={
                "max_retries": _RETRIES,
                "retry_timeout": timedelta(seconds=busy_s),
                "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2},
            },
        )
    except Exception as error:
        raise StoreUrlError(f"{address.shown}: {address.hidden(error)}") from error
    return Bucket(driver, url=address.shown, hidden=address.hidden)


def _client(address: Address, *, timeout_s: float) -> Any:
    """How the driver speaks: without TLS only if the address says so, here or in the driver's own variables."""
    found = [dict(address.options).get("endpoint"), *map(os.environ.get, _ENDPOINTS)]
    is_plain = next(filter(None, found), "").startswith("http://")
    return {"timeout": timedelta(seconds=timeout_s), **({"allow_http": True} if is_plain else {})}


def _config(address: Address) -> Any:
    given = dict(address.options)
    config: dict[str, Any] = {name: given[name] for name in _TEXTS if name in given}
    config |= {_FLAGS[own]: address.option(own, kind=flag, default=False) for own in _FLAGS if own in given}
    config |= {name: secret for name in _SECRETS if (secret := address.credential(name)) is not None}
    if address.user:
        config["access_key_id"] = address.user
    password = address.password
    if password is not None:
        config["secret_access_key"] = password
    return config


def make_or_check(bucket: Bucket) -> None:
    """Makes a store of an empty prefix, after a trial of the server; does nothing but look where one is.

    Raises `StoreUrlError` for a prefix with other things in it and for a server that cannot keep a store, and
    `FormatNewerError`.
    """
    if _is_store(bucket):
        return
    other = _other_things(bucket) if bucket.exists() else ""
    if other and not _is_store(bucket):
        raise StoreUrlError(
            f"{bucket.url}: there are other things under this prefix ({other}); choose one that has nothing. "
            "Nothing was changed"
        )
    check_conditions(bucket)
    try:
        bucket.create(names.MARK, json.dumps({"perdure": "store", "layout": LAYOUT}).encode() + b"\n")
    except UnsureError as error:
        if not _is_store(bucket):
            raise error.error from error


def _is_store(bucket: Bucket) -> bool:
    told = bucket.read(names.MARK)
    if told is not None:
        _check_mark(bucket, told)
    return told is not None


def _check_mark(bucket: Bucket, told: bytes) -> None:
    try:
        mark = json.loads(told)
        kind, layout = mark["perdure"], int(mark["layout"])
    except (ValueError, TypeError, KeyError):
        kind, layout = "", 0
    if kind != "store":
        raise StoreUrlError(f"{bucket.url}: its {names.MARK} is not what a store has; nothing was changed")
    if layout > LAYOUT:
        raise FormatNewerError(
            f"{bucket.url}: has layout {layout}, this perdure reads up to {LAYOUT}; nothing was changed"
        )


def _other_things(bucket: Bucket) -> str:
    """The key of an object that is none of a store that is being made."""
    keys = (found.key for found in bucket.list(""))
    return next((key for key in keys if key.partition("/")[0] != names.TRIAL), "")
