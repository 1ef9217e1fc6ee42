"""The code that is generated from the schema of Protocol Buffers; `python -m tests.unit.generate_schemas` writes it.

The check of the compiler's version is left out: nothing that this schema uses depends on it, and so any runtime that
`pyproject.toml` allows reads it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PROTO = "perdure/values/schemas/perdure.proto"
FILES = ("perdure_pb2.py", "perdure_pb2.pyi")

VERSION = (
    r"^# Protobuf Python Version.*\n",
    r"^from google\.protobuf import runtime_version.*\n",
    r"^_runtime_version\.Validate[^)]*\)\n",
)


def generated() -> dict[str, str]:
    """Name and text of each generated file."""
    with tempfile.TemporaryDirectory() as folder:
        include = resources.files("grpc_tools") / "_proto"
        arguments = [f"-I{SOURCE}", f"-I{include}", f"--python_out={folder}", f"--pyi_out={folder}", PROTO]
        if protoc.main(["protoc", *arguments]):
            raise SystemExit("the schema does not compile")
        made = Path(folder) / PROTO
        return {name: _without_check((made.parent / name).read_text()) for name in FILES}


def _without_check(text: str) -> str:
    for pattern in VERSION:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return text


def main() -> None:
    """Writes the files."""
    for name, text in generated().items():
        (SOURCE / PROTO).with_name(name).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
