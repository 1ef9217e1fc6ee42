"""Questions to people: asked once, answered by number or key in any order, checked before the code sees the answer.

It must not know how an answer comes: it waits for a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import KeyReusedError, RefusedError, Suspended
from perdure.log.branch import branch
from perdure.log.marks import answer_mark, question_mark
from perdure.session.rules import schema
from perdure.session.rules.request import Draft, Find, Request, Steps
from perdure.session.rules.status import status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.log.entry import Entry
    from perdure.session.rules.core import Journal


@dataclass(frozen=True, slots=True)
class Ask:
    """One of several questions that are asked at once (`s.ask_all`).

    `key` makes it one question on a branch; `choices` are the answers that it takes; `schema` is a type (a pydantic
    model, a dataclass, `int` …) that the answer is made into, or a JSON Schema as a dict.
    """

    prompt: str
    key: str | None = None
    choices: list[Any] | None = None
    schema: Any = None


class People:
    """The questions of an open session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def ask(self, asks: Sequence[Ask], *, wait_s: float = 0.0) -> Steps:
        """The answers, in the order of the questions; raises `Suspended` until all of them are there."""
        self._journal.refuse_inside("ask")
        _check(asks)
        try:
            yield from self._journal.inbox.attend()
            return [said for said, _ in (yield from self.answers(asks, wait_s=wait_s))]
        except Suspended as suspended:
            raise self._journal.leave(suspended) from None

    def answers(self, asks: Sequence[Ask], *, about: int | None = None, wait_s: float = 0.0) -> Steps:
        """(answer, number of its question) for each. One whose answer does not fit its type is asked again."""
        self._journal.happened = True
        said: dict[int, tuple[Any, int]] = {}
        refused: dict[int, str] = {}
        used: set[int] = set()
        while len(said) < len(asks):
            open_ = {n: ask for n, ask in enumerate(asks) if n not in said}
            asked = yield from self._asked(open_, refused, used, about=about)
            used.update(asked.values())
            wait_s = yield from self._wait([*asked.values()], wait_s)
            for n, seq in asked.items():
                (answer, *_) = yield Find(answer_mark(seq))
                value, why = schema.made(asks[n].schema, values.decode(answer["answer"]))
                if why:
                    refused[n] = why
                else:
                    said[n] = value, seq
        return [said[n] for n in range(len(asks))]

    def _asked(self, asks: dict[int, Ask], refused: dict[int, str], used: set[int], *, about: int | None) -> Steps:
        """The numbers of the questions' records; those that are not recorded yet are asked now, in one commit."""
        found: dict[int, int] = {}
        for n, ask in asks.items():
            entry = yield from self._recorded(ask, used | set(found.values()), about=about)
            if entry is not None:
                found[n] = entry.seq
        new = [n for n in asks if n not in found]
        if new:
            yield from self._journal.siblings_first(f"the question {asks[new[0]].prompt!r}")
            entries: list[Entry] = []
            drafts = [_draft(asks[n], why=refused.get(n), about=about) for n in new]
            yield from self._journal.commit(*drafts, then=entries.extend)
            found |= dict(zip(new, (e.seq for e in entries if e.kind == "asked"), strict=True))
        return {n: found[n] for n in asks}

    def _recorded(self, ask: Ask, used: set[int], *, about: int | None) -> Steps:
        """The recorded question. With a key: of this branch. Without: the next one in the order of the code."""
        journal = self._journal
        if ask.key is None:
            return journal.ledger.claim_question(ask.prompt, about)
        found = [e for e in (yield Find(question_mark(ask.key))) if e.kind == "asked" and e.seq not in used]
        if journal.left and found:
            on_tip = {e.seq for e in branch((yield from journal.whole()))}
            found = [e for e in found if e.seq in on_tip]
        if not found:
            return None
        if found[0]["prompt"] != ask.prompt:
            raise KeyReusedError(
                f"the question {ask.key!r} was {found[0]['prompt']!r} (record {found[0].seq}); now it is {ask.prompt!r}"
            )
        journal.ledger.claimed.add(found[0].seq)
        return found[0]

    def _wait(self, seqs: list[int], wait_s: float) -> Steps:
        """Returns once all are answered, with the seconds that are left. Raises `Suspended` when the time is over."""
        inbox = self._journal.inbox
        while True:
            answers = yield from _each(Find(answer_mark(seq)) for seq in seqs)
            missing = [seq for seq, found in zip(seqs, answers, strict=True) if not found]
            if missing and wait_s <= 0:
                raise Suspended(tuple(missing))
            if missing and not inbox.waits:
                inbox.waits = tuple(missing)
                yield from self._journal.commit(status("waiting", waits=inbox.waits))
            elif not missing:
                if inbox.waits:
                    inbox.waits = ()
                    yield from self._journal.commit(status("running"))
                return wait_s
            wait_s = yield from inbox.wait(wait_s)


def _each(requests: Iterable[Request]) -> Steps:
    """The answers to several requests."""
    answers = []
    for request in requests:
        answers.append((yield request))  # noqa: PERF401 - no comprehension may yield
    return answers


def _check(asks: Sequence[Ask]) -> None:
    keys = [ask.key for ask in asks if ask.key is not None]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise RefusedError(f"the key {twice!r} is given to two questions; give each its own")


def _draft(ask: Ask, *, why: str | None, about: int | None) -> Draft:
    body = {
        "prompt": ask.prompt,
        "key": ask.key,
        "choices": ask.choices,
        "schema": schema.recorded(ask.schema),
        "refused": why,
        "about": about,
    }
    return Draft("asked", body, (question_mark(ask.key),) if ask.key is not None else ())
