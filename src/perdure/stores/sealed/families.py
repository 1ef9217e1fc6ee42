"""Which keys a session's rows are sealed with: looked up beside its family, made with the first session of one.

It remembers what it has found. Another process may add a key for data, so who writes looks again now and then, and who
reads what it cannot open looks again at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.errors import ConflictError, NotSealedError
from perdure.stores.sealed import envelope
from perdure.stores.sealed.family import Family

if TYPE_CHECKING:
    from perdure.stores.contract import Store
    from perdure.stores.keys import Keys


@dataclass(frozen=True, slots=True)
class _Found:
    family: Family
    envelope: bytes
    at_s: float


class Families:
    """The families of one store. Safe from any thread."""

    def __init__(self, inner: Store, keys: Keys) -> None:
        self._inner, self.keys = inner, keys
        self._by_session: dict[str, _Found] = {}
        self._by_envelope: dict[tuple[str, bytes], Family] = {}
        self._pending: dict[str, _Found] = {}

    def of(self, session: str, *, name: str | None = None) -> Family:
        """The family of a session, by what is known of it; `name` is what it is called, if the caller knows.

        Raises `KeyWrongError`, `NotSealedError`, `DamageError`, and as `Store.head` does.
        """
        found = self._by_session.get(session)
        return found.family if found is not None else self.again(session, name=name)

    def sure(self, session: str) -> Family:
        """The same, looked up now in a place where the id may have become that of another session."""
        return self.again(session) if self._inner.forgets else self.of(session)

    def current(self, session: str) -> Family:
        """The same, for who is about to write: looked up again if that was not done for a while."""
        found = self._by_session.get(session)
        if found is None or clock.monotonic_s() - found.at_s > limits.ENVELOPE_S_MAX:
            return self.again(session, name=None if found is None else found.family.name)
        return found.family

    def again(self, session: str, *, name: str | None = None) -> Family:
        """The same, looked up now. An empty session that has none gets one: whoever made it died before that."""
        stored = self._inner.envelope(session)
        if name is None:
            name = self._inner.head(session).family
        if stored is None:
            stored = self._made(session, name)
        family = self._by_envelope.get((name, stored))
        if family is None:
            family = Family(name, envelope.opened(stored, self.keys, bound=envelope.of_family(name)))
            self._by_envelope[name, stored] = family
        if max(len(self._by_envelope), len(self._by_session)) > limits.FAMILIES_COUNT_MAX:
            self._by_envelope = {(name, stored): family}
            self._by_session = {}
        self._by_session[session] = _Found(family, stored, clock.monotonic_s())
        return family

    def pending(self, session: str) -> Family:
        """The keys of a family that a session is about to found; the same until `settled`."""
        found = self._pending.get(session)
        if found is None:
            secrets = envelope.new_secrets()
            stored = envelope.closed(secrets, self.keys.first, bound=envelope.of_family(session))
            if len(self._pending) >= limits.FAMILIES_COUNT_MAX:
                self._pending.clear()
            found = self._pending[session] = _Found(Family(session, secrets), stored, clock.monotonic_s())
        return found.family

    def settled(self, session: str) -> bytes:
        """The envelope of a pending family, which from now on is nobody's but the store's."""
        self.pending(session)
        self.forget(session)
        return self._pending.pop(session).envelope

    def forget(self, session: str) -> None:
        """What is known of a session that is gone."""
        self._by_session.pop(session, None)

    def _made(self, session: str, name: str) -> bytes:
        if self._inner.head(session).seq:
            raise NotSealedError(
                f"{session}: there are no keys for its family {name}: it was written in clear, or they were destroyed"
            )
        new = envelope.closed(envelope.new_secrets(), self.keys.first, bound=envelope.of_family(name))
        try:
            self._inner.put_envelope(session, new, seen=None)
        except ConflictError:  # another process was faster
            return self._inner.envelope(session) or new
        return new
