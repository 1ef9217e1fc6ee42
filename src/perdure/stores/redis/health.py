"""How the place is: what its server says of itself, and what its keys take. It changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.stores.contract import Health
from perdure.stores.redis import scrub
from perdure.stores.redis.link import Link

_KEYS_AT_ONCE = 1000


def health(link: Link, *, deep: bool) -> Health:
    """See `Store.health`. What is used is that of the whole server, or, `deep`, of the keys of the place."""
    now = scrub.settings(link)
    most, used = now.number("maxmemory"), now.number("used_memory")
    return Health(
        problems=now.problems(),
        settings=now.lessens(waits_for_aof=link.target.aof),
        used=sum(_sizes(link)) if deep else used,
        log=now.number("aof_current_size") if now.has_aof else None,
        free=max(0, most - used) if most else None,
    )


def _sizes(link: Link) -> Iterator[int]:
    """Bytes in memory of each key, some at a time. One that goes meanwhile counts for nothing."""
    pattern = re.sub(r"([*?\\\[\]])", r"\\\1", link.target.place) + ":*"
    cursor: bytes | int = 0
    while True:
        ((cursor, keys),) = link.look(("SCAN", cursor, "MATCH", pattern, "COUNT", _KEYS_AT_ONCE))
        for size in link.look(*(("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys)) if keys else ():
            yield size if isinstance(size, int) else 0
        if cursor == b"0":
            return
