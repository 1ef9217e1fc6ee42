"""The folder of a session: captured into content-addressed chunks, taken back without loss of work.

It knows neither sessions nor stores: a `Place` keeps its chunks. `docs/workspace.md` says what is captured.
"""

from __future__ import annotations

from perdure.workspace.capture import Incomplete, Workspace
from perdure.workspace.entry import Entry
from perdure.workspace.folder import Folder
from perdure.workspace.place import Place, Shelf
from perdure.workspace.plan import Plan, Step, plan
from perdure.workspace.restore import Restored, permit, prove, restore
from perdure.workspace.rules import Rules
from perdure.workspace.tree import Manifest, addresses, difference, entries_of, load
from perdure.workspace.walk import Budget

__all__ = [
    "Budget",
    "Entry",
    "Folder",
    "Incomplete",
    "Manifest",
    "Place",
    "Plan",
    "Restored",
    "Rules",
    "Shelf",
    "Step",
    "Workspace",
    "addresses",
    "difference",
    "entries_of",
    "load",
    "permit",
    "plan",
    "prove",
    "restore",
]
