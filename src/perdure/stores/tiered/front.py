"""Hot, as the rest of this folder uses it: its failing is told apart from cold's, and remembered for a while.

It knows no operation by name, and changes no answer.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from perdure import clock
from perdure.errors import DamageError, MissingError, StoreFailedError
from perdure.stores.hot import HotStore

_log = logging.getLogger("perdure.tiered")

AGAIN_S: Final = 2.0
"""A hot store that failed is not asked again for so long: nobody waits for it once for each thing."""


class HotAwayError(StoreFailedError):
    """The store in front cannot be asked, or what it keeps is damaged."""


class Front:
    """`hot`, each of whose failures is a `HotAwayError`."""

    def __init__(self, hot: HotStore) -> None:
        self._hot = hot
        self._until_s = 0.0
        self.problem = ""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._hot, name)
        return functools.partial(self._asked, found) if callable(found) else found

    def _asked(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if clock.monotonic_s() < self._until_s:
            raise HotAwayError(f"{self._hot.url}: failed just now, and is asked again soon: {self.problem}")
        try:
            answer = operation(*args, **kwargs)
        except MissingError:
            raise
        except (StoreFailedError, DamageError) as error:
            raise self._away(error) from error
        self.problem = ""
        return self._each(answer) if isinstance(answer, Iterator) else answer

    def _each(self, answer: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from answer
        except (StoreFailedError, DamageError) as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> HotAwayError:
        if isinstance(error, StoreFailedError):  # damage is that of one session
            self._until_s = clock.monotonic_s() + AGAIN_S
        if not self.problem:
            _log.warning("%s: %s; what it has is had from the store behind it", self._hot.url, error)
        self.problem = str(error)
        return HotAwayError(f"{self._hot.url}: {error}")


def front(hot: HotStore) -> tuple[HotStore, Front]:
    """The same store twice: as what it does, and as what is known of it."""
    guarded = Front(hot)
    return cast("HotStore", guarded), guarded
