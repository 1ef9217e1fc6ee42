"""What the snapshots that stay are made from: a keyframe that is proved good, and the deltas since.

Where keeping the deltas would cost more than a keyframe of its own, one is made; and for the newest run of snapshots
in any case, so that no more of them stay than were asked for. Nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values
from perdure.errors import DamageError
from perdure.session.keeping.snapshot import snapshot
from perdure.state import keyframe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perdure.ops.facts import Facts
    from perdure.ops.retention import Stay
    from perdure.session.keeping.snapshot import Reader

WORTH_BYTES: Final = limits.CHUNK_BYTES // 4
"""Deltas of less are kept without trying whether a keyframe would be smaller."""


@dataclass(frozen=True, slots=True)
class Made:
    """A keyframe that is to be written: of which snapshot, its manifest, the chunks that are new, all that it needs."""

    of: int
    manifest: bytes
    chunks: Mapping[bytes, bytes]
    needs: frozenset[bytes]

    @property
    def bytes(self) -> int:
        """What it takes, beside what is there already."""
        return len(self.manifest) + sum(map(len, self.chunks.values()))


def bases(facts: Facts, kept: Stay) -> list[Made]:
    """Adds to what stays whatever the snapshots in it are made from. Returns the keyframes that must be made for it.

    Raises `DamageError` when a keyframe that other things would go for is not proved good.
    """
    proved: set[bytes] = set()
    made = []
    kept.records |= {record for of, record in facts.keyframes.items() if of in kept.snapshots}
    begins = [seq for seq in sorted(kept.snapshots) if facts.points[seq].parent not in kept.snapshots]
    for seq in begins:
        base, path = _way(facts, seq)
        if len(path) > 1:
            new = _made(facts, seq, path, at_any_cost=seq == begins[-1])
            if new is not None:
                _prove(facts.reader, new.needs - new.chunks.keys(), proved)
                made.append(new)
                continue
        if base:
            _prove(facts.reader, facts.needs.get(facts.keyframes[base], frozenset()), proved)
            kept.records.add(facts.keyframes[base])
        kept.snapshots |= {one for one in path if one in facts.points}
        kept.records |= kept.snapshots
    return made


def _way(facts: Facts, seq: int) -> tuple[int, list[int]]:
    """The newest snapshot with a keyframe that this one comes from, 0 for none; and those after it, this one too."""
    path: list[int] = []
    while seq and seq not in facts.keyframes:
        if seq not in facts.points:
            raise DamageError(f"{facts.session}: there is no way to snapshot {path[0]}, {seq} is gone")
        path.append(seq)
        seq = facts.points[seq].parent
    return seq, path


@values.inert()
def _made(facts: Facts, seq: int, path: list[int], *, at_any_cost: bool) -> Made | None:
    """A keyframe of this snapshot, if it takes less than the deltas that it spares."""
    spared = sum(facts.sizes[one] for one in path if one != seq)
    if spared < WORTH_BYTES and not at_any_cost:
        return None
    at = snapshot(facts.reader, seq)
    deltas = (values.decode(data) for data in at.encoded)
    codec = facts.reader.store.protocol
    manifest, chunks = _folded(keyframe.fold(at.manifest, deltas, facts.reader.chunk, codec=codec))
    encoded = values.encode(manifest)
    if len(encoded) + sum(map(len, chunks.values())) >= spared and not at_any_cost:
        return None
    return Made(seq, encoded, chunks, frozenset(keyframe.addresses(manifest)))


def _folded(folding: keyframe.Folding) -> tuple[Any, dict[bytes, bytes]]:
    def slices() -> Iterator[None]:
        result.append((yield from folding))

    result: list[tuple[Any, dict[bytes, bytes]]] = []
    for _ in slices():
        pass
    return result[0]


def _prove(reader: Reader, digests: frozenset[bytes], proved: set[bytes]) -> None:
    """Raises `DamageError` unless each chunk is what its address says."""
    for digest in digests - proved:
        if values.address(reader.chunk(digest)) != digest:
            raise DamageError(f"{reader.session}: chunk {digest.hex()} is not what was written")
        proved.add(digest)
