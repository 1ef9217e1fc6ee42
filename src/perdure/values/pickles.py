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
from collections.abc import Callable
from typing import Any, Final, NoReturn

from perdure import limits
from perdure.errors import DamageError, FormatNewerError
from perdure.values import kinds
from perdure.values.wire import CLASS, ENCODED, Tagged

PROTOCOL: Final = 5

_NAMES: Final = {CLASS: "class", ENCODED: "value", **{number: kind.name for number, kind in kinds.BY_NUMBER.items()}}
_NUMBERS: Final = {name: number for number, name in _NAMES.items()}

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
    out = io.BytesIO()
    pickler = pickle.Pickler(out, PROTOCOL)
    pickler.fast = True  # a tree shares nothing: no instruction refers to another
    pickler.dump(_plain(tree))
    return out.getvalue()


def loads(data: bytes) -> Any:
    """The plain tree. Raises DamageError, with nothing unpickled, unless the pickle makes plain data only."""
    _check(data)
    try:
        return _tree(_Unpickler(io.BytesIO(data)).load())
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ArithmeticError, ValueError) as error:
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


def _plain(tree: Any) -> Any:
    """The tree with a tuple in the place of each tagged node."""
    cls = type(tree)
    if cls is list:
        items = []
        for item in tree:
            items.append(_plain(item))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if cls is dict:
        fields = {}
        for key, item in tree.items():
            fields[key] = _plain(item)
        return fields
    return (_NAMES[tree.number], _plain(tree.tree)) if cls is Tagged else tree


def _tree(node: Any) -> Any:
    """The tree again. What pickles hold beyond it does not fit where MessagePack is made of it."""
    take = _TAKE.get(type(node))
    return node if take is None else take(node)


def _take_list(node: list[Any]) -> list[Any]:
    items = []
    for item in node:
        items.append(_tree(item))  # noqa: PERF401  (a comprehension takes another frame of the stack)
    return items


def _take_dict(node: dict[Any, Any]) -> dict[Any, Any]:
    fields = {}
    for key, item in node.items():
        fields[key] = _tree(item)
    return fields


def _take_tagged(node: tuple[Any, Any]) -> Tagged:
    name, tree = node
    if type(name) is not str or name not in _NUMBERS:
        raise FormatNewerError(f"values of kind {name!r:.60} are not known to this version of perdure")
    return Tagged(_NUMBERS[name], _tree(tree))


_TAKE: Final[dict[type, Callable[[Any], Any]]] = {list: _take_list, dict: _take_dict, tuple: _take_tagged}
