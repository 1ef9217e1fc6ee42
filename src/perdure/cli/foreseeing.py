"""What a resume or a rollback would do, for people and as JSON; and asking them before it is done."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import typer

from perdure.cli import output
from perdure.cli.text import one_line

if TYPE_CHECKING:
    from perdure.recovery.preview import Preview

_PARTS: Final = (
    ("doubt", "must be decided first (by its `verify`, or settled)"),
    ("undone", "undone first, in this order"),
    ("answered", "answered from the log"),
    ("again", "run again"),
    ("standing", "left standing, not undone"),
)


def document(found: Preview) -> dict[str, Any]:
    """A preview as JSON."""
    asked = [{"seq": seq, "prompt": prompt} for seq, prompt in found.asked]
    lists = {name: [asdict(action) for action in getattr(found, name)] for name, _ in _PARTS}
    plain = {"session": found.session, "to": found.to or None, "reentry": found.reentry}
    files = {
        "changes": [asdict(change) for change in found.files.changes],
        "left": [list(pair) for pair in found.files.left],
        "missing": found.files.missing or None,
    }
    return plain | lists | {"asked": asked, "points": list(found.points), "files": files}


def show(found: Preview, *, as_json: bool) -> None:
    """The preview, in one form or the other."""
    if as_json:
        output.document(document(found))
    else:
        tell(found)


def tell(found: Preview) -> None:
    """A preview in lines."""
    if found.to:
        output.say(f"{found.session} would go back to #{found.to}; its code would start again at #{found.reentry}")
    else:
        output.say(f"the code of {found.session} would start again at #{found.reentry}")
    for name, title in _PARTS:
        actions = getattr(found, name)
        if actions:
            output.say(f"\n{title}")
            rows = [(a.seq, one_line(a.call, chars_max=70), a.effect, a.outcome) for a in actions]
            output.table(("seq", "call", "effect", "outcome"), rows)
    if found.asked:
        output.say("\nwaits for an answer")
        output.table(("seq", "question"), [(seq, one_line(prompt, chars_max=100)) for seq, prompt in found.asked])
    _tell_files(found)
    if found.points:
        output.say(f"\nrestore points left behind: {', '.join(f'#{seq}' for seq in found.points)}")


def _tell_files(found: Preview) -> None:
    """What would happen to the files."""
    if found.files.missing:
        output.say(f"\nit would be refused: the files of that point were not captured: {found.files.missing}")
    if found.files.changes:
        output.say("\nfiles, as they were captured last")
        rows = [
            (c.what, one_line(c.path, chars_max=90), "changed by others" if c.conflict else "")
            for c in found.files.changes
        ]
        output.table(("what", "path", ""), rows)
    for path, why in found.files.left:
        output.say(one_line(f"stays: {path} ({why})", chars_max=110))


def is_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(found: Preview, question: str, *, yes: bool, as_json: bool) -> None:
    """At a terminal: tells the preview and asks. Raises `typer.Abort` for a no."""
    if yes or as_json or not is_terminal():
        return
    tell(found)
    typer.confirm(f"\n{question}", abort=True)
