"""perdure without its protection, in this process, for nothing but to be measured against."""

from __future__ import annotations

from perdure import values
from perdure.log import record
from perdure.values import blobs, frame


def give_up_protection() -> None:
    """From now on this process makes and checks no digest and compresses nothing: only to be measured against."""
    record.chain_digest = lambda previous, **_: previous
    for place in (values, frame, blobs):
        place.address = _told_apart  # type: ignore[attr-defined]
    frame._smallest = lambda data, *_, **__: (frame.PLAIN, b"", data)  # noqa: SLF001  (there is no way to ask for it)


def _told_apart(chunk: bytes) -> bytes:
    """What tells the chunks of a conversation apart, without reading them."""
    return len(chunk).to_bytes(8, "big") + chunk[-24:].rjust(24, b"\0")
