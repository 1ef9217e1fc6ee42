"""The words in what is recorded of an action: of a model's reply, and of what tells that a tool failed.

Read from the plain tree of the stored bytes, in which no class is rebuilt. What varies by nature (ids, times, counts of
tokens) is not among the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from perdure import limits
from perdure.values.wire import CLASS, Tagged, unpack_tree

_WORDS: Final = frozenset({"content", "text", "thinking", "output_text", "arguments", "name", "input", "args", "parts"})
"""Fields of a reply that hold what the model said and chose."""

_FAILED: Final = re.compile(r"\W*(error|exception|traceback|failed|failure|fatal|invalid)\b", re.IGNORECASE)
_VARIES: Final = re.compile(r"0x[0-9a-f]+|[0-9]+", re.IGNORECASE)


def reply_text(value: bytes) -> str:
    """What a model said, and what it chose to call, from its recorded reply."""
    tree = unpack_tree(value)
    if isinstance(tree, str):
        return tree
    return "\n".join(_said(tree, is_told=False))


def _said(tree: Any, *, is_told: bool) -> Iterator[str]:
    if isinstance(tree, Tagged):
        tree = tree.tree[2] if tree.number == CLASS else tree.tree
    if isinstance(tree, str):
        if is_told:
            yield tree
    elif isinstance(tree, dict):
        for name, value in tree.items():
            yield from _said(value, is_told=is_told or name in _WORDS)
    elif isinstance(tree, list):
        for value in tree:
            yield from _said(value, is_told=is_told)


def error_text(how: str, value: Any) -> str:
    """What tells that a tool failed, without what varies in it; "" if it did not.

    An error that it raised, or a result that says so: a text that begins like one, a dict with an `error`.
    """
    if how == "error":
        return _VARIES.sub("#", f"{value['class']}: {value['text']}")[: limits.ERROR_CHARS]
    if how != "result" or not isinstance(value, bytes):
        return ""
    text = _failure(unpack_tree(value[: limits.ERROR_BYTES]) if len(value) <= limits.ERROR_BYTES else "")
    return _VARIES.sub("#", text)[: limits.ERROR_CHARS]


def _failure(tree: Any) -> str:
    if isinstance(tree, dict):
        told = tree.get("error") or (tree.get("content") if tree.get("is_error") else "")
        return str(told or "")
    return tree if isinstance(tree, str) and _FAILED.match(tree) else ""


def without_numbers(value: Any) -> bytes:
    """A recorded result with its numbers left out; one that is long stays as it is."""
    if not isinstance(value, bytes) or len(value) > limits.ERROR_BYTES:
        return value if isinstance(value, bytes) else repr(value).encode()
    return _VARIES.sub("#", repr(_plain(unpack_tree(value)))).encode("utf-8", "surrogatepass")


def _plain(tree: Any) -> Any:
    if isinstance(tree, Tagged):
        return [tree.number, _plain(tree.tree)]
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items()}
    return list(map(_plain, tree)) if isinstance(tree, list) else tree


def is_same_history(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether the conversation that a model was asked about goes on from the one before.

    Both are recorded arguments: encoded, a reference to a part, or the beginning and a digest.
    """
    shared = [name for name in before if name in now]
    return any(_goes_on(before[name], now[name]) for name in shared)


def _goes_on(before: Any, now: Any) -> bool:
    if isinstance(before, dict) and isinstance(now, dict):
        if "part" in before and "part" in now:
            return bool(before["part"] == now["part"])
        return bool(before.get("text", "")[:_BEGINNING] == now.get("text", "")[:_BEGINNING])
    if isinstance(before, bytes) and isinstance(now, bytes):
        old, new = unpack_tree(before), unpack_tree(now)
        return isinstance(old, list) and isinstance(new, list) and len(old) <= len(new) and before[-_END:] in now
    return isinstance(before, bytes) and isinstance(now, dict)  # it grew beyond what is recorded whole


_BEGINNING: Final = 40
_END: Final = 60
