"""What all tests of the command line need."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are written anew within a second, which their bytecode would not notice; and their folders are listed."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
