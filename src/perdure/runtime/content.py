"""One action in full: what it was given and what it returned, as values.

Read from the log; an argument that was recorded as a part of the state is rebuilt from the snapshot that it refers to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import NotKeptError, UndecidedError
from perdure.log.action import Actions, concerned
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.session.rules import argument
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from perdure.log.action import Action, Outcome
    from perdure.stores.contract import Store


@dataclass(frozen=True, slots=True)
class ActionContent:
    """`arguments` by name, fresh copies; `not_kept` are those of which only the digest or the type was recorded.

    `outcome` is result, error, unstorable, not done, abandoned or "" (none known); `result` is the value of a result.
    `idempotency_key` is what each attempt of it was given, if its function asks for one.
    """

    seq: int
    call: str
    effect: str
    arguments: dict[str, Any]
    not_kept: dict[str, str]
    outcome: str
    result: Any
    idempotency_key: str


def content(store: Store, session: str, seq: int) -> ActionContent:
    """The action that begins with this record. Raises `UndecidedError` when it begins none, `DamageError`."""
    reader = Reader(store, session)
    action = Actions(entry for entry in reader.entries() if seq in (entry.seq, *concerned(entry))).get(seq)
    if action is None:
        raise UndecidedError(
            f"{session}: record {seq} is not the start of an action; perdure show {session} lists them"
        )
    arguments, not_kept = _arguments(reader, action)
    known = action.known
    return ActionContent(
        seq=seq,
        call=calls.call_text(action.name, action.args),
        effect=action.effect,
        arguments=arguments,
        not_kept=not_kept,
        outcome=known.how if known else "",
        result=_result(known),
        idempotency_key=action.idempotency_key,
    )


def _result(known: Outcome | None) -> Any:
    return values.decode(known.value) if known and known.how == "result" and known.value is not None else None


def _arguments(reader: Reader, action: Action) -> tuple[dict[str, Any], dict[str, str]]:
    arguments, not_kept = {}, {}
    for name, recorded in action.args.items():
        needed = argument.part_of(recorded)
        if needed and reader.is_dropped(needed[0]):
            not_kept[name] = f"{argument.text(recorded)}: it was part of snapshot {needed[0]}, which retention dropped"
            continue
        part = snapshot(reader, needed[0]).part(needed[1]) if needed else None
        try:
            arguments[name] = argument.again(recorded, part)
        except NotKeptError as error:
            not_kept[name] = str(error)
    return arguments, not_kept
