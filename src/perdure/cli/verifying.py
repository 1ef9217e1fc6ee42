"""`verify`: whether what is stored is what was written, and how much was read to say so."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from perdure.cli import options, output, shape
from perdure.cli.place import place
from perdure.cli.text import bytes_of, chosen_by, one_line
from perdure.errors import DamageError
from perdure.recovery.verify import EVERYTHING, STRUCTURE, Part, Read, part
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from perdure.ops.restored import Accepted
    from perdure.recovery.verify import Report
    from perdure.runtime.store import AgentStore

_OPTION: Final = "--read-data"
_ALL: Final = "1/1"
_PART: Final = re.compile(r"\d+/\d+")


class Verify(TyperCommand):
    """A command whose option `--read-data` may have a value, and needs none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Gives the option its value where it was left out."""
        told: list[str] = []
        for word, after in pairwise([*args, ""]):
            told += [word, _ALL] if word == _OPTION and not _PART.fullmatch(after) else [word]
        return super().parse_args(ctx, told)


def _checked(text: str | None) -> str | None:
    try:
        if text is not None:
            part(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


def verify(
    session: Annotated[str | None, options.session("The session; all of the store without one.")] = None,
    *,
    read_data: Annotated[
        str | None,
        typer.Option(
            _OPTION,
            metavar="[N/M]",
            help="Read every byte of every chunk, too; or the N-th of M parts of them.",
            callback=_checked,
            show_default=False,
        ),
    ] = None,
    accept_restored: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="First accept, on the record, that the store was put back to an older copy; say why.",
            show_default=False,
        ),
    ] = None,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Check a session, or all, and say how much was read.

    The chain, the records, the indexes; the newest restore point is restored to prove it. Ends with 20 on damage.
    """
    with place(store).open() as opened:
        accepted = None
        if accept_restored is not None:
            accepted = opened.accept_restored(accept_restored, by=chosen_by(by))
        sessions = [session] if session is not None else _all(opened)
        found = [opened.verify(one, read_data=read_data or False) for one in sessions]
    ok = all(report.ok for report in found)
    total = _total(found, data=part(read_data) if read_data else STRUCTURE)
    if as_json:
        told = {"ok": ok, "sessions": [shape.report(one) for one in found], "read": shape.read(total)}
        output.document(told | {"accepted": shape.accepted(accepted)})
    else:
        if accepted is not None:
            _tell_accepted(accepted)
        for report in found:
            _tell(report)
        output.say(_read_text(total))
    raise typer.Exit(0 if ok else DamageError.exit_status)


def _all(opened: AgentStore) -> list[str]:
    """Every session, those of the store itself, too."""
    own = [head.session for head in opened.backend.heads(prefix="perdure:") if head.session in HOUSE]
    return [info.id for info in opened.sessions()] + own


def _tell_accepted(accepted: Accepted) -> None:
    output.say(f"accepted: incarnation {accepted.incarnation} of the store")
    if accepted.lost:
        output.say(f"  not in this copy: {', '.join(accepted.lost)}")
    if accepted.erased:
        output.say(f"  erased again: {', '.join(accepted.erased)}")
    for session, why in accepted.left:
        output.say(f"  left as it is: {session}: {one_line(why, chars_max=300)}")


def _total(found: list[Report], *, data: Part) -> Read:
    reads = [report.read for report in found]
    return Read(
        sum(read.records for read in reads),
        sum(read.chunks for read in reads),
        sum(read.bytes for read in reads),
        data,
    )


def _tell(report: Report) -> None:
    told = f"no fault; {_proved(report)}" if report.ok else "damaged"
    output.say(f"{report.session}: {report.records} records, {told}")
    for problem in report.problems:
        output.say(f"  {one_line(str(problem), chars_max=400)}")
    if not report.ok and report.problems[0].kind != "witness":
        output.say(f"  provably good: {_good(report.newest_valid)}")


def _proved(report: Report) -> str:
    if not report.newest_valid:
        return "no snapshot yet"
    return f"snapshot #{report.newest_valid} restored ({report.parts} part{'s' * (report.parts != 1)})"


def _read_text(read: Read) -> str:
    what = f"read {read.records} records and {read.chunks} chunks, {bytes_of(read.bytes)}: "
    if read.data == EVERYTHING:
        return f"{what}every byte"
    data = f"part {read.data} of the data" if read.data.number else "the structure, and one snapshot each"
    return f"{what}{data}; {_OPTION} reads every byte"


def _good(newest: int | None) -> str:
    if newest is None:
        return "no snapshot of it"
    return (
        f"its snapshot #{newest}, and none that is newer"
        if newest
        else "the empty state of its opening, and no snapshot"
    )
