"""Keyframes, made beside the save path.

Folded from the recorded deltas by a background thread, never from live objects.

A keyframe's chunks are stored first; its record rides in a later commit. No save waits for one, and one that a crash
cuts off is made again when the session is next open.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from perdure import faults, limits, values
from perdure.errors import ConflictError, DamageError, HeldError, PerdureError
from perdure.session.keeping.background import background
from perdure.session.keeping.snapshot import manifest_of
from perdure.session.rules.request import Commit, Draft
from perdure.state import keyframe

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.session.keeping.opening import Opened
    from perdure.session.keeping.snapshot import Snapshot

PAUSE_S: Final = 0.002
"""How long a keyframe in the making rests between two bits of work, unless it is waited for."""

SLICES: Final = 16
"""Slices of folding that make a bit of work: a millisecond or less."""

_log = logging.getLogger("perdure.keyframes")


class Keyframer:
    """Follows the snapshots of one session and makes a keyframe when enough deltas have gathered since the last."""

    def __init__(self, opened: Opened, *, every: int | None = None) -> None:
        self._writer, self._reader = opened.writer, opened.reader
        self._every = every or opened.reader.store.keyframe_deltas
        self._soon = min(self._every, limits.KEYFRAME_DELTAS_SOON)
        self._manifest: Any = keyframe.EMPTY
        self._deltas: list[tuple[int, bytes]] = []
        self._known: dict[int, int] = {}
        self._job: threading.Event | None = None
        self._tried = 0
        self._hurry: threading.Event
        """Of the job: it is waited for."""

    def entered(self, snapshot: Snapshot, seq: int) -> None:
        """The code starts from this snapshot: what has gathered since its keyframe counts."""
        self._join()
        self._writer.riders.clear()
        self._manifest = snapshot.manifest
        self._deltas = [(seq, data) for data in snapshot.encoded]
        has_later = self._writer.summary.keyframe[0] > seq
        self._known = dict(self._reader.store.keyframes(self._reader.session)) if has_later else {}
        self._writer.dictionary = lambda: self._load_dictionary(snapshot.manifest)
        self._begin_if_due()

    def add(self, seq: int, delta: bytes) -> None:
        """One more snapshot, written or met again."""
        self._deltas.append((seq, delta))
        if seq in self._known and self._take_known(seq):
            return
        self._begin_if_due()

    def _take_known(self, seq: int) -> bool:
        """Goes on from a keyframe that the session has already, unless it is damaged."""
        try:
            self._manifest, self._deltas = manifest_of(self._reader, seq, self._known[seq]), []
        except DamageError as error:
            _log.warning("a keyframe is passed over: %s", error)
            return False
        return True

    def close(self) -> None:
        """Waits for a keyframe that is being made and writes its record.

        Makes one that is nearly due: whoever opens the session next has less to read.
        """
        self._finish()
        if len(self._deltas) >= self._tried + self._soon:
            self._begin()
            self._finish()

    def _finish(self) -> None:
        self._join()
        if not self._writer.riders:
            return
        try:
            self._writer.commit(Commit((), lambda _: None))
        except (ConflictError, HeldError):
            # Without a lease others may write, too. A keyframe is derived: the next one to open makes it.
            if not self._writer.is_shared:
                raise

    def _begin_if_due(self) -> None:
        # The first one comes soon: until there is one, nothing is compressed with a dictionary.
        if len(self._deltas) < self._tried + (self._every if self._manifest["parts"] else self._soon):
            return
        busy = self._writer.riders or (self._job is not None and not self._job.is_set())
        if not busy:
            self._begin()

    def _begin(self) -> None:
        manifest, deltas = self._manifest, list(self._deltas)
        self._hurry = threading.Event()
        self._job = background.submit(lambda: self._make(manifest, deltas))

    def _join(self) -> None:
        job = self._job
        if job is not None:
            self._hurry.set()
            job.wait()
            self._job = None

    def _make(self, manifest: Any, deltas: list[tuple[int, bytes]]) -> None:
        try:
            self._fold(manifest, deltas)
        except PerdureError as error:
            # Derived, so nothing is lost: the deltas are kept, and it is tried again after the next ones.
            self._tried = len(deltas)
            _log.warning("no keyframe for %s: %s", self._reader.session, error)

    def _fold(self, manifest: Any, deltas: list[tuple[int, bytes]]) -> None:
        faults.reach("keyframe.before")
        ops = (values.decode(data) for _, data in deltas)
        folding = keyframe.fold(manifest, ops, self._reader.chunk, codec=self._reader.store.protocol)
        with values.inert():  # as it was recorded, whatever became of the classes since
            folded, chunks = self._in_slices(folding)
        for digest, frame in chunks.items():
            self._hurry.wait(PAUSE_S)
            self._reader.store.put_chunks(self._reader.session, {digest: frame}, epoch=self._writer.condition)
        faults.reach("keyframe.chunks")
        dictionary = self._dictionary_of(folded)
        if dictionary is not None:
            dictionary.prepare()
        body = {"of": deltas[-1][0], "manifest": values.encode(folded)}

        def written(_: Entry) -> None:
            self._tried = 0
            self._manifest, self._deltas = folded, self._deltas[len(deltas) :]
            self._writer.dictionary = lambda: dictionary
            if self._writer.condition is None:
                self._keep_again(chunks)

        self._writer.riders.append((Draft("keyframe", body), written))
        faults.reach("keyframe.after")

    def _keep_again(self, chunks: dict[bytes, bytes]) -> None:
        """Without a lease they may have been swept while no record named them; now one does."""
        try:
            self._reader.store.put_chunks(self._reader.session, chunks, epoch=None)
        except PerdureError as error:
            # Somebody has the session by now. The deltas are kept, so a keyframe without its chunks loses nothing.
            _log.warning("the chunks of a keyframe of %s were not kept again: %s", self._reader.session, error)

    def _in_slices(self, folding: keyframe.Folding) -> tuple[keyframe.Manifest, dict[bytes, bytes]]:
        """What the folding returns; rests between two slices, so that no save meets more than one of them."""
        while True:
            try:
                for _ in range(SLICES):
                    next(folding)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            self._hurry.wait(PAUSE_S)

    def _load_dictionary(self, manifest: Any) -> values.Dictionary | None:
        dictionary = self._dictionary_of(manifest)
        self._writer.dictionary = lambda: dictionary
        return dictionary

    def _dictionary_of(self, manifest: Any) -> values.Dictionary | None:
        digest = keyframe.dictionary_of(manifest)
        try:
            return None if digest is None else self._reader.dictionary(digest)
        except DamageError as error:
            _log.warning("no dictionary for %s: %s", self._reader.session, error)
            return None
