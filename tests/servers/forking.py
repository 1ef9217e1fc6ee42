"""Tests fork, and the threads of the object stores' driver do not live in a child: there it is loaded anew, as a copy.

A program cannot do that, and is told so (`ProcessForkedError`); a test's child is to be like one that was spawned.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

NATIVE = "obstore._obstore"


class Copied:
    """Finds the driver's native part in a copy of its file, which has threads of its own."""

    def __init__(self, file: str) -> None:
        self._file = file

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != NATIVE:
            return None
        copy = Path(tempfile.mkdtemp(), Path(self._file).name)
        shutil.copy(self._file, copy)
        return spec_from_file_location(name, copy, loader=Loading(name, str(copy)))


class Loading(ExtensionFileLoader):
    """Removes the copy once it is loaded."""

    def exec_module(self, module: Any) -> None:
        super().exec_module(module)
        shutil.rmtree(Path(self.path).parent)


def _in_child() -> None:
    native = sys.modules.get(NATIVE)
    if native is not None and native.__file__:
        sys.meta_path.insert(0, Copied(native.__file__))  # type: ignore[arg-type]
        for name in [name for name in sys.modules if f"{name}.".startswith(("obstore.", "perdure.stores.s3."))]:
            del sys.modules[name]


os.register_at_fork(after_in_child=_in_child)
