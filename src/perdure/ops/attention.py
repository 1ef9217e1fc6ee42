"""What of a session wants a person: told from its summary and its lease, so that a full store is soon looked over.

It finds no damage and mends nothing; what it says is how the session stands, for how long, and the command that helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.ops.finding import NOTE, WARNING, Finding, age_s
from perdure.session.keeping.lease import is_dead, is_held, owner_text
from perdure.session.rules import item as items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.summary import Summary
    from perdure.stores.contract import Lease, Store

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def attention(store: Store, told: Summary, lease: Lease, *, session: str) -> Iterator[Finding]:
    """What a person should see to. `told` is the session's summary."""
    since = since_text(told.updated_us)
    runs = is_held(store, lease)
    if not runs and (lease.owner or told.status == "running"):
        yield _ownerless(store, told, lease, session=session)
    if told.status == "waiting" and told.waits:
        yield _waits(store, told.waits, session=session, since=since)
    if told.status == "failed":
        yield Finding(WARNING, "failed", session, f"it failed {since} ago: {told.reason}", ("show", session))
    if told.status == "running" and runs and clock.now_us() - told.updated_us > limits.STUCK_S * 1e6:
        what = f"{owner_text(lease.owner)} runs it, and has written nothing for {since}: an action that hangs?"
        yield Finding(WARNING, "stuck", session, what, ("show", session))
    if not runs and told.status != "completed":
        yield from _unheard(store, session, is_run=told.form != "handle")


def _ownerless(store: Store, told: Summary, lease: Lease, *, session: str) -> Finding:
    """Of a session that was run, and nobody runs it now."""
    if not lease.owner:
        what = "it was run, did not come to its end, and nobody runs it"
    elif is_dead(lease.owner):
        what = f"its owner is gone ({owner_text(lease.owner)})"
    else:
        what = f"its owner ({owner_text(lease.owner)}) has not moved for {store.still_s(lease) or 0:,.0f} s"
    if told.form == "handle":
        mend = ("doctor", "--fix") if lease.owner else ()
        return Finding(NOTE, "owner", session, f"{what}; its own code goes on with it", mend)
    return Finding(NOTE, "owner", session, f"{what}; it can be resumed", ("resume", session))


def _waits(store: Store, waits: tuple[int, ...], *, session: str, since: str) -> Finding:
    """Of a doubt, which is graver than a question: something may have happened."""
    records = store.read_at(session, waits)
    doubts = [record for record in records if record.kind == "action_started"]
    which = ", ".join(f"#{record.seq}" for record in doubts or records)
    age = age_s(min(record.time_us for record in doubts or records))
    if doubts:
        what = f"{which} may or may not have happened, for {since} nobody has said which; it waits"
        return Finding(WARNING, "in-doubt", session, what, ("show", session), age_s=age)
    what = f"it has waited {since} for an answer to {which}"
    return Finding(NOTE, "question", session, what, ("show", session), age_s=age)


def _unheard(store: Store, session: str, *, is_run: bool) -> Iterator[Finding]:
    """What was sent and nobody takes."""
    sent = [items.opened(item, session=session) for item in store.inbox(session)]
    mend = ("resume", session) if is_run else ()
    if unread := sum(one.what == items.MESSAGE for one in sent):
        yield Finding(NOTE, "inbox", session, f"{unread} messages wait in its inbox, and nobody runs it", mend)
    if asked := [one for one in sent if one.what in items.WISHES]:
        who = ", ".join(f"{one.what} by {one.by}" if one.by else one.what for one in asked)
        what = (
            f"was asked of a process that is gone: {who}; whoever runs it next does it, unless you roll it back by hand"
        )
        yield Finding(NOTE, "asked", session, what, mend)


def since_text(time_us: int) -> str:
    """How long ago that was, for people."""
    past_s = max(0, clock.now_us() - time_us) // 1_000_000
    size, unit = next((one for one in _UNITS if past_s >= one[0]), _UNITS[-1])
    return f"{past_s // size} {unit}"
