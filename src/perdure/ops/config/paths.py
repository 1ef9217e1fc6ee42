"""Paths in a file are those beside it, whatever folder the program is in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.stores.address import scheme_of
from perdure.stores.opening import place_in


def beside(values: dict[str, dict[str, Any]], folder: Path) -> None:
    """Makes the relative paths in what a file says those in its folder."""
    storage, security, journal = (values.get(name, {}) for name in ("storage", "security", "journal"))
    for key in ("url", "hot", "cold"):
        if storage.get(key):
            storage[key] = _url(storage[key], folder)
    if storage.get("witness"):
        storage["witness"] = str(folder / storage["witness"])
    if security.get("keys"):
        security["keys"] = ",".join(_key(one.strip(), folder) for one in security["keys"].split(","))
    if journal.get("path"):
        journal["path"] = folder / journal["path"]


def _url(url: str, folder: Path) -> str:
    scheme = scheme_of(url)
    if scheme is None:
        return str(folder / url)
    if scheme not in ("sqlite", "file") or not place_in(url):
        return url
    path = folder / place_in(url)
    return f"sqlite:///{path}" if scheme == "sqlite" else f"file://{path}"


def _key(text: str, folder: Path) -> str:
    return f"file:{folder / text.removeprefix('file:')}" if text.startswith("file:") else text
