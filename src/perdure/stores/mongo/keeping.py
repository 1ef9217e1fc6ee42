"""Keeping house: amendments, chunks that nothing needs, what crashes have left, and sessions that are deleted.

Each is one change of a session's document, with its preparation before and its tidying after it. A crash before leaves
what nobody sees, a crash after what the next one finishes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from perdure import faults
from perdure.stores import refusals
from perdure.stores.contract import Batch, Change, Lease
from perdure.stores.mongo.amendments import Amendments
from perdure.stores.mongo.chunks import Chunks
from perdure.stores.mongo.commits import Commit, Commits
from perdure.stores.mongo.envelopes import Envelopes
from perdure.stores.mongo.inbox import attempts_of
from perdure.stores.mongo.layout import Outside, key_of, new_attempt, parts_of, rows_in
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.parts import Parts
from perdure.stores.mongo.sessions import VISIBLE, Session, Sessions, check_seen, check_taken, seen_as, session_in


class Keeping:
    """Keeps house in a database."""

    def __init__(
        self, link: Link, sessions: Sessions, *, parts: Parts, chunks: Chunks, commits: Commits, envelopes: Envelopes
    ) -> None:
        self._link, self._sessions, self._parts = link, sessions, parts
        self._chunks, self._commits, self._envelopes = chunks, commits, envelopes
        self._amendments = Amendments(link, sessions, parts, chunks)

    # ------------------------------------------------------------------------------------------------------ amendments

    def amend(self, batch: Batch, change: Change, *, seen: Lease, head: int, end: int, family: Collection[str]) -> None:
        """See `Store.amend`."""

        def check() -> None:
            self._check_amended(batch, change, seen=seen, head=head, family=family)

        self._link.use(check)
        mark = new_attempt()
        self._link.use(lambda: self._arm(seen, head=head, mark=mark))
        self._link.use(check)
        over = self._link.use(
            lambda: self._amendments.put(key_of(seen.session), change, {**change.chunks, **batch.chunks})
        )
        commit = Commit(
            seen.session,
            Batch(batch.records, batch.points, batch.marks, batch.keyframes, batch.summary, batch.taken),
            end,
            judge=lambda found: self._still(found, seen, head=head, mark=mark),
            when={**seen_as(seen, head=head), "fence": mark},
            then={"over": over},
            point="amend.inside",
            listed=False,
            alone=True,
        )
        self._commits.write(commit)
        self._link.use(lambda: self._amendments.carry_over(self._sessions.look(seen.session)))

    def _check_amended(self, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]) -> None:
        found = self._sessions.look(seen.session)
        check_seen(found, seen, head=head)
        if set(self._sessions.kin(found.family_key)) != set(family):
            raise refusals.joined(seen.session)
        check_taken(found, batch.taken)
        for seq, _ in change.bodies:
            if seq <= found.seam:
                raise refusals.missing_record(seen.session, seq=seq)
        if found.over is not None:
            self._amendments.carry_over(found)

    def _arm(self, seen: Lease, *, head: int, mark: bytes) -> None:
        """Moves the fence, so that whoever comes into the family from now on moves it again."""
        here = {"_id": key_of(seen.session), **seen_as(seen, head=head)}
        if not self._link.sessions.update_one(here, {"$set": {"fence": mark, "armed": True}}).matched_count:
            check_seen(self._sessions.look(seen.session), seen, head=head)
            raise refusals.joined(seen.session)

    def _still(self, found: Session, seen: Lease, *, head: int, mark: bytes) -> None:
        check_seen(found, seen, head=head)
        if found.fence != mark:
            raise refusals.joined(seen.session)

    # ---------------------------------------------------------------------------------------------------------- chunks

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        if seen:
            self._link.use(lambda: self._drop_chunks(digests, seen))

    def _drop_chunks(self, digests: Collection[bytes], seen: Mapping[Lease, int]) -> None:
        families = {self._as_seen(lease, head=head).family_key for lease, head in seen.items()}
        family, mark = families.pop(), new_attempt()
        self._check_whole(family, seen, one=not families)
        self._amendments.carry_over_all(family)
        self._chunks.mark_dead(family, digests, mark=mark)
        self._check_whole(family, seen, one=True)
        for lease, head in seen.items():
            here = {"_id": key_of(lease.session), **seen_as(lease, head=head), "over": None}
            if not self._link.sessions.update_one(here, {"$set": {"fence": mark}}).matched_count:
                self._as_seen(lease, head=head)
                raise refusals.joined(lease.session)
        faults.reach("sweep.inside")
        self._chunks.drop_dead(family, mark=mark)

    def _check_whole(self, family: bytes, seen: Iterable[Lease], *, one: bool) -> None:
        sessions = {lease.session for lease in seen}
        if not one or set(self._sessions.kin(family)) != sessions:
            raise refusals.joined(min(sessions))

    def _as_seen(self, seen: Lease, *, head: int) -> Session:
        found = self._sessions.look(seen.session)
        check_seen(found, seen, head=head)
        return found

    # --------------------------------------------------------------------------------------------------- what was left

    def purge(self, session: str) -> None:
        """See `Store.purge`."""
        self._link.use(lambda: self._purge(session))

    def _purge(self, session: str) -> None:
        found = self._sessions.look(session)
        if found.over is not None:
            self._amendments.carry_over(found)
        there = self._parts.attempts(found.key)
        if there:
            here = {"_id": found.key, **VISIBLE}
            self._link.sessions.update_one(here, {"$set": {"fence": new_attempt()}})
            self._parts.drop(found.key, there - self._named(self._sessions.look(session)))

    def _named(self, found: Session) -> set[bytes]:
        """Who wrote the long bodies that the log and the inbox name."""
        named = attempts_of(found)
        if found.over is not None:
            named.add(bytes(found.over["x"]))
        docs = [{"r": parts_of(one, "r"), "q": one["q"]} for one in found.tail]
        for doc in chain(self._link.records.find({"s": found.key}, {"r": 1, "q": 1}), docs):
            bodies = [row.body for row in rows_in(found.id, doc["r"], end=doc["q"])]
            named |= {body.attempt for body in bodies if isinstance(body, Outside)}
        return named

    # ------------------------------------------------------------------------------------------------------- deletion

    def delete(self, session: str) -> None:
        """See `Store.delete`."""
        self._link.use(lambda: self._delete(session))

    def _delete(self, session: str) -> None:
        patience = self._link.patience()
        while True:
            doc = self._link.sessions.find_one({"_id": key_of(session)})
            if doc is None or doc.get("hidden") is not None:
                raise refusals.unknown(session, url=self._link.url)
            if doc.get("erased") or self._bury(session_in(session, doc)):
                break
            patience.wait(f"{session}: others change its family all the time")
        faults.reach("erase.after")
        self._clear(bytes(doc["_id"]), bytes(doc["f"]))

    def _bury(self, found: Session) -> bool:
        """Puts a tombstone in the place of its document. False: somebody came."""
        here, mark = {"_id": found.key, **VISIBLE}, new_attempt()
        self._link.sessions.update_one(here, {"$set": {"fence": mark, "armed": True}})
        forks = self._sessions.forks(found.key)
        if forks:
            raise refusals.has_forks(found.id, forks=forks)
        self._envelopes.settle(found.family_key)
        faults.reach("erase.inside")
        tombstone = {"erased": True, "f": found.family_key}
        return self._link.sessions.replace_one({**here, "fence": mark}, tombstone).matched_count == 1

    def _clear(self, key: bytes, family: bytes) -> None:
        """Removes what stood elsewhere, of the family, too, if nobody is left of it."""
        for documents in (self._link.records, self._link.index, self._link.parts, self._link.sent):
            documents.delete_many({"s": key})
        if self._sessions.kin(family):
            return
        mark = new_attempt()
        self._chunks.mark_dead(family, None, mark=mark)
        self._envelopes.mark_dead(family, mark=mark)
        if not self._sessions.kin(family):
            self._chunks.drop_dead(family, mark=mark)
            self._envelopes.drop_dead(family, mark=mark)
