"""A keyframe: the whole state, in content-addressed chunks and a manifest that says what is where.

**Manifest.** A plain dict, stored as any value:

    {"format": 1, "parts": [[name, node], ...]}        the parts in order

A *node* says where a value is. `digest` is the address of a chunk, `bytes` how long the chunk's data is:

    ["c", digest, bytes]                               the chunk holds the value
    ["s", digest, index]                               the chunk holds a list of small values, this one at `index`
    ["l", [segment, ...]]                              a list: the items of its segments, one after another
    ["m", [segment, ...]]                              a dict: the entries of its segments, one after another

A *segment* is a run, with a chunk of its own, or a single big item. A run's chunk holds a list of `count` items, or a
dict with exactly these `keys` in this order:

    ["r", count, digest, bytes]  ["n", node]           in a list
    ["r", keys, digest, bytes]   ["n", key, node]      in a dict

**Chunk.** The body frame of the encoded value, compressed without a dictionary; its address is the SHA-256 of the
frame. A chunk aims at `limits.CHUNK_BYTES` of data and holds more only where one string or the like is longer.

A keyframe is *folded* from the one before and the deltas since, as they were recorded, never from live objects. Only
runs that a delta reaches are read and written again, so a list that only grows keeps all its runs but the last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from perdure import limits, values
from perdure.errors import DamageError, FormatNewerError
from perdure.state import delta
from perdure.state.chunks import Chunks, Load, opened, opened_as
from perdure.state.pieces import SMALL_BYTES, Node, Piece, Whole, piece, run_of
from perdure.state.weight import stored_weight

FORMAT: Final = 1
EMPTY: Final[dict[str, Any]] = {"format": FORMAT, "parts": []}
"""The manifest of a state without parts."""

DICTIONARY_BYTES_MIN: Final = 1024
"""A chunk with less data is no help as a dictionary."""

DICTIONARY_BYTES_MAX: Final = 2 * limits.CHUNK_BYTES
"""A chunk with more data is one large value: other bodies do not resemble it, and those that have it name it."""

Manifest = dict[str, Any]
Folding = Generator[None, None, tuple[Manifest, dict[bytes, bytes]]]


def parts(manifest: Manifest) -> list[str]:
    """The names of the parts, in order. Raises `DamageError` or `FormatNewerError`."""
    return list(_nodes(manifest))


def restore(manifest: Manifest, load: Load, *, part: str | None = None) -> Any:
    """All parts in a dict, or the value of one part; new objects each time.

    Every chunk is checked against its address. Raises `DamageError` that names a damaged chunk or an unknown part.
    """
    nodes = _nodes(manifest)
    small: dict[bytes, Any] = {}
    try:
        if part is None:
            return {name: _value(node, load, small) for name, node in nodes.items()}
        if part not in nodes:
            raise DamageError(f"a keyframe without a part {part!r}")
        return _value(nodes[part], load, small)
    except (LookupError, TypeError, ValueError) as error:
        raise DamageError(f"a manifest that does not fit its chunks: {error}") from error


def fold(
    manifest: Manifest,
    deltas: Iterable[list[delta.Op]],
    load: Load,
    *,
    size: int = limits.CHUNK_BYTES,
    codec: str = values.DEFAULT,
) -> Folding:
    """The keyframe after `deltas`: its manifest, and the new chunks by their address. `manifest` stays as it is.

    A generator: it yields between slices of work, so that other threads have their turn, and returns the pair. The
    values in `deltas` become part of it: decode them for this. `size` is the aim for the bytes of a chunk, `codec` the
    protocol of the new ones. Raises `DamageError` for a damaged chunk or a delta that does not fit.
    """
    nodes = _nodes(manifest)
    pieces = {name: piece(node) for name, node in nodes.items()}
    chunks = Chunks(load, set(addresses(manifest)), codec=codec)
    for ops in deltas:
        for op in ops:
            _apply(pieces, op, chunks)
        yield
    small = yield from _write_small(pieces, chunks, min(size, SMALL_BYTES))
    written = []
    for name, each in pieces.items():
        written.append([name, small[name] if name in small else (yield from each.write(chunks, size))])
    return {"format": FORMAT, "parts": written}, chunks.new


def dictionary_of(manifest: Manifest) -> bytes | None:
    """The address of the chunk that most resembles what comes next: the newest full run of the largest list or dict.

    None while there is nothing of use.
    """
    best: tuple[int, bytes] | None = None
    for node in _nodes(manifest).values():
        for runs in _run_lists(node):
            least = max(DICTIONARY_BYTES_MIN, max((length for _, length in runs), default=0) // 2)
            full = [run for run in runs if least <= run[1] <= DICTIONARY_BYTES_MAX]
            total = sum(length for _, length in runs)
            if full and (best is None or total > best[0]):
                best = total, full[-1][0]
    return best[1] if best else None


def _nodes(manifest: Manifest) -> dict[str, Node]:
    try:
        if manifest["format"] > FORMAT:
            raise FormatNewerError(f"a keyframe of format {manifest['format']}; this perdure reads up to {FORMAT}")
        return {name: node for name, node in manifest["parts"]}  # noqa: C416  (checks that they are pairs)
    except (LookupError, TypeError, ValueError) as error:
        raise DamageError(f"not a manifest of a keyframe: {error}") from error


def _value(node: Node, load: Load, small: dict[bytes, Any]) -> Any:
    kind = node[0]
    if kind == "c":
        return opened(node[1], load)
    if kind == "s":
        if node[1] not in small:
            small[node[1]] = opened_as(list, node[1], load)
        return small[node[1]][node[2]]
    if kind == "l":
        items: list[Any] = []
        for segment in node[1]:
            items += run_of(segment, load) if segment[0] == "r" else [_value(segment[1], load, small)]
        return items
    if kind != "m":
        raise DamageError(f"a manifest with a node of kind {kind!r}, which is never written")
    entries: dict[Any, Any] = {}
    for segment in node[1]:
        entries.update(run_of(segment, load) if segment[0] == "r" else {segment[1]: _value(segment[2], load, small)})
    return entries


def _apply(pieces: dict[str, Piece], op: delta.Op, chunks: Chunks) -> None:
    try:
        kind, path = op[0], op[1]
        if kind == "order" and not path:
            for name in op[2]:
                pieces[name] = pieces.pop(name)
        elif kind == "set" and len(path) == 1:
            pieces[path[0]] = Whole(None, op[2])
        elif kind == "del" and len(path) == 1:
            del pieces[path[0]]
        else:
            pieces[path[0]].apply(op, path[1:], chunks)
    except (LookupError, TypeError, ValueError) as error:
        raise DamageError(f"a change does not fit the state: {op[0]!r} at {op[1]!r}: {error}") from error


def _write_small(pieces: dict[str, Piece], chunks: Chunks, size: int) -> Generator[None, None, dict[str, Node]]:
    """The nodes of the parts that share a chunk; it is written again when one of them changed, came or went."""
    shared = {name: each for name, each in pieces.items() if isinstance(each, Whole) and _is_small(each, size)}
    clean = {name: each.node for name, each in shared.items() if each.node is not None}
    if len(clean) == len(shared) and len({node[1] for node in clean.values()}) <= 1:
        return clean
    digest, _ = chunks.add([each.load(chunks) for each in shared.values()])
    yield
    return {name: ["s", digest, index] for index, name in enumerate(shared)}


def _is_small(each: Whole, size: int) -> bool:
    return each.node[0] == "s" if each.node is not None else stored_weight(each.value, size) <= size


def addresses(manifest: Manifest) -> Iterator[bytes]:
    """The addresses of the chunks that a manifest names, some of them more than once."""
    pending = list(_nodes(manifest).values())
    while pending:
        node = pending.pop()
        if node[0] in ("c", "s"):
            yield node[1]
        elif node[0] == "r":
            yield node[2]
        elif node[0] == "n":
            pending.append(node[-1])
        else:
            pending += node[1]


def moved(manifest: Manifest, to: Callable[[bytes], tuple[bytes, int]]) -> Manifest:
    """The manifest over chunks that are elsewhere: `to` says of an address the new one, and the length of its data."""
    return {
        "format": manifest["format"],
        "parts": [[name, _moved(node, to)] for name, node in _nodes(manifest).items()],
    }


def _moved(node: Any, to: Callable[[bytes], tuple[bytes, int]]) -> Any:
    """A node or a segment."""
    if node[0] == "c":
        return ["c", *to(node[1])]
    if node[0] == "s":
        return ["s", to(node[1])[0], node[2]]
    if node[0] == "r":
        return ["r", node[1], *to(node[2])]
    if node[0] == "n":
        return [*node[:-1], _moved(node[-1], to)]
    return [node[0], [_moved(segment, to) for segment in node[1]]]


def _run_lists(node: Node) -> Iterator[list[tuple[bytes, int]]]:
    """Of each list or dict in pieces, and each value with a chunk of its own: address and length of its chunks."""
    if node[0] == "c":
        yield [(node[1], node[2])]
    elif node[0] in ("l", "m"):
        yield [(segment[2], segment[3]) for segment in node[1] if segment[0] == "r"]
        for segment in node[1]:
            if segment[0] == "n":
                yield from _run_lists(segment[-1])
