"""Messages and replies of the model packages are stored as they are, and are the same in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import values
from perdure.values.ready import READY
from tests.sdk import replies

SCRIPT = Path(replies.__file__)


def run(*arguments: str, given: str = "") -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], input=given, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", replies.MADE)
def test_a_fresh_process_reads_what_was_written(package: str) -> None:
    written = run("write", package)
    assert len(written["told"]) >= 3
    assert run("read", given=json.dumps(written)) == written


def test_every_package_on_the_list_is_tried() -> None:
    assert set(READY) == set(replies.MADE)


def test_nothing_is_imported_for_a_package_that_the_program_does_not_use() -> None:
    code = (
        "import sys, perdure\n"
        "from perdure import values\n"
        "from perdure.values.wire import pack_class\n"
        "import ormsgpack\n"
        "body = pack_class('langchain_core.messages.ai:AIMessage', 1, {})\n"
        "found = values.decode(ormsgpack.packb(ormsgpack.Ext(1, body)))\n"
        "assert type(found) is perdure.Opaque, found\n"
        "assert not any(name.startswith('langchain_core') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_module_that_is_not_on_the_list_is_not_allowed() -> None:
    assert not values.is_allowed("langchain_core.runnables")
    assert not values.is_allowed("openai_types")
