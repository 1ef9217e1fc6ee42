"""`send`, `save`, `pause` and `cancel`: what a person tells a session, whether somebody runs it or nobody does."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output
from perdure.cli.deciding import Reason
from perdure.cli.place import place
from perdure.cli.running import parsed
from perdure.cli.text import chosen_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.runtime.store import AgentStore


def send(
    session: options.Session,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The message, as plain text.")] = None,
    *,
    message: Annotated[
        str | None, typer.Option("--message", metavar="JSON", help="The message as JSON, instead of TEXT.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Makes it one message, however often it is sent.")
    ] = None,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Send a message, which the session's code receives once."""
    if (text is None) == (message is None):
        raise typer.BadParameter("give a TEXT, or --message JSON")
    content = text if message is None else parsed(message, option="--message")
    where = place(store)
    with where.open() as opened:
        is_new = opened.send(session, content, key=key, by=chosen_by(by))
        owner = opened.info(session).owner
    if as_json:
        output.document(
            {"session": session, "sent": is_new, "owner": owner, "resume": where.command("resume", session)}
        )
    elif not is_new:
        output.say(f"a message with the key {key} was sent before; nothing was sent now")
    else:
        output.say(
            "sent. " + (f"{owner} runs it" if owner else f"To have it received: {where.command('resume', session)}")
        )


def save(
    session: options.Session,
    *,
    reason: Reason = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Ask a session that runs for a snapshot of its state, to look at.

    It is made at its next call or save.
    """
    where = place(store)
    with where.open() as opened:
        is_asked = opened.save(session, reason=reason, by=chosen_by(by))
        owner = opened.info(session).owner
    look = where.command("state", session)
    if as_json:
        output.document({"session": session, "asked": is_asked, "owner": owner, "state": look})
    elif is_asked:
        output.say(f"{owner or 'its process'} is asked, and saves at its next call or save. Then: {look}")
    else:
        output.say(f"nobody runs {session}, so its newest snapshot is all there is: {look}")


def pause(
    session: options.Session,
    *,
    reason: Reason = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Pause a session; it goes on when it is resumed.

    One that runs is paused at its next action, save or wait.
    """
    with _told(session, store, as_json=as_json) as opened:
        opened.pause(session, reason=reason, by=chosen_by(by))


def cancel(
    session: options.Session,
    *,
    reason: Reason = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """End a session for good; what it did is kept.

    One that runs ends at its next action, save or wait.
    """
    with _told(session, store, as_json=as_json) as opened:
        opened.cancel(session, reason=reason, by=chosen_by(by))


@contextmanager
def _told(session: str, store: str | None, *, as_json: bool) -> Iterator[AgentStore]:
    """The store in which the session is told to stop, and then how it stands."""
    where = place(store)
    with where.open() as opened:
        yield opened
        found = opened.info(session)
    if as_json:
        output.document({"session": session, "status": found.status, "owner": found.owner})
    elif found.owner:
        output.say(f"{found.owner} runs it and is told; it stops at its next action, save or wait")
    else:
        more = f". To go on: {where.command('resume', session)}" if found.status == "paused" else ""
        output.say(f"{session} is {found.status}{more}")
