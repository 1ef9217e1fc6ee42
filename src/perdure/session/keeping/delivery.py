"""What is asked of a session that nobody runs takes effect at once, by whoever asks: what is decided, a pause, an end.

Messages stay in the inbox until the session's code receives them. No code of the agent runs here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from perdure.errors import HeldError
from perdure.log.action import Actions
from perdure.session.keeping.opening import take_up
from perdure.session.rules import item as items
from perdure.session.rules import settling
from perdure.session.rules.request import Commit
from perdure.session.rules.status import OVER

if TYPE_CHECKING:
    from collections.abc import Collection

    from perdure.session.keeping.lease import Keeper
    from perdure.session.keeping.snapshot import Reader
    from perdure.session.keeping.writer import Writer
    from perdure.session.rules.item import Sent
    from perdure.session.rules.request import Draft
    from perdure.stores.contract import Store


def deliver(keeper: Keeper, session: str, *, owner: str, lease_s: float) -> None:
    """Does what lies in the inbox, unless somebody holds the session: then it is theirs to do. Durable on return."""
    store = keeper.store
    if not _waiting(store, session):
        return
    with contextlib.suppress(HeldError), keeper.briefly(session, owner=owner, lease_s=lease_s) as lease:
        writer, reader, _ = take_up(store, session, epoch=lease.epoch)
        sent = [one for one in _waiting(store, session) if one.what != items.ROLLBACK or _is_over(writer)]
        # a rollback that was asked for is done by the code itself, when it is next run
        drafts = [*_settled(sent, reader), *_drafts([one for one in sent if one.what != items.SETTLE], writer)]
        writer.commit(Commit(tuple(drafts), lambda _: None, items.numbers(sent)))


def instead(
    store: Store, session: str, *, of: Collection[str] = items.WISHES, why: str
) -> tuple[list[Draft], list[Sent]]:
    """The records that make void what was asked `of` whoever ran the session, as a person has done something since."""
    found = [items.opened(item, session=session) for item in store.inbox(session)]
    wishes = [sent for sent in found if sent.what in of]
    return [items.not_done(sent, why) for sent in wishes], wishes


def _waiting(store: Store, session: str) -> list[Sent]:
    found = [items.opened(item, session=session) for item in store.inbox(session)]
    delivered = (items.ANSWER, items.SETTLE, items.DAMAGED, *items.WISHES)
    return [sent for sent in found if sent.what in delivered]


def _is_over(writer: Writer) -> bool:
    """Whether nobody runs it any more, so that it goes back only when somebody says so now."""
    return writer.summary.status in OVER


def _settled(sent: list[Sent], reader: Reader) -> list[Draft]:
    """Of several decisions about one action the first counts."""
    decisions = [one for one in sent if one.what == items.SETTLE]
    actions, drafts, decided = Actions(reader.entries() if decisions else ()), [], set[int]()
    for one in decisions:
        drafts.append(settling.taken(one, actions, under_way=decided))
        decided.add(one.asked)
    return drafts


def _drafts(sent: list[Sent], writer: Writer) -> list[Draft]:
    status = writer.summary.status
    void = [one for one in sent if one.what in _VOID.get(status, (items.SAVE,))]
    commands = [one for one in sent if one.what in items.STATUS_OF and one not in void]
    told = [items.taken(one) for one in sent if one not in (*commands, *void)]
    answered = {one.asked for one in sent}
    waits = tuple(seq for seq in writer.summary.waits if seq not in answered)
    why = f"it was {status}" if status in _VOID else "nobody ran it any more"
    return [*told, *(items.not_done(one, why) for one in void), *items.obeyed(commands, waits=waits)]


_VOID: Final = {**dict.fromkeys(OVER, items.WISHES), "failed": (items.SAVE, items.PAUSE)}
"""What changes nothing any more in a session of this status, which its code has come to meanwhile."""
