"""`edit`: a person changes the state of a session, in an editor, by a file, or place by place.

What was not touched stays as it is stored: an editor is shown JSON, and only what differs in it afterwards is changed.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure import values
from perdure.cli import filed, options, output, running
from perdure.cli.deciding import Reason
from perdure.cli.place import Place, place
from perdure.cli.text import chosen_by, one_line
from perdure.errors import EntryError, NoPointError, PerdureError, RefusedError
from perdure.log.readable import json_of
from perdure.values import outward
from perdure.values.tokens import MASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.editing import Changes
    from perdure.runtime.store import AgentStore

Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=JSON", help="Change this place: part.key[0].key=value; repeatable.", show_default=False
    ),
]

Unsets = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="PATH", help="Take away this key of a dict; repeatable.", show_default=False),
]


def edit(
    session: options.Session,
    part: Annotated[
        str | None, typer.Argument(metavar="PART", help="Only this part of the state, in the editor.")
    ] = None,
    *,
    sets: Sets = None,
    unsets: Unsets = None,
    patch: Annotated[
        Path | None,
        typer.Option(
            "--patch",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Make the changes of this file, JSON or YAML: values by path, or a list of operations.",
        ),
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="Begin a branch of this name there.")
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Without its code, which else says whether it takes the state.")
    ] = False,
    reason: Reason = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Change the state that a session goes on from, by hand.

    Without --set, --unset or --patch it opens your editor. One that runs is paused first; a script has no such state.
    """
    if patch is not None and (sets or unsets):
        raise typer.BadParameter("give --patch, or --set and --unset")
    if part is not None and (patch or sets or unsets):
        raise typer.BadParameter("PART is for the editor; --set, --unset and --patch name the whole path")
    where = place(store)
    told: dict[str, Any] = {"branch": branch, "reason": reason, "by": by, "as_json": as_json}
    fn = None if unchecked else _code(where, session)
    if patch is not None:
        change(where, session, filed.value_of(patch), fn=fn, **told)
    elif sets or unsets:
        change(where, session, operations(sets or [], unsets or []), fn=fn, **told)
    else:
        _in_editor(where, session, part, fn=fn, told=told)


def change(
    where: Place,
    session: str,
    ops: Changes,
    *,
    branch: str | None,
    reason: str,
    by: str | None,
    as_json: bool,
    fn: Callable[..., Any] | None = None,
) -> None:
    """Writes it, and says how to go on."""
    with where.open() as opened:
        seq = opened.edit(session, ops, by=chosen_by(by), reason=reason, branch=branch, fn=fn)
        is_handle = opened.info(session).form == "handle"
    go_on = where.command("show" if is_handle else "resume", session)
    if as_json:
        output.document({"session": session, "edited": seq, "resume": go_on})
    else:
        output.say(f"{session} goes on from #{seq}, its state as it is now. To go on: {go_on}")


def operations(sets: list[str], unsets: list[str]) -> list[list[Any]]:
    """What was typed, as `perdure.patch` takes it."""
    parsed = importlib.import_module("perdure.state.place").parsed
    pairs = [text.partition("=") for text in sets]
    wrong = next((path for path, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise typer.BadParameter(f"--set {wrong}: write it as PATH=JSON, such as --set 'plan.steps[0].done=true'")
    changed = [["set", parsed(path), running.parsed(value, option="--set")] for path, _, value in pairs]
    return [*changed, *(["del", parsed(path)] for path in unsets)]


def _code(where: Place, session: str) -> Callable[..., Any] | None:
    """The code that the state is checked by; None where there is none to be asked."""
    with where.open() as opened:
        info = opened.info(session)
    if info.form != "steps" or not info.entry:
        return None
    try:
        return running.load(info.entry)
    except EntryError as error:
        raise EntryError(f"{error}. To change the state without asking its code: --unchecked") from error


# --- in an editor -----------------------------------------------------------------------------------------------------


def _in_editor(
    where: Place, session: str, part: str | None, *, fn: Callable[..., Any] | None, told: dict[str, Any]
) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("vi" if sys.stdin.isatty() else None)
    if editor is None:
        raise typer.BadParameter("here is no terminal for an editor: say what to change with --set, --unset or --patch")
    with where.open() as opened:
        shown = _shown(opened, session, part)
    file = _written(session, shown)
    try:
        _open(editor, file)
        ops = _differences(shown, running.parsed(file.read_text(encoding="utf-8"), option="the file"))
        if ops:
            change(where, session, ops, fn=fn, **told)
        else:
            output.say("nothing was changed")
    except (PerdureError, typer.BadParameter):
        output.warn(f"what you wrote is kept: {file}")
        raise
    file.unlink()


def _open(editor: str, file: Path) -> None:
    """Runs the editor until it is closed. Raises `RefusedError` unless that went well: then nothing is changed."""
    try:
        done = subprocess.run([*shlex.split(editor), str(file)], check=False)  # noqa: S603 - the user's own editor
    except OSError as error:
        raise RefusedError(f"the editor {editor!r} cannot be run ({error}); VISUAL or EDITOR names another") from error
    if done.returncode:
        raise RefusedError(f"the editor {editor!r} ended with {done.returncode}; nothing was changed")


def _shown(opened: AgentStore, session: str, part: str | None) -> dict[str, Any]:
    """The state that the code would start from, as JSON without secrets."""
    found = importlib.import_module("perdure.runtime.editing").state_of(opened, session)
    if part is not None and part not in found:
        raise NoPointError(f"{session} has no part {part!r} there; it has: {', '.join(found) or 'none'}")
    chosen = found if part is None else {part: found[part]}
    return {name: outward.document(json_of(value), name) for name, value in chosen.items()}


def _written(session: str, shown: dict[str, Any]) -> Path:
    """A file that only this user reads."""
    name = "".join(c if c.isalnum() else "-" for c in session)[:40]
    handle, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".json", text=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
    return Path(path)


def _differences(shown: dict[str, Any], now: Any) -> list[list[Any]]:
    """What was changed, by path. A secret is shown masked: what holds one can be left, not written anew."""
    if type(now) is not dict:
        raise RefusedError("a state is an object, its parts by their names")
    before, after = (values.decode(json.dumps(one).encode(), codec="json") for one in (shown, now))
    ops = importlib.import_module("perdure.state.foreign").differences(before, after)
    for op in ops:
        if MASK in json.dumps(json_of(op)):
            at = one_line(str(op[1]))
            raise RefusedError(f"{at} holds a secret, which is shown as {MASK} and would be lost: use --set on a place")
    return list(ops)
