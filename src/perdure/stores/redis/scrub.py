"""Taking what is gone from memory out of the server's files, too: they are written anew, from what is in memory now.

It knows no sessions.
"""

from __future__ import annotations

import time
from typing import Final

from redis.exceptions import ResponseError

from perdure.errors import StoreFailedError
from perdure.stores.redis.link import Link
from perdure.stores.redis.settings import ASKED, Settings

_LOOK_S: Final = 0.01
_LOOK_S_MAX: Final = 0.5

_BUSY: Final = ("in progress", "child process is active")
"""What the server says when it writes something else just now: it is asked again."""

_KINDS: Final = {
    "append-only file": ("BGREWRITEAOF", "aof_rewrites", "aof_rewrite_in_progress", "aof_last_bgrewrite_status"),
    "snapshot": ("BGSAVE", "rdb_saves", "rdb_bgsave_in_progress", "rdb_last_bgsave_status"),
}
"""For each file: what writes it anew, and where INFO tells how often that was begun, that it goes on, how it went."""


def settings(link: Link) -> Settings:
    """What the server says of itself now."""
    info, config = link.say(("INFO",), ("CONFIG", "GET", *ASKED))
    if isinstance(info, ResponseError):
        raise StoreFailedError(f"{link.url}: does not say what it is (INFO): {info}")
    return Settings.of(info, config)


def rewrite(link: Link, *, done: str) -> None:
    """Returns when no file of the server has what is gone: each was begun to be written anew after this.

    `done` says what stands whatever becomes of it. Raises `StoreFailedError` when the server cannot, or may not.
    """
    now = settings(link)
    for kind, is_there in (("append-only file", now.has_aof), ("snapshot", now.has_snapshots)):
        if is_there:
            _write_anew(link, kind, now, done=done)


def begin_rewriting(link: Link) -> None:
    """Has the append-only file written anew, in the background, if it has grown since that was done last."""
    now = settings(link)
    if now.has_aof and now.number("aof_current_size") > now.number("aof_base_size"):
        link.say(("BGREWRITEAOF",))


def _write_anew(link: Link, kind: str, now: Settings, *, done: str) -> None:
    command, count, going_on, status = _KINDS[kind]
    before, look_s = now.number(count), _LOOK_S
    while now.number(count) <= before or now.info.get(going_on) == "1":
        if now.number(count) <= before and now.info.get(going_on) != "1":
            (said,) = link.say((command,))
            if isinstance(said, ResponseError) and not any(sign in str(said) for sign in _BUSY):
                raise StoreFailedError(
                    f"{link.url}: {done}, but its bytes stay in the server's {kind} until that is written anew, and "
                    f"the server does not let us have that done: {said}. To leave it to the server: scrub=false"
                )
        time.sleep(look_s)
        look_s = min(2 * look_s, _LOOK_S_MAX)
        now = Settings.of(link.say(("INFO", "persistence"))[0], None)
        before = min(before, now.number(count))  # one that was started again counts from 0
    if now.info.get(status) != "ok":
        raise StoreFailedError(f"{link.url}: {done}, but writing the server's {kind} anew failed; do it again")
