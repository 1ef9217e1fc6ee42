"""Who belongs to a family, and its chunks: put under a generation, found in any, removed from those that are over.

A sweep begins a generation in every head of the family before it removes anything. Whoever writes meanwhile finds its
head changed and puts its chunks again, under the new generation; so what is removed can be needed by nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from perdure.stores import refusals
from perdure.stores.s3 import names
from perdure.stores.s3.bucket import Bucket, Listed
from perdure.stores.s3.cell import Cell, Seen
from perdure.stores.s3.family import Family, FamilyCodec
from perdure.stores.s3.head import State
from perdure.stores.s3.heads import Heads, each_kin


class Families:
    """The families of a place."""

    def __init__(self, bucket: Bucket, heads: Heads, *, busy_s: float) -> None:
        self._bucket, self._heads, self._busy_s = bucket, heads, busy_s
        self._cells: dict[str, Cell[Family]] = {}
        self._mutex = threading.Lock()

    def cell(self, key: str) -> Cell[Family]:
        """What the family of this key shares."""
        with self._mutex:
            if len(self._cells) > 1024:
                self._cells.clear()
            if key not in self._cells:
                self._cells[key] = Cell(self._bucket, names.family(key), codec=FamilyCodec(), busy_s=self._busy_s)
            return self._cells[key]

    def look(self, key: str) -> Family:
        """The family as it is now."""
        return self.cell(key).look().value or Family((key,))

    def join(self, key: str, member: str, *, envelope: bytes | None, void: Callable[[], None]) -> int:
        """Makes sure that whoever looks at the family knows of this member. The generation of its chunks.

        `envelope` becomes that of the family, if it has nobody yet; `void` then makes sure that the member is not
        being made by somebody else. Raises `ConflictError`.
        """

        def work(seen: Seen[Family]) -> Family | None:
            known = seen.value
            if known is None and member == key and envelope is None:
                return None
            known = known or Family((key,))
            if envelope is not None and known.envelope is not None:
                others = [one for one in known.members if one != member]
                if self.kin(key, others, settle=True):
                    raise refusals.other_envelope(key)
                void()
            members = tuple(dict.fromkeys((*known.members, member)))
            return Family(members, known.generation, known.envelope if envelope is None else envelope)

        return (self.cell(key).change(work).value or Family((key,))).generation

    def kin(self, key: str, members: Iterable[str], *, settle: bool = False) -> list[State]:
        """The sessions among these, and those that go on from them; `settle`: nobody else is about to come."""
        found: dict[str, State] = {}
        waiting = list(members)
        while waiting:
            states = self._heads.all_of(waiting, settle=settle)
            kin = [state for state in each_kin(states, family=key) if state.key not in found]
            found |= {state.key: state for state in kin}
            waiting = [fork for state in kin for fork in state.forks if fork not in found]
        return list(found.values())

    def leave(self, key: str, member: str) -> None:
        """After a session was deleted: with the last of the family its chunks and envelope go. It may be done again."""
        is_last = False

        def work(seen: Seen[Family]) -> Family | None:
            nonlocal is_last
            known = seen.value or Family((key,))
            left = tuple(one for one in known.members if one != member)
            is_last = not self.kin(key, left, settle=True)
            if is_last:
                return Family((), known.generation + 1)
            return None if left == known.members else replace(known, members=left)

        known = self.cell(key).change(work).value
        if is_last and known is not None:
            over = [found for found in self.generations(key) if found[0] != known.generation]
            self._bucket.delete([names.chunk(key, *found) for found in over])

    # ---------------------------------------------------------------------------------------------- chunks

    def put_chunks(self, key: str, generation: int, chunks: Mapping[bytes, bytes]) -> None:
        """A put for each of them."""
        self._heads.together(
            lambda pair: self._bucket.put(names.chunk(key, generation, pair[0]), pair[1]), chunks.items()
        )

    def chunks(self, state: State, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """These chunks. Raises `MissingError`, which names the first that is missing."""
        wanted = list(dict.fromkeys(digests))
        key = names.key_of(state.family)
        found = self._in(key, dict.fromkeys(wanted, state.generation)) if not state.generation else {}
        if len(found) < len(wanted):
            there = {digest: generation for generation, digest in sorted(self.generations(key))}
            left = {digest: there[digest] for digest in wanted if digest not in found and digest in there}
            found |= self._in(key, left)
        for digest in wanted:
            if digest not in found:
                raise refusals.missing_chunk(state.session, digest=digest)
        return {digest: found[digest] for digest in wanted}

    def _in(self, key: str, places: Mapping[bytes, int]) -> dict[bytes, bytes]:
        found = self._heads.together(lambda pair: self._bucket.read(names.chunk(key, pair[1], pair[0])), places.items())
        return {digest: content for digest, content in zip(places, found, strict=True) if content is not None}

    def generations(self, key: str) -> dict[tuple[int, bytes], int]:
        """Each chunk with the generation that it was put in, and its length."""
        found = {}
        for one in self._bucket.list(names.chunks(key)):
            generation, digest = one.key.rsplit("/", 2)[1:]
            found[int(generation), bytes.fromhex(digest)] = one.size
        return found

    def left_over(self, listed: list[Listed]) -> dict[str, int]:
        """Those of these, with their lengths, that came to a family after the last of it was gone."""
        found: dict[str, int] = {}
        folders = groupby(listed, key=lambda one: one.key.split("/")[1])
        for key, objects in folders:
            chunks = [one for one in objects if one.key.startswith(f"{names.chunks(key)}/")]
            known = self.cell(key).look().value if chunks else None
            if known is not None and not known.members:
                found |= {one.key: one.size for one in chunks if int(one.key.split("/")[3]) < known.generation}
        return found

    def sweep(
        self, key: str, digests: Collection[bytes], *, states: list[State], check: Callable[[State], None]
    ) -> int:
        """Begins a generation in every head of the family, if there is none without these chunks. Its number.

        `states` are the sessions that there must be, `check` raises when one of them is not as it must be.
        """
        known = {state.key for state in states}
        newest = self.look(key).generation
        fresh = not any(generation == newest and digest in digests for generation, digest in self.generations(key))

        def work(seen: Seen[Family]) -> Family | None:
            family = seen.value or Family((key,))
            kin = self.kin(key, family.members, settle=True)
            if {state.key for state in kin} != known:
                raise refusals.joined(states[0].session)
            is_in_use = fresh and all(state.generation == family.generation for state in kin)
            if is_in_use and family.generation == newest and newest:
                return None
            there = tuple(state.key for state in kin if not state.bases)
            return Family(there or (key,), family.generation + 1, family.envelope)

        changed = self.cell(key).change(work).value
        generation = changed.generation if changed is not None else 0

        def begin(state: State, _: int) -> State | None:
            check(state)
            strange = [fork for fork in state.forks if fork not in known]
            if any(each_kin(self._heads.all_of(strange, settle=True), family=key)):
                raise refusals.joined(state.session)
            return None if state.generation == generation else replace(state, generation=generation)

        for state in states:
            self._heads.change(state.session, begin)
        return generation
