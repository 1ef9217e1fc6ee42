"""File tools within one folder: read, list and search; write, edit, append, move and delete, each undone exactly.

What changes something does so in an inner action (`change`, `rename`) that has what was there before among its
arguments: killed at any instant, it is made once, and a rollback puts back what was there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from perdure.errors import ToolError
from perdure.syncing import fcntl
from perdure.tools.described import tool
from perdure.tools.folder import kept, reading, searching
from perdure.tools.folder.kept import Kept
from perdure.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.tools.described import Tool

__all__ = ["files"]

Path = Annotated[str, Field(description="Relative to the folder. A name in double quotes may have escapes like \\n.")]


def files(folder: str | os.PathLike[str], *, read_only: bool = False) -> Toolbox:
    """Tools for the files of a folder, and for nothing outside of it. Raises `ToolError` if it is none.

    `read_file`, `list_files`, `search_files`; unless `read_only` also `write_file`, `edit_file`, `append_file`,
    `move_file`, `delete_file`. A link is followed only where it stays within the folder.
    """
    root = os.path.realpath(folder)
    if not os.path.isdir(root):  # noqa: PTH112 - names are bytes below it, and os takes both
        raise ToolError(f"{root} is no folder: make it, or give another one to the file tools")
    if fcntl is None:
        raise ToolError(f"{root}: tools for files are for Linux and macOS")
    made = [*_looking(root), *([] if read_only else _changing(root))]
    return Toolbox(made)


def _looking(root: str) -> list[Tool]:
    def read_file(path: Path, first_line: int = 1, lines: int = 2000) -> str:
        """Reads a text file, or some of its lines (counted from 1). Of a binary file it tells size and type."""
        return reading.text(root, path, first_line=first_line, lines=lines)

    def list_files(path: Path = ".", depth: int = 1) -> str:
        """Lists what is in a folder: names with sizes, folders with a slash, links with where they lead.

        A depth of 2 also lists what is in its folders, and so on.
        """
        return reading.entries(root, path, depth=depth)

    def search_files(pattern: str, path: Path = ".", glob: str = "*", matches: int = 100) -> str:
        """Searches the lines of all text files below a path for a regular expression (Python's), by name if wanted.

        Each match is a line `file:number:text`. Folders whose names begin with a dot are left out.
        """
        return searching.search(root, pattern, path, glob=glob, matches=matches)

    return [
        _made(read_file, "repeatable", rest="read on with first_line"),
        _made(list_files, "repeatable", rest="list one folder at a time"),
        _made(search_files, "repeatable", rest="make the pattern, the path or the glob narrower"),
    ]


def _changing(root: str) -> list[Tool]:
    def write_file(path: Path, text: str) -> str:
        """Writes a text to a file, which need not be there; what was in it is replaced. Makes missing folders."""
        found = kept.keep(root, path).whole()
        return _changed(found, lambda _: text.encode("utf-8", "surrogateescape"))

    def edit_file(path: Path, old: str, new: str, *, every: bool = False) -> str:
        """Replaces a piece of a file by another. It has to be there exactly as given, and once, unless `every`."""
        found = kept.keep(root, path).whole()
        return _changed(found, lambda content: _edited(content, old, new, found.path, every=every))

    def append_file(path: Path, text: str) -> str:
        """Adds a text at the end of a file, which need not be there. Makes missing folders."""
        found = kept.keep(root, path).whole()
        return _changed(found, lambda content: (content or b"") + text.encode("utf-8", "surrogateescape"))

    def move_file(source: Path, target: Path) -> str:
        """Moves or renames a file or a folder. Nothing may be at the target. Makes missing folders."""
        one, other, identity, missing = kept.identify(root, source, target)
        kept.rename(root, one, other, identity, missing)
        return f"moved {one} to {other}"

    def delete_file(path: Path) -> str:
        """Deletes a file, a link, or a folder that is empty."""
        found = kept.keep(root, path, follow=False).whole()
        if found.kept is None:
            raise FileNotFoundError(f"{found.path}: there is no such file")
        if found.path == ".":
            raise ValueError("the folder of the tools itself is not deleted")
        kept.change(root, found.path, found.kept, None)
        return f"deleted {found.path}"

    def _changed(found: kept.Found, change: Callable[[bytes | None], bytes]) -> str:
        before = found.kept
        if before is not None and before.kind != "file":
            raise IsADirectoryError(f"{found.path} is a {before.kind}, no file")
        content = change(None if before is None else before.content)
        after = Kept("file", content) if before is None else Kept("file", content, before.mode)
        kept.change(root, found.path, before, after, found.missing)
        what = "made" if before is None else "changed"
        return f"{what} {found.path}: {len(content):,} bytes"

    changing = (write_file, edit_file, append_file, move_file, delete_file)
    return [_made(fn, "idempotent") for fn in changing]


def _edited(content: bytes | None, old: str, new: str, path: str, *, every: bool) -> bytes:
    if content is None:
        raise FileNotFoundError(f"{path}: there is no such file")
    wanted, instead = (text.encode("utf-8", "surrogateescape") for text in (old, new))
    if not wanted:
        raise ValueError("old is empty: say what shall be replaced, or use write_file or append_file")
    times = content.count(wanted)
    if times == 0:
        hint = ""
        if b"\r\n" in content and b"\n" in wanted and wanted.replace(b"\n", b"\r\n") in content:
            hint = "; the lines of this file end in \\r\\n"
        elif wanted.strip() and wanted.strip() in content:
            hint = "; without the white space around it, it is"
        raise ValueError(f"{path}: the piece is not in the file{hint}. It was not changed")
    if times > 1 and not every:
        raise ValueError(
            f"{path}: the piece is in the file {times} times. Give more of what stands around it, or every=true. "
            "It was not changed"
        )
    return content.replace(wanted, instead)


def _made(fn: Any, effect: str, *, rest: str = "") -> Tool:
    """Its own action only looks; what changes something is an action of its own inside of it."""
    return tool(fn, effect="repeatable", shown_as=effect, rest=rest)
