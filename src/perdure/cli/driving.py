"""`drive`: fork a session at a place, change a result, the input or the code, and run on for real."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from perdure.cli import options, running
from perdure.cli.deciding import Reason, chosen_by
from perdure.cli.place import place
from perdure.cli.text import as_point

Results = Annotated[
    list[str] | None,
    typer.Option("--result", metavar="SEQ=JSON", help="Answer the action of that number with this; repeatable."),
]


def drive(
    session: options.Session,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[FUNCTION]",
            help="Other code: file.py:function or module:function; the recorded one without it.",
            show_default=False,
        ),
    ] = None,
    *,
    into: Annotated[str, typer.Option("--into", metavar="NEW", help="The id of the fork.", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="Where to go on from, as for `fork`. Else where the changed results were known; for another input the "
            "opening; else the end.",
            show_default=False,
        ),
    ] = None,
    result: Results = None,
    input_json: running.Input = None,
    input_text: running.InputText = None,
    reason: Reason = "",
    by: options.By = None,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """What if: fork, change a result, the input or the code, and run on for real.

    Ends as `run` does.
    """
    given, changed = running.given_input(input_json, input_text), _results(result or [])
    where = place(store)
    with where.open() as opened:
        entry = target or opened.info(session).entry
        fn = running.load(entry) if entry else None
        outcome = running.watched(
            opened,
            into,
            show=progress,
            as_json=as_json,
            go=lambda: opened.drive(
                session,
                into=into,
                fn=fn if target else None,
                at=None if at is None else as_point(at),
                result=changed,
                input=given,
                reason=reason,
                by=chosen_by(by),
            ),
        )
    running.end(outcome, into, where, as_json=as_json)


def _results(given: list[str]) -> dict[int, Any]:
    pairs = [text.partition("=") for text in given]
    wrong = next((seq for seq, equals, _ in pairs if not seq.isdigit() or not equals), None)
    if wrong is not None:
        raise typer.BadParameter(f"--result {wrong}: write it as SEQ=JSON, the number of an action and its result")
    return {int(seq): running.parsed(value, option="--result") for seq, _, value in pairs}
