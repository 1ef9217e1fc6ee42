"""What the answer to a question must be: a type in the code, a JSON Schema in the log.

The type makes the answer into a value of its own where the code runs; the schema lets any other process check it before
it is given.
"""

from __future__ import annotations

from typing import Any

from perdure.errors import RefusedError


def recorded(schema: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type, or the one that was given as a dict. Raises `RefusedError` for a type without one."""
    if schema is None or isinstance(schema, dict):
        return schema
    from pydantic import TypeAdapter  # noqa: PLC0415 - it takes long to import, and few questions have a type
    from pydantic.errors import PydanticUserError  # noqa: PLC0415

    try:
        return TypeAdapter(schema).json_schema()
    except PydanticUserError as error:
        raise RefusedError(
            f"schema={schema!r}: no answer can be checked by it ({error.message}); give a type that pydantic knows"
        ) from None


def made(schema: Any, answer: Any) -> tuple[Any, str]:
    """(the answer as a value of the type, ""), or (None, why it cannot be one)."""
    if schema is None or isinstance(schema, dict):
        return answer, ""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - see above

    try:
        return TypeAdapter(schema).validate_python(answer), ""
    except ValidationError as error:
        return None, "; ".join(f"{_place(e['loc'])}{e['msg']}" for e in error.errors())


def fault(schema: dict[str, Any] | None, answer: Any) -> str:
    """Why an answer does not fit a recorded schema; "" if it does. Nothing is fetched from anywhere."""
    if schema is None:
        return ""
    from jsonschema import validators  # noqa: PLC0415 - only those who answer such a question need it
    from referencing import Registry  # noqa: PLC0415

    kind = validators.validator_for(schema)
    found = sorted(kind(schema, registry=Registry()).iter_errors(answer), key=lambda e: list(map(str, e.absolute_path)))
    return "; ".join(f"{_place(error.absolute_path)}{error.message}" for error in found[:3])


def _place(path: Any) -> str:
    return "".join(f"{part}." for part in path).rstrip(".") + ": " if path else ""
