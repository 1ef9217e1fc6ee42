"""The text of a field's type is read by a grammar: what it means is a type, and nothing in it is ever run."""

from __future__ import annotations

from typing import Any, Optional, Union  # as people write them, beside `|`

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from perdure.errors import TagError
from perdure.team import grammar

AS_METAGPT_WRITES = {
    "(<class 'str'>, Ellipsis)": (str, ...),
    "(<class 'int'>, Ellipsis)": (int, ...),
    "(<class 'float'>, Ellipsis)": (float, ...),
    "(<class 'bool'>, Ellipsis)": (bool, ...),
    "(<class 'list'>, Ellipsis)": (list, ...),
    "(<class 'dict'>, Ellipsis)": (dict, ...),
    "(list[str], Ellipsis)": (list[str], ...),
    "(list[list[str]], Ellipsis)": (list[list[str]], ...),
    "(typing.List[str], Ellipsis)": (list[str], ...),
    "(typing.Dict[str, int], Ellipsis)": (dict[str, int], ...),
    "(typing.Optional[str], None)": (Optional[str], None),  # noqa: UP045
    "(typing.Union[str, int], Ellipsis)": (Union[str, int], ...),  # noqa: UP007
    "(typing.Optional[typing.List[typing.Dict[str, float]]], None)": (list[dict[str, float]] | None, None),
    "(list[str] | None, Ellipsis)": (list[str] | None, ...),
    "(typing.Any, Ellipsis)": (Any, ...),
    "(dict[str, typing.Any], Ellipsis)": (dict[str, Any], ...),
}

NO_TYPES = [
    "",
    "str",
    "(str)",
    "(str,)",
    "(str, 3)",
    "(str, Ellipsis",
    "(str, Ellipsis))",
    "(str, Ellipsis), 1",
    "(list[], Ellipsis)",
    "(list[str, int], Ellipsis)",
    "(dict[str], Ellipsis)",
    "(Optional[str, int], Ellipsis)",
    "(str[int], Ellipsis)",
    "(<class 'os.system'>, Ellipsis)",
    "(<class 'str', Ellipsis)",
    "(set[str], Ellipsis)",
    "(__import__('os').system('true'), Ellipsis)",
    "(print(1), Ellipsis)",
    "(str if True else int, Ellipsis)",
    "(str | , Ellipsis)",
    "(list.__class__, Ellipsis)",
    "(typing.typing.str, Ellipsis)",
    "(" + "list[" * 5000 + "str" + "]" * 5000 + ", Ellipsis)",
]


@pytest.mark.parametrize(("text", "field"), AS_METAGPT_WRITES.items())
def test_what_metagpt_writes_is_read(text: str, field: grammar.Field) -> None:
    assert grammar.parse(text) == field


@pytest.mark.parametrize("text", NO_TYPES, ids=lambda text: text[:40])
def test_anything_else_is_an_error_that_names_the_text(text: str) -> None:
    with pytest.raises(TagError) as caught:
        grammar.parse(text)
    assert repr(text)[:150] in str(caught.value)
    assert len(str(caught.value)) < 600


def types() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from([str, int, float, bool, list, dict, Any])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(lambda item: list[item]),
            st.tuples(st.sampled_from([str, int]), inner).map(lambda pair: dict[pair[0], pair[1]]),
            inner.map(lambda item: item | None),
            inner.map(lambda item: Optional[item]),  # noqa: UP045
            st.tuples(inner, inner).map(lambda pair: Union[pair[0], pair[1]]),  # noqa: UP007
        ),
        max_leaves=6,
    )


@given(types(), st.sampled_from([..., None]))
def test_a_type_that_is_written_is_read_back(kind: Any, default: Any) -> None:
    read, read_default = grammar.parse(grammar.write(kind, default))
    assert read == kind
    assert read_default is default
    TypeAdapter(read)


@given(types())
def test_metagpt_gets_the_same_type_from_what_is_written(kind: Any) -> None:
    text = grammar.write(kind)
    read = (str, ...) if text == "(<class 'str'>, Ellipsis)" else eval(text, {})  # noqa: S307 - as MetaGPT reads it
    assert TypeAdapter(read[0]).json_schema() == TypeAdapter(kind).json_schema()


@given(st.text(alphabet="(<class 'str'>, Ellipsis)[]|listdcOpona._\n\t", max_size=60))
def test_no_text_does_anything_but_name_a_type_or_be_refused(text: str) -> None:
    try:
        kind, _ = grammar.parse(text)
    except TagError:
        return
    TypeAdapter(kind)


@pytest.mark.parametrize("kind", [set[str], tuple[int, int], bytes, object()])
def test_a_type_that_has_no_text_is_refused(kind: Any) -> None:
    with pytest.raises(TagError, match="cannot keep a field of type"):
        grammar.write(kind)
