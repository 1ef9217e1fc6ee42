"""Which containers hold other objects than at the last save, found without looking at each one in Python.

Containers are watched in blocks. A block is looked at in two calls: the objects that all its containers refer to, and
all keys of its dicts; as raw identities they are the same bytes as last time unless something changed. A separator
stands after each container, so that an item that moved from the start of one to the end of its neighbour is seen. The
same bytes mean the same objects, under the same keys, in the same order: a dict that is not odd (see `Reading`)
refers to one object for each of its keys, and could come to refer to the same ones otherwise only with fewer keys,
which no other makes up for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate, chain
from typing import Any, Final

from perdure import values
from perdure.errors import StorableError
from perdure.state import identity
from perdure.state.identity import WIDTH, find, look, prefix, raw, referents
from perdure.state.node import Node, Reading, mark
from perdure.state.versions import Versions

LONG: Final = 32
"""A list of so many items is looked at by itself: what is beside it is not copied when it changes, nor it with that."""

NEWEST: Final = 2
"""So many of the newest blocks of an append-only part are looked at for each save: one, once it is nearly full."""

CALM_LEAVES: Final = 16
"""Of an append-only part, so many of the newest leaves are encoded for each save, and as many older ones in turn."""

_MARK: Final = object()
_SEPARATOR: Final = (_MARK,)
_END: Final = raw([_MARK])


class Block:
    """Some dicts and lists, and the identities of what they held."""

    __slots__ = ("_starts", "counts", "dicts", "ids", "key_counts", "keys", "nodes", "odd", "probe", "watch")

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.nodes: list[Node] = []
        self.probe: list[Any] = []
        self.dicts: list[Any] = []
        self.odd: set[Node] = set()
        self.counts: list[int] = []
        self.key_counts: list[int] = []
        self.ids = self.keys = b""
        self._starts: list[int] | None = [0]

    def starts(self) -> list[int]:
        """Where the objects of each container begin, and where those of the last end; kept while no count changes."""
        if self._starts is None:
            self._starts = list(accumulate(self.counts, initial=0))
        return self._starts

    def _look(self) -> tuple[bytes, bytes]:
        probe = self.probe
        if self.odd:
            probe = [part for node in self.nodes for part in (self._probed(node), _SEPARATOR)]
        keys = raw(list(chain.from_iterable(self.dicts))) if self.dicts else b""
        return raw(referents(*probe)), keys

    def _probed(self, node: Node) -> Any:
        return tuple(node.live.values()) if node in self.odd else node.live

    def changed(self) -> list[Node]:
        """The nodes whose container does not hold what it held."""
        ids, keys = self._look()
        if ids == self.ids and keys == self.keys:
            return []
        found = self._other_content(ids)
        if keys != self.keys:
            found |= self._other_keys(found, keys)
        return [self.nodes[i] for i in sorted(found)]

    def _other_content(self, ids: bytes) -> set[int]:
        found: set[int] = set()
        starts = self.starts()
        was = now = 0
        while (after := ids[now * WIDTH :]) != (before := self.ids[was * WIDTH :]):
            at = bisect_right(starts, was + prefix(before, after)) - 1
            found.add(at)
            now = self._end(at, ids, now + starts[at] - was)
            was = starts[at + 1]
        return found

    def _end(self, at: int, ids: bytes, start: int) -> int:
        """Where the next container's objects begin; mostly after as many as this one holds."""
        end = start + len(self.nodes[at].live)
        if ids[end * WIDTH : (end + 1) * WIDTH] != _END:
            end = find(ids, _END, start)
        return end + 1

    def _other_keys(self, found: set[int], keys: bytes) -> set[int]:
        """Dicts with other keys for the very same values."""
        sizes = self.key_counts.copy()
        for i in found:
            sizes[i] = len(self.nodes[i].live) if type(self.nodes[i].live) is dict else 0
        if _without(found, self.keys, self.key_counts) == _without(found, keys, sizes):
            return set()
        others = (i for i, node in enumerate(self.nodes) if i not in found and type(node.live) is dict)
        return {i for i in others if raw(list(self.nodes[i].live)) != raw(list(self.nodes[i].old))}

    def revise(self, readings: Mapping[Node, Reading]) -> None:
        """Some of its containers hold what was read of them now."""
        for node, reading in readings.items():
            at, starts = self.nodes.index(node), self.starts()
            self._replace(starts[at], starts[at + 1] - 1, _as_traversed(reading))
            if self.counts[at] != len(reading.now) + 1:
                self.counts[at] = len(reading.now) + 1
                self._starts = None
            if reading.keys is not None:
                self._revise_keys(at, node, reading.keys, odd=reading.odd)

    def _revise_keys(self, at: int, node: Node, keys: bytes, *, odd: bool) -> None:
        start = sum(self.key_counts[:at])
        self._replace_keys(start, start + self.key_counts[at], keys)
        self.key_counts[at] = len(keys) // WIDTH
        self.odd.discard(node)
        if odd:
            self.odd.add(node)

    def _replace(self, start: int, end: int, ids: bytes) -> None:
        self.ids = self.ids[: start * WIDTH] + ids + self.ids[end * WIDTH :]

    def _replace_keys(self, start: int, end: int, keys: bytes) -> None:
        self.keys = self.keys[: start * WIDTH] + keys + self.keys[end * WIDTH :]

    def drop(self, gone: Collection[Node]) -> None:
        """Some of its containers are no longer watched."""
        starts, self._starts = self.starts(), None
        key_starts = list(accumulate(self.key_counts, initial=0))
        for at in sorted(map(self.nodes.index, gone), reverse=True):
            self._replace(starts[at], starts[at + 1], b"")
            self._replace_keys(key_starts[at], key_starts[at + 1], b"")
            del self.nodes[at], self.counts[at], self.key_counts[at], self.probe[2 * at : 2 * at + 2]
        self.dicts = [node.live for node in self.nodes if type(node.live) is dict]
        self.odd.difference_update(gone)

    def extend(self, nodes: list[Node]) -> None:
        """Watches these from now on; what they hold is what their `old` says."""
        dicts = [node for node in nodes if type(node.live) is dict]
        self.ids += self._read(nodes)
        self.keys += raw(list(chain.from_iterable([node.old for node in dicts])))
        self.nodes += nodes
        self.dicts += [node.live for node in dicts]
        self.probe += _delimited(node.live for node in nodes)
        self.counts += [len(node.old) + 1 for node in nodes]
        self._starts = None
        self.key_counts += [len(node.old) if type(node.live) is dict else 0 for node in nodes]
        for node in nodes:
            node.block = self

    def _read(self, nodes: list[Node]) -> bytes:
        if self.watch.kind is list:  # only a dict can be odd
            return raw(_traversal(nodes))
        ids = raw(referents(*_delimited(node.live for node in nodes)))
        if ids == raw(_traversal(nodes)):
            return ids
        read = [(node, Reading(node, node.old)) for node in nodes]
        self.odd.update(node for node, reading in read if reading.odd)
        return b"".join(_as_traversed(reading) + _END for _, reading in read)


def _as_traversed(reading: Reading) -> bytes:
    """What was read, as a look at its block gives it: a list is traversed from its end."""
    return reading.ids if type(reading.now) is dict else raw(reading.now[::-1])


def _traversal(nodes: list[Node]) -> list[Any]:
    """What looking at these gives as long as they hold their `old` and none is odd."""
    found: list[Any] = []
    for node in nodes:
        found += node.old.values() if type(node.old) is dict else reversed(node.old)
        found.append(_MARK)
    return found


def _without(dropped: set[int], keys: bytes, sizes: list[int]) -> bytes:
    starts = list(accumulate(sizes, initial=0))
    kept, at = [], 0
    for i in sorted(dropped):
        kept.append(keys[at * WIDTH : starts[i] * WIDTH])
        at = starts[i + 1]
    return b"".join(kept) + keys[at * WIDTH :]


def _delimited(containers: Iterable[Any]) -> list[Any]:
    return [part for each in containers for part in (each, _SEPARATOR)]


class Long:
    """One long list, and the identities of what it held.

    `came` is what it held behind that when it was last found changed; None if it held anything else.
    """

    __slots__ = ("_ids", "_look", "came", "node", "watch")

    def __init__(self, watch: Watch, node: Node, ids: bytes) -> None:
        self.watch, self.node, self._ids = watch, node, ids
        self._look = look(node.live)
        self.came: list[Any] | None = None
        node.block = self

    def changed(self) -> list[Node]:
        """Its node, if the list does not hold what it held."""
        ids = self._look()
        if ids == self._ids:
            return []
        size = len(self._ids)
        came = self.node.live[size // WIDTH : len(ids) // WIDTH]
        self.came = came if ids.startswith(self._ids) and raw(came) == ids[size:] else None
        return [self.node]

    def grown(self, came: list[Any]) -> None:
        """It holds these behind what it held."""
        self._ids += raw(came)

    def revise(self, readings: Mapping[Node, Reading]) -> None:
        """It holds what was read of it now."""
        for reading in readings.values():
            self._ids = reading.ids


class Watch:
    """All containers of one type in some parts, in blocks; of those that are not `calm`, long lists by themselves.

    `calm` ones are looked at in turn: the newest blocks and one other.
    """

    def __init__(self, kind: type, *, size: int, calm: bool) -> None:
        self.kind, self.size, self.calm = kind, size, calm
        self.blocks: list[Block | Versions] = []
        self.long: dict[Long, None] = {}
        self._has_long = kind is list and not calm
        self._made = Versions if kind is dict and identity.VERSIONED else Block
        self._turn = 0

    def changed(self, *, full: bool) -> list[Node]:
        """The nodes whose container may hold other than it held, of all blocks or of those whose turn it is."""
        blocks = self.blocks if full or not self.calm or len(self.blocks) < NEWEST else self._due()
        found: list[Node] = []
        for long in self.long:
            found += long.changed()
        for block in blocks:
            found += block.changed()
        return found

    def _due(self) -> list[Block | Versions]:
        blocks = self.blocks
        newest = blocks[-1:] if len(blocks[-1].nodes) >= self.size // 4 else blocks[-NEWEST:]
        older = len(blocks) - len(newest)
        if not older:
            return newest
        self._turn = (self._turn + 1) % older
        return [*newest, blocks[self._turn]]

    def add(self, nodes: list[Node]) -> None:
        """Watches these from now on."""
        if self._has_long:
            self.long |= dict.fromkeys(Long(self, node, raw(node.old)) for node in nodes if len(node.old) >= LONG)
            nodes = [node for node in nodes if len(node.old) < LONG]
        while nodes:
            if not self.blocks or len(self.blocks[-1].nodes) >= self.size:
                self.blocks.append(self._made(self))
            room = self.size - len(self.blocks[-1].nodes)
            self.blocks[-1].extend(nodes[:room])
            nodes = nodes[room:]

    def revise(self, block: Block | Versions | Long, readings: Mapping[Node, Reading]) -> None:
        """Some containers of one of its blocks hold what was read of them now. A list may have become long by that."""
        block.revise(readings)
        if self._has_long and not isinstance(block, Long):
            long = [node for node, reading in readings.items() if len(reading.now) >= LONG]
            if long:
                self.drop(block, long)
                self.long |= dict.fromkeys(Long(self, node, readings[node].ids) for node in long)

    def drop(self, block: Block | Versions | Long, gone: Collection[Node]) -> None:
        """Some containers of one of its blocks are no longer watched. A sparse block joins the newest one."""
        if isinstance(block, Long):
            del self.long[block]
            return
        block.drop(gone)
        if not block.nodes:
            self.blocks.remove(block)
        elif len(block.nodes) < self.size // 4 and block is not self.blocks[-1]:
            self.blocks.remove(block)
            self.add(block.nodes)


class Leaves:
    """The leaves of some parts that can change in place; each is encoded to see whether it did."""

    def __init__(self, *, calm: bool) -> None:
        self.calm = calm
        self.nodes: list[Node] = []
        self._turn = 0

    def changed(self, *, full: bool) -> dict[Node, bytes | None]:
        """The leaves that are encoded to other bytes than before, with their mark; None when they cannot be stored."""
        nodes = self.nodes if full or not self.calm else self._due()
        marks = ((node, _mark_now(node.live)) for node in nodes)
        return {node: now for node, now in marks if now != node.old}

    def _due(self) -> list[Node]:
        older = len(self.nodes) - CALM_LEAVES
        if older <= CALM_LEAVES:
            return self.nodes
        start = self._turn = self._turn + CALM_LEAVES if self._turn + CALM_LEAVES < older else 0
        return self.nodes[start : min(start + CALM_LEAVES, older)] + self.nodes[older:]

    def add(self, nodes: list[Node]) -> None:
        """Watches these from now on."""
        for node in nodes:
            node.block = self
        self.nodes += nodes

    def drop(self, gone: Collection[Node]) -> None:
        """Some are no longer watched."""
        self.nodes = [node for node in self.nodes if node not in gone]


class Places:
    """Where the containers and the leaves of some parts are watched: all for each save, or (`calm`) in turn."""

    def __init__(self, *, size: int, calm: bool) -> None:
        self.lists, self.dicts = Watch(list, size=size, calm=calm), Watch(dict, size=size, calm=calm)
        self.leaves = Leaves(calm=calm)
        self._by_kind: dict[type, Watch] = {list: self.lists, dict: self.dicts}

    def of(self, kind: type) -> Watch | Leaves:
        """The place for what is of this type."""
        return self._by_kind.get(kind, self.leaves)

    def changed(self, *, full: bool) -> tuple[list[Node], dict[Node, bytes | None]]:
        """The containers that may not be what they were, and the leaves that are not."""
        containers = self.lists.changed(full=full) + self.dicts.changed(full=full)
        return containers, self.leaves.changed(full=full) if self.leaves.nodes else {}


def _mark_now(leaf: Any) -> bytes | None:
    try:
        return mark(values.encode(leaf))
    except StorableError:
        return None
