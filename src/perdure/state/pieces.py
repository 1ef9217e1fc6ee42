"""A kept state as a tree of pieces, of which only those that change are read and only those that changed are written.

A piece is a whole value (`Whole`) or a long list or dict (`Long`). A long one consists of runs, each in a chunk of
its own, and of single big items that are pieces themselves. A piece comes from a node of a manifest (see `keyframe`)
and becomes one again. Writing is a generator: it yields between slices of work, each about one chunk.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import groupby
from typing import Any, Final

from perdure import limits
from perdure.errors import DamageError
from perdure.state import delta
from perdure.state.chunks import Chunks, opened, opened_as
from perdure.state.weight import stored_weight, weight

SMALL_BYTES: Final = 4 * 1024
"""A list or dict up to this size is one piece, written again as a whole; small parts share a chunk."""

Node = list[Any]
Writing = Generator[None, None, Node]


class Whole:
    """A value in one piece: loaded, or in a chunk, there alone or one of a list of small ones."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node | None, value: Any = None) -> None:
        self.node, self.value = node, value

    def load(self, chunks: Chunks) -> Any:
        """The value; from now on it is written anew."""
        if self.node is not None:
            found = opened(self.node[1], chunks.load)
            self.value = found[self.node[2]] if self.node[0] == "s" else found
            self.node = None
        return self.value

    def apply(self, op: delta.Op, path: list[Any], chunks: Chunks) -> None:
        """Applies an operation whose place is `path` from here."""
        holder = [self.load(chunks)]
        delta.apply(holder, [op[0], [0, *path], *op[2:]])
        self.value = holder[0]

    def write(self, chunks: Chunks, size: int) -> Writing:
        """The node of this piece. `size` is the aim for the bytes of a chunk."""
        if self.node is not None:
            return self.node
        small = min(size, SMALL_BYTES)
        if type(self.value) in (list, dict) and stored_weight(self.value, small) > small:
            long = Long(type(self.value), [Run(None, self.value)])
            return (yield from long.write(chunks, size))
        digest, length = chunks.add(self.value)
        yield
        return ["c", digest, length]


class Run:
    """Some items of a list, or entries of a dict, in one chunk. `keys`: those of the entries, or how many items.

    `touched`: the keys of a dict's run to which something was done since its chunk was read.
    """

    __slots__ = ("items", "keys", "node", "touched")

    def __init__(self, node: Node | None, items: Any = None) -> None:
        self.node: Any = node
        self.items = items
        self.keys: Any = node[1] if node is not None else None
        self.touched: set[Any] = set()

    def __len__(self) -> int:
        if self.node is None:
            return len(self.items)
        return self.keys if type(self.keys) is int else len(self.keys)

    def __contains__(self, key: Any) -> bool:
        return key in (self.items if self.node is None else self.keys)

    def load(self, chunks: Chunks) -> Any:
        """The items; from now on they are written anew."""
        if self.node is not None:
            self.items = run_of(self.node, chunks.load)
            self.node = None
        return self.items


class One:
    """A single big item; in a dict the one under `key`."""

    __slots__ = ("key", "piece")

    def __init__(self, piece: Piece, key: Any = None) -> None:
        self.piece, self.key = piece, key

    def __len__(self) -> int:
        return 1

    def __contains__(self, key: Any) -> bool:
        return bool(key == self.key)


def run_of(node: Node, load: Any) -> Any:
    """The list or dict that a run's chunk holds. Raises `DamageError` when it is not what the manifest says."""
    _, keys, digest, _ = node
    items = opened_as(list if type(keys) is int else dict, digest, load)
    if (len(items) if type(keys) is int else list(items)) != keys:
        raise DamageError(f"chunk {digest.hex()}: does not hold the items that the manifest says")
    return items


class Long:
    """A long list or dict, in runs and single big items."""

    __slots__ = ("kind", "segments")

    def __init__(self, kind: type, segments: list[Run | One]) -> None:
        self.kind, self.segments = kind, segments

    # --- applying ----------------------------------------------------------------------------------------------------

    def apply(self, op: delta.Op, path: list[Any], chunks: Chunks) -> None:
        """Applies an operation whose place is `path` from here. Raises `DamageError` when it does not fit."""
        if path:
            self._below(op, path, chunks)
        elif op[0] == "extend" and self.kind is list:
            self._add(_checked(op[2], list))
        elif op[0] == "splice" and self.kind is list:
            self._splice(*op[2:], chunks=chunks)
        elif op[0] == "order" and self.kind is dict:
            for key in _checked(op[2], list):
                self._to_end(key, chunks)
        else:
            raise _misfit(op[0])

    def _below(self, op: delta.Op, path: list[Any], chunks: Chunks) -> None:
        at, step = self._find(path[0])
        if at < 0:
            if self.kind is not dict or op[0] != "set" or len(path) > 1:
                raise _misfit(op[0])
            self._add({path[0]: op[2]})
            return
        segment = self.segments[at]
        if isinstance(segment, One) and len(path) == 1 and op[0] in ("set", "del"):
            segment = self.segments[at] = Run(None, [None] if self.kind is list else {segment.key: None})
        if isinstance(segment, One):
            segment.piece.apply(op, path[1:], chunks)
            return
        delta.apply(segment.load(chunks), [op[0], [step, *path[1:]], *op[2:]])
        segment.touched.add(step)
        if not len(segment):
            del self.segments[at]

    def _find(self, step: Any) -> tuple[int, Any]:
        """The segment that a key or number is in, and the key or number inside of it; -1 when there is none."""
        if self.kind is dict:
            return next((i for i, segment in enumerate(self.segments) if step in segment), -1), step
        if type(step) is int and step >= 0:
            for i, segment in enumerate(self.segments):
                if step < len(segment):
                    return i, step
                step -= len(segment)
        return -1, step

    def _add(self, items: Any) -> None:
        last = self.segments[-1] if self.segments else None
        if not isinstance(last, Run) or last.node is not None:
            self.segments.append(last := Run(None, self.kind()))
        if self.kind is list:
            last.items.extend(items)
        else:
            last.items.update(items)
            last.touched.update(items)

    def _splice(self, start: Any, deleted: Any, items: Any, *, chunks: Chunks) -> None:
        size = sum(map(len, self.segments))
        if type(start) is not int or type(deleted) is not int or not 0 <= start <= start + deleted <= size:
            raise _misfit("splice")
        first, last = self._cut(start, chunks), self._cut(start + deleted, chunks)
        self.segments[first:last] = [Run(None, _checked(items, list))] if items else []

    def _cut(self, at: int, chunks: Chunks) -> int:
        """The number of the segment that begins with item `at`; a run is cut in two for it."""
        for i, segment in enumerate(self.segments):
            if at == 0:
                return i
            if at < len(segment) and isinstance(segment, Run):
                items = segment.load(chunks)
                self.segments[i : i + 1] = [Run(None, items[:at]), Run(None, items[at:])]
                return i + 1
            at -= len(segment)
        return len(self.segments)

    def _to_end(self, key: Any, chunks: Chunks) -> None:
        at, _ = self._find(key)
        if at < 0:
            raise _misfit("order")
        segment = self.segments[at]
        if isinstance(segment, One):
            self.segments.append(self.segments.pop(at))
            return
        entries = segment.load(chunks)
        value = entries.pop(key)
        if not entries:
            del self.segments[at]
        self._add({key: value})

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, chunks: Chunks, size: int) -> Writing:
        """The node of this piece. Runs that nothing was done to keep their chunks, but for some small ones."""
        nodes: list[Node] = []
        loose: list[Any] = []
        for segment in self.segments:
            if isinstance(segment, Run) and (segment.node is None or _joins(segment.node, loose, size)):
                for entries, is_still in self._stretches(segment, chunks):
                    if is_still:
                        yield from self._pack(loose, nodes, chunks, size)
                        loose = []
                        nodes.append(self._seal(entries, chunks))
                        yield
                    else:
                        loose += entries
                continue
            yield from self._pack(loose, nodes, chunks, size)
            loose = []
            if isinstance(segment, One):
                nodes.append((yield from self._single(segment, chunks, size)))
            else:
                nodes.append(segment.node)
        yield from self._pack(loose, nodes, chunks, size)
        if not nodes:
            return ["c", *chunks.add(self.kind())]
        if len(nodes) == 1 and nodes[0][0] == "r" and nodes[0][3] <= SMALL_BYTES:
            return ["c", *nodes[0][2:]]
        return ["l" if self.kind is list else "m", nodes]

    def _entries(self, items: Any) -> list[Any]:
        return list(items if self.kind is list else items.items())

    def _stretches(self, run: Run, chunks: Chunks) -> Iterator[tuple[list[Any], bool]]:
        """The entries of a run that is written again, in turn, and whether they get a chunk of their own.

        Those do to which nothing was done, where they are much more than those that change: so what lies still beside
        a few entries that change all the time is written once.
        """
        entries = self._entries(run.load(chunks))
        if self.kind is list or not run.touched:
            yield entries, False
            return
        least = max(
            SMALL_BYTES, 2 * sum(weight(entry, limits.CHUNK_BYTES) for entry in entries if entry[0] in run.touched)
        )
        for is_touched, some in groupby(entries, key=lambda entry: entry[0] in run.touched):
            stretch = list(some)
            yield stretch, not is_touched and weight(stretch, least) >= least

    def _single(self, one: One, chunks: Chunks, size: int) -> Writing:
        node = yield from one.piece.write(chunks, size)
        return ["n", node] if self.kind is list else ["n", one.key, node]

    def _pack(self, entries: list[Any], nodes: list[Node], chunks: Chunks, size: int) -> Generator[None, None, None]:
        while nodes and _joins(nodes[-1], entries, size):
            entries = self._entries(Run(nodes.pop()).load(chunks)) + entries
        weights = yield from self._weights(entries, size)
        aim = _even(sum(heavy for heavy in weights if heavy <= size), size)
        run: list[Any] = []
        filled = 0
        for entry, heavy in zip(entries, weights, strict=True):
            if run and (heavy > size or filled + heavy / 2 > aim):
                nodes.append(self._seal(run, chunks))
                yield
                run, filled = [], 0
            if heavy > size:
                key, value = (None, entry) if self.kind is list else entry
                nodes.append((yield from self._single(One(Whole(None, value), key), chunks, size)))
            else:
                run.append(entry)
                filled += heavy
        if run:
            nodes.append(self._seal(run, chunks))
            yield

    def _weights(self, entries: list[Any], size: int) -> Generator[None, None, list[int]]:
        weights: list[int] = []
        weighed = 0
        for entry in entries:
            weights.append(stored_weight(entry, size))
            weighed += weights[-1]
            if weighed > size:
                yield
                weighed = 0
        return weights

    def _seal(self, run: list[Any], chunks: Chunks) -> Node:
        items = self.kind(run)
        return ["r", len(run) if self.kind is list else list(items), *chunks.add(items)]


Piece = Whole | Long


def piece(node: Node) -> Piece:
    """The piece that a node describes, unread."""
    if node[0] in ("c", "s"):
        return Whole(node)
    if node[0] not in ("l", "m"):
        raise DamageError(f"a manifest with a node of kind {node[0]!r}, which is never written")
    kind = list if node[0] == "l" else dict
    return Long(kind, [_segment(segment) for segment in node[1]])


def _segment(node: Node) -> Run | One:
    if node[0] == "r":
        return Run(node)
    return One(piece(node[-1]), node[1] if len(node) > 2 else None)


def _even(total: int, size: int) -> float:
    """How much each run takes when `total` is cut into even runs of about `size`: no small rest to write again."""
    return total / max(1, round(total / size))


def _joins(node: Node, loose: list[Any], size: int) -> bool:
    """Whether a run is written again together with the new items beside it.

    Only a small one, and only one that is not much more than they are: so what only grows is written few times in all.
    """
    if node[0] != "r" or node[3] >= size // 4 or not loose:
        return False
    return bool(node[3] <= 2 * weight(loose, node[3]))


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise DamageError(f"a change carries a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _misfit(kind: Any) -> DamageError:
    return DamageError(f"a change does not fit the state: {kind!r}")
