"""The page that tells for each kind of value what each protocol does with it: `python -m tests.property.kinds_table`.

It says only what was tried: each value is encoded here and decoded in another process, and compared exactly.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from perdure.errors import UnstorableError
from perdure.values import PROTOCOLS, encode
from tests.property.corpus import CORPUS
from tests.property.test_values_refused import REFUSED

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/kinds.md"

HEAD: Final = """# What each protocol does with each kind of value

One line for each value of the test corpus: *exact* means that another process read a value of the same type, content
and order; *refused* that saving it raises an error with its path. This page is made by a test from what came of it.

"""

ELSEWHERE: Final = """
import base64, json, sys
from perdure.values import decode
from tests.property.corpus import CORPUS
from tests.property.oracle import facts
for line in sys.stdin:
    name, codec, data = json.loads(line)
    value = decode(base64.b64decode(data), codec=codec, pickled=True)
    print("exact" if facts(value) == facts(CORPUS[name]()) else "CHANGED")
"""


def outcomes() -> dict[str, list[str]]:
    """By the name of a value what each protocol does with it."""
    lines = [
        json.dumps([name, codec, base64.b64encode(encode(make(), codec=codec)).decode()])
        for name, make in CORPUS.items()
        for codec in PROTOCOLS
    ]
    read = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    ).stdout.split()
    found = {name: read[at * len(PROTOCOLS) :][: len(PROTOCOLS)] for at, name in enumerate(CORPUS)}
    return found | {f"refused: {name}": [_refused(name, codec) for codec in PROTOCOLS] for name in REFUSED}


def _refused(name: str, codec: str) -> str:
    try:
        encode(REFUSED[name](), codec=codec)
    except UnstorableError:
        return "refused"
    return "STORED"


def page() -> str:
    """The text of the page."""
    rows = [f"| {' | '.join([_shown(name), *found])} |" for name, found in outcomes().items()]
    head = [f"| value | {' | '.join(f'`{codec}`' for codec in PROTOCOLS)} |", "|---" * (len(PROTOCOLS) + 1) + "|"]
    return HEAD + "\n".join([*head, *rows]) + "\n"


def _shown(name: str) -> str:
    return name.removeprefix("refused: ").replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page())
