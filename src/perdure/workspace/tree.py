"""The entries of a workspace as a tree of chunks, in which what did not change is stored once.

The entries stand in the order of a walk: a folder, then what is in it, names in the order of their code points. They
are cut into *leaves* where the check sum of a path says so, and the addresses of those into nodes again, so that a
change makes new chunks only on the way to it. The chunk at the top is the *manifest*, and its address the id of the
capture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from perdure import values
from perdure.errors import DamageError, FormatNewerError
from perdure.state.chunks import Load, opened_as
from perdure.workspace.entry import FILE, SKIPPED, Entry, alike, decoded, encoded
from perdure.workspace.rules import Rules

FORMAT: Final = 1
FEW: Final = 64
"""On average so many are in a leaf or node; no more than eight times as many are."""

LEVELS_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Manifest:
    """A workspace as of one instant. `id` is its content address; `root` the folder, absolute.

    `files`, `size` (bytes of their content) and `skipped` are counts; `levels` and `nodes` lead to the entries.
    """

    id: bytes
    root: str
    rules: Rules
    files: int
    size: int
    skipped: int
    levels: int
    nodes: tuple[bytes, ...]


def write(
    entries: Sequence[Entry], *, root: str, rules: Rules, leaves: Leaves, add: Callable[[bytes], bytes]
) -> Manifest:
    """Puts the tree of these entries through `add`, which gives the address of an encoded value."""
    nodes = leaves.of(entries, add)
    levels = 0
    while len(nodes) > 2 * FEW:
        nodes, levels = [add(values.encode(run)) for run in _runs(nodes)], levels + 1
    files = [entry for entry in entries if entry.kind == FILE]
    body = {
        "format": FORMAT,
        "root": os.fsencode(root),
        "rules": rules.encoded(),
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "skipped": sum(entry.kind == SKIPPED for entry in entries),
        "levels": levels,
        "nodes": nodes,
    }
    return _manifest(add(values.encode(body)), body)


def _runs(digests: list[bytes]) -> Iterator[list[bytes]]:
    run: list[bytes] = []
    for digest in digests:
        run.append(digest)
        if digest[0] % FEW == 0 or len(run) >= 8 * FEW:
            yield run
            run = []
    if run:
        yield run


class Leaves:
    """The leaves of the last capture, by their first path: one that has the same entries is not encoded again."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[list[Entry], bytes]] = {}

    def of(self, entries: Sequence[Entry], add: Callable[[bytes], bytes]) -> list[bytes]:
        """The addresses of the leaves that these entries are in."""
        kept: dict[str, tuple[list[Entry], bytes]] = {}
        digests = []
        begin = 0
        while begin < len(entries):
            first = entries[begin].path
            run, digest = self._kept.get(first, ([], b""))
            end = begin + len(run)
            if not run or entries[begin:end] != run or not (is_last(run) or end == len(entries)):
                run = list(_leaf(entries, begin))
                digest = add(values.encode([encoded(entry) for entry in run]))
                end = begin + len(run)
            kept[first] = run, digest
            digests.append(digest)
            begin = end
        self._kept = kept
        return digests

    def forget(self) -> None:
        """Nothing is known to be stored."""
        self._kept = {}


def is_last(run: Sequence[Entry]) -> bool:
    """Whether a leaf that has come so far ends here."""
    return len(run) >= 8 * FEW or crc32(os.fsencode(run[-1].path)) % FEW == 0


def _leaf(entries: Sequence[Entry], begin: int) -> Iterator[Entry]:
    run: list[Entry] = []
    for at in range(begin, len(entries)):
        run.append(entries[at])
        yield entries[at]
        if is_last(run):
            return


def load(digest: bytes, chunk: Load) -> Manifest:
    """The manifest of this id. Raises `DamageError`, `FormatNewerError`."""
    return _manifest(digest, opened_as(dict, digest, chunk))


def _manifest(digest: bytes, body: dict[str, Any]) -> Manifest:
    if body.get("format", 0) != FORMAT:
        if type(body.get("format")) is int and body["format"] > FORMAT:
            raise FormatNewerError(f"a workspace of format {body['format']}; this perdure reads up to {FORMAT}")
        raise DamageError(f"chunk {digest.hex()} is no manifest of a workspace")
    try:
        found = Manifest(
            digest,
            os.fsdecode(body["root"]),
            Rules.decoded(body["rules"]),
            body["files"],
            body["bytes"],
            body["skipped"],
            body["levels"],
            tuple(body["nodes"]),
        )
    except (KeyError, TypeError) as error:
        raise DamageError(f"chunk {digest.hex()} is no manifest of a workspace: {error!r}") from error
    if not 0 <= found.levels <= LEVELS_MAX:
        raise DamageError(f"chunk {digest.hex()}: a workspace of {found.levels} levels")
    return found


def _below(manifest: Manifest, chunk: Load) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """The nodes of each level, from the top; level 0 are the leaves."""
    nodes = manifest.nodes
    for level in range(manifest.levels, 0, -1):
        yield level, nodes
        nodes = tuple(digest for node in nodes for digest in opened_as(list, node, chunk))
    yield 0, nodes


def leaves_of(manifest: Manifest, chunk: Load) -> tuple[bytes, ...]:
    """The addresses of the leaves, in order."""
    *_, (_, found) = _below(manifest, chunk)
    return found


def entries_of(manifest: Manifest, chunk: Load) -> Iterator[Entry]:
    """All entries, in order. Raises `DamageError`."""
    for leaf in leaves_of(manifest, chunk):
        yield from map(decoded, opened_as(list, leaf, chunk))


def addresses(digest: bytes, chunk: Load, seen: set[bytes] | None = None) -> Iterator[bytes]:
    """The addresses of all chunks without which the workspace of this id cannot be restored, each once.

    What is in `seen` is passed over with all below it, and what is found goes there.
    """
    seen = set() if seen is None else seen
    if digest in seen:
        return
    seen.add(digest)
    yield digest
    manifest = load(digest, chunk)
    nodes = list(manifest.nodes)
    for level in range(manifest.levels, -1, -1):
        fresh = [node for node in dict.fromkeys(nodes) if node not in seen]
        seen.update(fresh)
        yield from fresh
        held = [item for node in fresh for item in opened_as(list, node, chunk)]
        if level:
            nodes = held
        else:
            pieces = {piece.chunk: None for item in held for piece in decoded(item).pieces}
            found = [chunk_of for chunk_of in pieces if chunk_of not in seen]
            seen.update(found)
            yield from found


Differing = dict[str, tuple[Entry | None, Entry | None]]
"""By path what was there before and what is there after, where that differs to whoever restores."""


def difference(one: Manifest, other: Manifest, chunk: Load) -> Differing:
    """What differs between two captures. Reads only the leaves that they do not share."""
    if one.id == other.id:
        return {}
    before, after = leaves_of(one, chunk), leaves_of(other, chunk)
    shared = {*before} & {*after}
    olds, news = (
        {entry.path: entry for entry in _entries((leaf for leaf in found if leaf not in shared), chunk)}
        for found in (before, after)
    )
    pairs = {path: (olds.get(path), news.get(path)) for path in sorted({*olds, *news})}
    return {path: pair for path, pair in pairs.items() if not alike(*pair)}


def _entries(leaves: Iterable[bytes], chunk: Load) -> Iterator[Entry]:
    for leaf in leaves:
        yield from map(decoded, opened_as(list, leaf, chunk))
