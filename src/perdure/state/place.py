"""A place in a state as people write it: `plan.steps[0].done`, with or without `$.` before it.

`["a.b"]` is a key that is no plain word, in JSON. It is the other way round of how places are shown.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from perdure.errors import RefusedError

_STEP: Final = re.compile(r"""\.?(?P<word>[^.\[\]"'\s]+)|\[(?P<key>-?\d+|"(?:[^"\\]|\\.)*")\]""")


def parsed(text: str) -> list[Any]:
    """The keys that lead to the place. Raises `RefusedError` for what names none."""
    rest, path = text.removeprefix("$").strip(), list[Any]()
    while rest:
        step = _STEP.match(rest)
        if step is None or (step["word"] and path and not rest.startswith(".")):
            break
        path.append(step["word"] if step["key"] is None else json.loads(step["key"]))
        rest = rest[step.end() :]
    if rest or not path or not isinstance(path[0], str):
        raise RefusedError(f'{text!r} names no place in a state; write it as part.key[0].key, or part["a key"]')
    return path
