"""Plain trees as pickles that hold plain data only: no class, no function, no reference, nothing to call.

What is beyond plain data is a tuple of its kind and its tree, for instance `("set", [1, 2])`; classes come back through
the registry, as in every protocol. Before anything is unpickled every instruction is looked at: only those that make
plain data are let through, and the unpickler finds no global whatever the name. Whoever calls this has verified that
the bytes are their own.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any, Final, NoReturn

from perdure import limits
from perdure.errors import DamageError, FormatNewerError
from perdure.values import kinds
from perdure.values.wire import CLASS, ENCODED, Tagged

PROTOCOL: Final = 5

_NAMES: Final = {CLASS: "class", ENCODED: "value", **{number: kind.name for number, kind in kinds.BY_NUMBER.items()}}
_NUMBERS: Final = {name: number for number, name in _NAMES.items()}

_DEEP: Final = "deep"
_PIECE_LEVELS: Final = 40
"""Levels of a tree in one pickle; deeper ones are a pickle in it, since writing one takes the stack."""

_UNREADABLE: Final = (
    *(pickle.UnpicklingError, EOFError, ArithmeticError),
    *(LookupError, TypeError, ValueError, AttributeError),
)
"""What the unpickler raises when instructions do not fit together."""

_WRITTEN: Final = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "TUPLE2"),
}
"""The instructions that make plain data; none of those that look up, call, build, remember or copy anything."""


def _argument(opcode: pickletools.OpcodeInfo) -> tuple[int, int]:
    """How long the argument of an instruction is; or that it says so itself, in how many bytes."""
    n = 0 if opcode.arg is None else opcode.arg.n
    widths = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4U: 4}
    widths |= {pickletools.TAKEN_FROM_ARGUMENT8U: 8}
    return (0, widths[n]) if n in widths else (n, 0)


_ARGUMENTS: Final = {ord(op.code): _argument(op) for op in pickletools.opcodes if op.name in _WRITTEN}


def dumps(tree: Any) -> bytes:
    """The pickle of a plain tree, equal for equal trees."""
    return _pickled(_plain(tree, 1))


def _pickled(plain: Any) -> bytes:
    out = io.BytesIO()
    pickler = pickle.Pickler(out, PROTOCOL)
    pickler.fast = True  # a tree shares nothing: no instruction refers to another
    pickler.dump(plain)
    return out.getvalue()


def loads(data: bytes) -> Any:
    """The plain tree. Raises DamageError, with nothing unpickled, unless the pickle makes plain data only."""
    return _tree(_unpickled(data), 1)


def _unpickled(data: bytes) -> Any:
    _check(data)
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except _UNREADABLE as error:
        raise DamageError(f"not a stored value: {error!r:.200}") from error


class _Unpickler(pickle.Unpickler):
    """Finds nothing: the list of what it may find is empty."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise DamageError(f"a pickle that names {module[:60]!r} {name[:60]!r}, which is never written")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise DamageError(f"a pickle that refers to {pid!r:.60}, which is never written")


def _check(data: bytes) -> None:
    """Reads the instructions one after another. Raises DamageError at the first that is never written."""
    at, end, count = 0, len(data), 0
    try:
        while at < end:
            code = data[at]
            fixed, width = _ARGUMENTS[code]
            at += 1 + fixed + width + (int.from_bytes(data[at + 1 : at + 1 + width], "little") if width else 0)
            count += 1
    except KeyError:
        raise DamageError(f"a pickle with the instruction {data[at : at + 1]!r}, which is never written") from None
    if at != end or not data.endswith(pickle.STOP) or data[:2] != b"\x80\x05":
        raise DamageError("not a pickle, or bytes follow its end")
    if count > 2 * limits.ENCODED_NODES_MAX:
        raise DamageError(f"a pickle of more than {limits.ENCODED_NODES_MAX} values, which is never written")


def _plain(tree: Any, level: int) -> Any:
    """The tree with a tuple in the place of each tagged node, and of what is a pickle of its own."""
    cls = type(tree)
    if cls not in _CONTAINERS:
        return tree
    if level % _PIECE_LEVELS == 0:
        return (_DEEP, _pickled(_plain(tree, level + 1)))
    if cls is list:
        items = []
        for item in tree:
            items.append(_plain(item, level + 1))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if cls is dict:
        fields = {}
        for key, item in tree.items():
            fields[key] = _plain(item, level + 1)
        return fields
    return (_NAMES[tree.number], _plain(tree.tree, level + 1))


def _tree(node: Any, level: int) -> Any:
    """The tree again. What pickles hold beyond it does not fit where MessagePack is made of it."""
    cls = type(node)
    if cls is list:
        items = []
        for item in node:
            items.append(_tree(item, level + 1))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if cls is dict:
        fields = {}
        for key, item in node.items():
            fields[key] = _tree(item, level + 1)
        return fields
    if cls is not tuple:
        return node
    name, tree = node
    if (name == _DEEP) != (level % _PIECE_LEVELS == 0):
        raise DamageError("not a stored value: cut into pieces in other places than it is written")
    if name == _DEEP:
        return _tree(_unpickled(tree), level + 1)
    return Tagged(_number(name), _tree(tree, level + 1))


def _number(name: Any) -> int:
    if type(name) is not str or name not in _NUMBERS:
        raise FormatNewerError(f"values of kind {name!r:.60} are not known to this version of perdure")
    return _NUMBERS[name]


_CONTAINERS: Final = frozenset({list, dict, Tagged})
