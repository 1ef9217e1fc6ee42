"""Arbitrary storable values for hypothesis: `values()` draws trees of every kind, deep and odd."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from hypothesis import strategies as st

from tests.property import classes as c
from tests.property.corpus import CORPUS, HASHABLE

_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
_FROM_CORPUS = st.sampled_from(sorted(CORPUS)).map(lambda name: CORPUS[name]())
_HASHABLE = st.sampled_from(sorted(HASHABLE)).map(lambda name: CORPUS[name]())


def plain_leaves() -> st.SearchStrategy[Any]:
    """Leaves of the plain types, of any content."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=-(2**70), max_value=2**70),
        st.floats(),
        _TEXT,
        st.binary(max_size=8),
    )


def keys() -> st.SearchStrategy[Any]:
    """What can be a key or an element."""
    return st.one_of(_TEXT, st.integers(), st.floats(), st.tuples(st.integers(), _TEXT), _HASHABLE)


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.dictionaries(_TEXT, children, max_size=4),
        st.dictionaries(keys(), children, max_size=3),
        st.dictionaries(keys(), children, max_size=3).map(OrderedDict),
        lists.map(lambda items: deque(items, maxlen=4)),
        st.sets(keys(), max_size=4),
        st.frozensets(keys(), max_size=4),
        st.builds(c.Plain, children, lists),
        st.builds(c.Pair, children, children),
        st.builds(lambda notes: c.Model(name="x", notes=notes), children),
    )


def plain_values() -> st.SearchStrategy[Any]:
    """Trees of dicts with string keys, lists and plain leaves."""
    return st.recursive(
        plain_leaves(),
        lambda kids: st.one_of(st.lists(kids, max_size=5), st.dictionaries(_TEXT, kids, max_size=5)),
        max_leaves=12,
    )


def values() -> st.SearchStrategy[Any]:
    """Arbitrary storable trees."""
    return st.recursive(st.one_of(plain_leaves(), _FROM_CORPUS), _containers, max_leaves=10)
