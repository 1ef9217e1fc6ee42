"""What a script refuses, in our words.

Its answer is "ok" and what it tells, or that alone if it is one number; or a verdict and what that is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from perdure.errors import ConflictError, DamageError, PerdureError, StoreFailedError
from perdure.stores import refusals
from perdure.stores.contract import Lease
from perdure.stores.redis import rows


class IncarnationOverError(Exception):
    """The place is in another incarnation than the caller knows: ask again, knowing this one. Nobody else sees it."""

    def __init__(self, newest: int) -> None:
        super().__init__(f"the place is in incarnation {newest}")
        self.newest = newest


class Asked(NamedTuple):
    """What a call was about, as far as a refusal must say it."""

    url: str
    session: str = ""
    epoch: int = 0
    head: int = 0

    def told(self, reply: Any) -> list[Any]:
        """What a script tells. Raises what it refuses."""
        if isinstance(reply, int):
            return [reply]
        verdict = reply[0] if isinstance(reply, list) and reply else reply
        if verdict == b"ok":
            return reply[1:]  # type: ignore[no-any-return]
        if verdict == b"incarnation":
            raise IncarnationOverError(rows.number(reply[1], f"{self.url}: its incarnation"))
        if verdict not in _REFUSALS:
            raise DamageError(f"{self.url}: a script says what none of ours says: {verdict!r:.100}")
        raise _REFUSALS[verdict](self, reply[1:])


def is_done(reply: Any) -> bool:
    """Whether the script has done what it was asked for."""
    return isinstance(reply, int) or (isinstance(reply, list) and bool(reply) and reply[0] == b"ok")


def _name(about: list[Any]) -> str:
    return rows.text(about[0], "the id of a session")


def _lease(about: list[Any]) -> Lease:
    return rows.lease(_name(about), *about[1:4])


def _seq(about: list[Any]) -> int:
    return rows.number(about[1], f"{_name(about)}: its row")


def _damage(asked: Asked, about: list[Any]) -> PerdureError:
    key, what = (part.decode(errors="replace") for part in about[:2])
    return DamageError(f"{asked.session or asked.url}: {key} is not what was written: {what}; nothing was written")


def _base(asked: Asked, about: list[Any]) -> PerdureError:
    del asked
    return DamageError(f"{_name(about)}: the session that it is a fork of is missing, or its row is damaged")


def _gone(asked: Asked, about: list[Any]) -> PerdureError:
    return DamageError(
        f"{_name(about)}: its last record, {_seq(about)}, is not there: the server threw it away (see maxmemory-policy "
        f"in: perdure doctor --store {asked.url}), or lost it; nothing was written"
    )


def _other(asked: Asked, about: list[Any]) -> PerdureError:
    del asked
    return ConflictError(
        f"{_name(about)}: its record {_seq(about)} is another one than was written here: the place has lost what was "
        "acknowledged (a failover?), and somebody has gone on from there. Open the session again; nothing was written"
    )


def _over(asked: Asked, about: list[Any]) -> PerdureError:
    del asked
    return ConflictError(
        f"{_name(about)}: its epoch is of an incarnation of the store that is over, the newest lease is of "
        f"{_seq(about)}; open the session again"
    )


def _lost(asked: Asked, about: list[Any]) -> PerdureError:
    del about
    return StoreFailedError(
        f"{asked.session}: is not begun: {asked.url} is not the place any more that this store was opened on. The "
        "server has lost what was there (FLUSHALL, a failover to an empty server, eviction), and what was done would "
        "be done again. Restore it; or, if it is to be empty, close the store and open it anew. Nothing was written"
    )


def _place(asked: Asked, about: list[Any]) -> Exception:
    return ValueError(
        f"{asked.session}: a fork goes on from a record that its base wrote; {_name(about)} wrote {about[1]} to "
        f"{about[2]}, not {asked.head}"
    )


_REFUSALS: Final[dict[bytes, Callable[[Asked, list[Any]], Exception]]] = {
    b"unknown": lambda asked, about: refusals.unknown(_name(about), url=asked.url),
    b"erased": lambda _, about: refusals.erased(_name(about)),
    b"exists": lambda _, about: refusals.exists(_name(about)),
    b"held": lambda _, about: refusals.held(_lease(about)),
    b"held_by": lambda _, about: refusals.held_by(_lease(about)),
    b"fenced": lambda asked, about: refusals.fenced(_lease(about), epoch=asked.epoch),
    b"conflict": lambda asked, about: refusals.conflict(_name(about), head=_seq(about), expected=asked.head),
    b"taken": lambda _, about: refusals.taken(_name(about), number=_seq(about)),
    b"joined": lambda _, about: refusals.joined(_name(about)),
    b"missing": lambda _, about: refusals.missing_record(_name(about), seq=_seq(about)),
    b"other_envelope": lambda asked, _: refusals.other_envelope(asked.session or asked.url),
    b"forks": lambda _, about: refusals.has_forks(
        _name(about), forks=[rows.text(fork, "the id of a fork") for fork in about[1:]]
    ),
    b"damage": _damage,
    b"base": _base,
    b"gone": _gone,
    b"other": _other,
    b"lost": _lost,
    b"over": _over,
    b"place": _place,
}
