"""`log`: the records of a session, or the journal of what was done, chosen, followed and exported; and its mirror."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from perdure.cli import looking, options, output, records
from perdure.cli.place import place
from perdure.cli.text import as_point, bytes_of, duration, moment_of, one_line
from perdure.log.journal import KINDS, Lines
from perdure.log.origin import seam_of
from perdure.log.readable import document, moment
from perdure.log.record import KINDS as RECORDS
from perdure.ops.journal.choosing import Choice
from perdure.ops.journal.files import Tail, chain
from perdure.ops.journal.mirroring import caught_up
from perdure.ops.journal.policy import Journal
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore

COLUMNS: Final = (
    *("id", "session", "epoch", "seq", "timestamp", "action", "outcome", "attempt", "duration_s", "effect"),
    *("inputs", "result", "error", "start", "started", "final", "parent", "undoes", "cost", "by", "why"),
)
"""Those of a journal as CSV."""

RECORD_COLUMNS: Final = ("session", "seq", "epoch", "kind", "time", "body")

Actions = Annotated[
    list[str] | None,
    typer.Option("--action", metavar="NAME", help="Only what is about this action; NAME may have a *; repeatable."),
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only records of this kind; repeatable.")
]
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only actions that ended so, or sessions that became so."),
]
Grep = Annotated[
    str | None,
    typer.Option("--grep", metavar="REGEX", help="Only those in whose arguments, results and errors it is found."),
]


def _moment(text: str | None) -> int | None:
    try:
        return None if text is None else moment_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def log(
    session: Annotated[str | None, options.session("The session; a journal is of all without one.")] = None,
    *,
    journal: Annotated[
        bool, typer.Option("--journal", help="What was done, a line for each action that ended, not the records.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Read a mirror of the journal with its backups, and no store."),
    ] = None,
    mirror: Annotated[
        Path | None,
        typer.Option("--mirror", metavar="FILE", help="Bring this mirror of the journal up to the log, and end."),
    ] = None,
    actions: Actions = None,
    kinds: Kinds = None,
    statuses: Statuses = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only what went wrong.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Not before: 2h, 2026-01-31, 2026-01-31T12:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Not after.")] = None,
    grep: Grep = None,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Only the records after this one.")] = 0,
    branch: looking.Branch = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what is new as it comes, until the session is completed."),
    ] = False,
    ndjson: Annotated[bool, typer.Option("--ndjson", help="Each as one line of JSON, decoded.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV; what has parts is JSON in its cell.")] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Print the records of a session, verified, oldest first; or the journal of what was done."""
    choice = Choice(
        actions=tuple(actions or ()),
        kinds=_known_kinds(kinds or []),
        statuses=tuple(statuses or ()),
        errors=errors,
        since_us=_moment(since),
        until_us=_moment(until),
        grep=_pattern(grep),
    )
    _check(session, journal=journal or source is not None, choice=choice, follow=follow, branch=branch, source=source)
    if follow and as_json:
        raise typer.BadParameter("--follow goes with --ndjson, --csv or text: a document has an end")
    how = _Output(ndjson=ndjson, as_csv=as_csv, as_json=as_json)
    with contextlib.suppress(*([KeyboardInterrupt] if follow else [])):
        if mirror is not None:
            _bring(mirror, session, store, as_json=as_json)
        elif source is not None:
            _from_mirror(source, session, choice, how, follow=follow)
        else:
            _from_store(session, store, choice, how, journal=journal, after=after, branch=branch, follow=follow)


def _known_kinds(kinds: list[str]) -> tuple[str, ...]:
    wrong = next((kind for kind in kinds if kind not in RECORDS), None)
    if wrong is not None:
        raise typer.BadParameter(f"--kind {wrong}: it is one of {', '.join(RECORDS)}")
    return tuple(kinds)


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    try:
        return None if grep is None else re.compile(grep)
    except re.error as error:
        raise typer.BadParameter(f"--grep {grep}: {error}") from error


def _check(
    session: str | None, *, journal: bool, choice: Choice, follow: bool, branch: str | None, source: Path | None
) -> None:
    if branch is not None and (follow or journal):
        raise typer.BadParameter("--branch goes with the records of a session, and without --follow")
    if journal and choice.kinds:
        raise typer.BadParameter("--kind goes with records; the lines of a journal are all ends of actions")
    if session is None and follow and source is None:
        raise typer.BadParameter("to follow all sessions, follow their mirror: --from FILE; else name a SESSION")


class _Output:
    """How what is found is printed."""

    def __init__(self, *, ndjson: bool, as_csv: bool, as_json: bool) -> None:
        if ndjson + as_csv + as_json > 1:
            raise typer.BadParameter("--ndjson, --csv and --json: one of them")
        self._ndjson, self._csv, self._json = ndjson, as_csv, as_json

    def lines(self, found: Iterable[dict[str, Any]], head: dict[str, Any], *, of_all: bool) -> None:
        """The lines of a journal, as they come."""
        self._print(found, head, "lines", COLUMNS, lambda line: _line(line, of_all=of_all))

    def records(self, found: Iterable[Entry], session: str) -> None:
        """The records of a session, as they come."""
        if self._ndjson or self._csv or self._json:
            documents = (document(entry, session) for entry in found)
            self._print(documents, {"session": session}, "records", RECORD_COLUMNS, str)
            return
        for entry in found:
            _say(f"{entry.seq:>6} {moment(entry.time_us)[:23]} {entry.kind:<15} {records.line(entry)}".rstrip())

    def _print(
        self, found: Iterable[dict[str, Any]], head: dict[str, Any], name: str, columns: tuple[str, ...], told: Any
    ) -> None:
        if self._json:
            output.document(head | {name: list(found)})
            return
        if self._csv:
            _say(_row(columns))
        for one in found:
            if self._ndjson:
                output.line(one)
                sys.stdout.flush()
            else:
                _say(_row([_cell(one.get(column)) for column in columns]) if self._csv else told(one))


def _say(text: str) -> None:
    output.say(text)
    sys.stdout.flush()


def _row(cells: Iterable[object]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(cells)
    return written.getvalue()


def _cell(value: Any) -> object:
    """A cell. A text that a spreadsheet would run as a formula is quoted as one that it shows."""
    if value is None:
        return ""
    shown = value if isinstance(value, str | int | float) else json.dumps(outward.document(value))
    return f"'{shown}" if isinstance(shown, str) and shown[:1] in ("=", "+", "-", "@") else shown


def _line(line: dict[str, Any], *, of_all: bool) -> str:
    """A line of a journal for people: what was called, how it ended, with what, and how long it took."""
    whose = f"{line['session']} " if of_all else ""
    given = ", ".join(f"{name}={_brief(value, name)}" for name, value in (line["inputs"] or {}).items())
    told = line["outcome"] if line["outcome"] != "result" else "->"
    error = line["error"] or {}
    what = str(error.get("class", "")).removeprefix("builtins:")
    said = _brief(line["result"]) if not error else f"{what} {error.get('text', '')}".strip()
    attempt = f", attempt {line['attempt']}" if (line["attempt"] or 1) > 1 else ""
    took = f" ({_took(line['duration_s'])}{attempt})" if line["duration_s"] is not None else ""
    by = f" by {line['by']}" if line["by"] else ""
    call = one_line(f"{line['action']}({given})", chars_max=90)
    return f"{line['seq']:>6} {line['timestamp'][:23]} {whose}{call} {told}{by} {one_line(said, chars_max=60)}{took}"


def _took(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds < 0.1 else duration(seconds)


def _brief(value: Any, name: str = "") -> str:
    return json.dumps(outward.document(value, name), ensure_ascii=False)


def _bring(path: Path, session: str | None, store: str | None, *, as_json: bool) -> None:
    with place(store).open() as opened:
        count = caught_up(opened.backend, Journal(path=path), session=session)
    files = chain(path)
    size = sum(file.stat().st_size for file in files)
    if as_json:
        output.document({"mirror": str(path), "lines": count, "files": [str(file) for file in files], "bytes": size})
    else:
        some = "nothing was owed" if not count else f"{count} lines more"
        output.say(f"{path}: {some}; {len(files)} file{'s' * (len(files) != 1)}, {bytes_of(size)}")


def _from_mirror(path: Path, session: str | None, choice: Choice, how: _Output, *, follow: bool) -> None:
    tail = Tail(path)
    mine = (line for line in tail.read(follow=follow) if session in (None, line["session"]))
    how.lines(choice.lines(mine), {"journal": str(path)}, of_all=session is None)
    if tail.damaged:
        output.warn(f"{path}: {tail.damaged} lines could not be read; perdure log --mirror {path} makes them good")


def _from_store(
    session: str | None,
    store: str | None,
    choice: Choice,
    how: _Output,
    *,
    journal: bool,
    after: int,
    branch: str | None,
    follow: bool,
) -> None:
    with place(store).open() as opened:
        if journal or session is None:
            if not journal:
                raise typer.BadParameter("name a SESSION, or ask for the --journal of all")
            found = _followed(opened, session, after) if follow and session else opened.journal(session, after=after)
            how.lines(choice.lines(found), {"session": session}, of_all=session is None)
            return
        first = 0 if choice.actions else after  # the end of an action does not say its name
        if branch is not None:
            entries: Iterable[Entry] = opened.branch(session, as_point(branch))
        elif follow:
            entries = opened.follow(session, after=first)
        else:
            entries = opened.log(session, after=first)
        how.records(choice.records(entries, session, after=after), session)


def _followed(opened: AgentStore, session: str, after: int) -> Iterator[dict[str, Any]]:
    """The lines of a session as its records come; all are read, since an end does not say of what."""
    lines, begin = Lines(session, before=lambda _start, _upto: ()), seam_of(opened.backend.head(session).bases)
    for entry in opened.follow(session):
        line = lines.take(entry) if entry.kind in KINDS else None
        if line is not None and entry.seq > max(after, begin):
            yield line
