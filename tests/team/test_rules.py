"""What a team keeps over an interruption, and what it refuses: one rule each."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

import perdure
from perdure import values
from perdure.errors import BudgetError, HeldError, InvalidOutputError, RefusedError
from perdure.models import ScriptedModel
from perdure.team import Action, Message, Role, Team, UserRequirement, agent, stored
from perdure.testing import crash_everywhere
from tests.crash import outside
from tests.crash.outside import happens

ran: Counter[str] = Counter()
broken: set[str] = set()


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    ran.clear()
    broken.clear()
    with perdure.open("memory:") as opened:
        yield opened


class Say(Action):
    """Says what it was given last; counts, and fails while it is broken."""

    async def run(self, history: list[Message]) -> Any:
        ran[self.name] += 1
        if self.name in broken:
            raise RuntimeError(f"{self.name} is broken")
        return f"{self.name} of {len(history)}"


class First(Say):
    pass


class Second(Say):
    pass


class Third(Say):
    pass


class Last(Say):
    pass


def role(profile: str, action: Any, *watched: Any, kind: type[Role] = Role, **fields: Any) -> Role:
    made = kind(name=profile, profile=profile, **fields)
    made.set_actions(action if isinstance(action, list) else [action])
    made._watch(watched)
    return made


def play(store: perdure.AgentStore, *roles: Role, n_round: int = 10, **options: Any) -> Team:
    team = Team(roles=roles, store=store, workspace="w", **options)
    team.run_project("go")
    asyncio.run(team.run(n_round=n_round))
    return team


# --- what is observed, remembered and chosen again -------------------------------------------------------------------


def test_all_that_was_observed_is_observed_again(store: perdure.AgentStore) -> None:
    def team() -> list[Role]:
        makers = [role(kind.__name__, kind, UserRequirement) for kind in (First, Second, Third)]
        return [*makers, role("Join", Last, First, Second, Third)]

    broken.add("Last")
    with pytest.raises(RuntimeError, match="Last is broken"):
        play(store, *team())
    broken.clear()
    again = play(store, *team())
    assert again.env.published[-1].content == "Last of 4"
    assert ran == {"First": 1, "Second": 1, "Third": 1, "Last": 2}


class Joining(Role):
    """Waits until three have come, however late they are."""

    async def _observe(self) -> int:
        came = await super()._observe()
        return came if len(self.rc.memory.get_by_actions([First, Second, Third])) == 3 else 0


class Joined(Action):
    effect: ClassVar[str] = "once"

    async def run(self, history: list[Message]) -> str:
        happens("Joined")
        return f"joined {sorted(m.content for m in history[1:])}"


class Send(First):
    effect: ClassVar[str] = "once"


@pytest.mark.parametrize(
    ("settled", "content"),
    [("sent by hand", "sent by hand"), ({"output": "sent"}, "{'output': 'sent'}"), (None, "")],
)
def test_what_a_person_says_an_action_returned_is_what_it_returned(
    store: perdure.AgentStore, settled: Any, content: str
) -> None:
    made = agent(lambda: Team(roles=[role("A", Send, UserRequirement), role("B", Second, Send)]))
    broken.add("Send")
    assert store.run(made, "s", input="go").status == "failed"
    waits = store.run(made, "s")
    assert waits.status == "waiting"
    store.settle("s", waits.questions[0].seq, "done", result=settled)
    ended = store.run(made, "s")
    assert (ended.status, ended.result) == ("completed", "Second of 2")
    sent = [message for message in store.state_at("s")["messages"] if message["role"] == "A"]
    assert [message["content"] for message in sent] == [content]
    assert ran == {"Send": 1, "Second": 1}


@pytest.mark.storm
def test_a_join_of_three_that_come_one_after_the_other_fires_once_with_three() -> None:
    def team() -> Team:
        return Team(
            roles=[
                role("A", First, UserRequirement),
                role("B", Second, First),
                role("C", Third, Second),
                role("Join", Joined, First, Second, Third, kind=Joining),
            ]
        )

    report = crash_everywhere(
        agent(team), input="go", effects=outside.effects, fresh=outside.clear, points=["effect.after"]
    )
    assert report.killed["effect.after"] > 12


class Deaf(Role):
    """Takes what comes, and nothing of it concerns it."""

    async def _observe(self) -> int:
        await super()._observe()
        return 0


class Whisper(Say):
    async def run(self, history: list[Message]) -> Message:
        return Message(await super().run(history), cause_by=Whisper, send_to={"B"})


def test_a_role_takes_a_turn_when_something_came_and_not_for_what_it_left(store: perdure.AgentStore) -> None:
    """Also one whose own code leaves news unanswered: a process that goes on would not know of them."""
    deaf = role("Deaf", First, UserRequirement, kind=Deaf)
    play(store, deaf, role("A", Whisper, UserRequirement), role("B", Last, Whisper))
    rounds = [e["args"]["round"] for e in store.log("team") if e.kind == "action_started" and e["name"] == "Deaf"]
    assert [values.decode(each) for each in rounds] == [1, 3]


class Listener(Role):
    """What it watches it decides in its constructor, and then anew."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Subscribe, Third])
        self._watch([UserRequirement])
        self._set_react_mode("by_order")


class Subscribe(Action):
    async def run(self, history: list[Message]) -> str:
        self._role._watch([Second])
        return "subscribed"


def test_subscriptions_and_the_message_that_waits_are_those_of_the_interruption(store: perdure.AgentStore) -> None:
    def team() -> list[Role]:
        return [role("A", First, UserRequirement), role("B", Second, First), Listener(profile="L")]

    broken.add("Second")
    with pytest.raises(RuntimeError, match="Second is broken"):
        play(store, *team())
    broken.clear()
    again = play(store, *team())
    listener = again.env.roles["L"]
    assert listener.rc.watch == {f"{__name__}.Second"}
    assert [m.content for m in again.env.published if m.sent_from.endswith("Listener")] == ["Third of 2", "Third of 6"]
    assert ran["Third"] == 2


# --- fields ----------------------------------------------------------------------------------------------------------


OPEN: list[Any] = []
"""The file that a holder holds."""


@pytest.fixture
def _a_file() -> Iterator[None]:
    with Path(__file__).open() as file:
        OPEN.append(file)
        yield
    OPEN.clear()


class Holder(Role):
    """Has what can be stored, and what cannot."""

    classes: Any = None
    key: Any = None
    file: Any = None
    count: int = 0

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Touch])
        self.classes, self.key, self.file = [Say], lambda x: x, OPEN[-1]

    async def _act(self) -> Message:
        self.count += 1
        return await super()._act()


class Touch(Say):
    async def run(self, history: list[Message]) -> Any:
        self.i_context = [*(self.i_context or []), len(history)]
        self.callback = print
        return await super().run(history)


@pytest.mark.usefixtures("_a_file")
def test_what_cannot_be_stored_is_named_once_and_the_rest_is_saved(
    store: perdure.AgentStore, caplog: pytest.LogCaptureFixture
) -> None:
    stored.unstored.clear()
    with caplog.at_level(logging.WARNING, logger="perdure.team.stored"):
        play(store, Holder(profile="H"), role("B", Last, Touch), n_round=1)
        broken.add("Last")
        with pytest.raises(RuntimeError):
            play(store, holder := Holder(profile="H"), role("B", Last, Touch))
    told = [record.args[:2] for record in caplog.records if isinstance(record.args, tuple)]
    assert sorted(told) == [("Holder", "classes"), ("Holder", "file"), ("Holder", "key"), ("Touch", "callback")]
    broken.clear()
    again = play(store, holder := Holder(profile="H"), role("B", Last, Touch))
    assert holder.count == 1
    assert holder.classes == [Say]
    assert holder.key(1) == 1
    assert holder.actions[0].i_context == [1]
    assert {"H.classes", "H.key", "H.file"} <= set(again.unsaved)


class Facts(BaseModel):
    n: int
    names: list[str]


class Plain(Say):
    async def run(self, history: list[Message]) -> Message:
        await super().run(history)
        return Message("plain", instruct_content={"n": 1, "more": {"a": [1, 2]}}, cause_by=self)


class Typed(Say):
    async def run(self, history: list[Message]) -> Facts:
        await super().run(history)
        return Facts(n=len(history), names=[m.content for m in history])


def test_contents_are_what_they_were(store: perdure.AgentStore) -> None:
    def team() -> list[Role]:
        return [role("A", Plain, UserRequirement), role("B", Typed, Plain), role("C", Last, Typed)]

    broken.add("Last")
    with pytest.raises(RuntimeError):
        play(store, *team())
    broken.clear()
    again = play(store, *team())
    plain, typed = again.env.published[1:3]
    assert plain.instruct_content == {"n": 1, "more": {"a": [1, 2]}}
    assert typed.instruct_content == Facts(n=2, names=["go", "plain"])
    assert (ran["Plain"], ran["Typed"]) == (1, 1)


class Adding(Say):
    """Gives its role another action, of a kind that its constructor does not know."""

    async def run(self, history: list[Message]) -> Any:
        said = await super().run(history)
        self._role.set_actions([Adding(name="Again", desc="changed"), Third])
        return said


def test_actions_that_a_role_was_given_later_are_there(store: perdure.AgentStore) -> None:
    def team() -> list[Role]:
        return [role("A", Adding, UserRequirement), role("B", Last, Adding)]

    broken.add("Last")
    with pytest.raises(RuntimeError):
        play(store, *team())
    broken.clear()
    again = play(store, *team())
    actions = again.env.roles["A"].actions
    assert [(type(action), action.name, action.desc) for action in actions] == [
        (Adding, "Again", "changed"),
        (Third, "Third", ""),
    ]


class Reading(Say):
    async def run(self, history: list[Message]) -> str:
        await super().run(history)
        return str(self.context["language"])


class Closing(Reading):
    pass


def test_a_prepared_context_is_there_for_all(store: perdure.AgentStore) -> None:
    def team() -> list[Role]:
        return [role("A", Reading, UserRequirement), role("B", Last, Reading), role("C", Closing, Last)]

    broken.add("Last")
    with pytest.raises(RuntimeError):
        play(store, *team(), context={"language": "en"})
    broken.clear()
    again = play(store, *team(), context={"language": "fr"})
    assert [m.content for m in again.env.published] == ["go", "en", "Last of 2", "fr"]


# --- changed code ----------------------------------------------------------------------------------------------------


def test_a_role_that_is_gone_or_called_otherwise_is_named(store: perdure.AgentStore) -> None:
    play(store, role("A", First, UserRequirement), role("B", Second, First), n_round=1)
    for others in ([], [role("Renamed", Second, First)]):
        with pytest.raises(RefusedError, match="hire: B"):
            play(store, role("A", First, UserRequirement), *others)
    again = play(store, role("A", First, UserRequirement), role("B", Second, First))
    assert [m.content for m in again.env.published] == ["go", "First of 1", "Second of 2"]


def test_a_role_that_is_new_takes_part_from_now_on(store: perdure.AgentStore) -> None:
    play(store, role("A", First, UserRequirement), role("B", Second, First), n_round=1)
    team = [role("New", Third, Second), role("A", First, UserRequirement), role("B", Second, First)]
    again = play(store, *team)
    assert [m.content for m in again.env.published] == ["go", "First of 1", "Second of 2", "Third of 1"]
    assert store.state_at("team")["memories"]["New"]["memory"] == [2, 3]


def test_a_second_run_of_one_session_is_refused(tmp_path: Path) -> None:
    refused: list[BaseException] = []

    class Meddle(Action):
        async def run(self, history: list[Message]) -> str:
            other = Team(roles=[role("A", Meddle, UserRequirement)], store=str(tmp_path / "a.db"), workspace="other")
            other.run_project("go")
            try:
                await other.run()
            except HeldError as error:
                refused.append(error)
            return "meddled"

    team = Team(roles=[role("A", Meddle, UserRequirement)], store=str(tmp_path / "a.db"), workspace="w")
    team.run_project("go")
    asyncio.run(team.run())
    assert len(refused) == 1
    assert [m.content for m in team.env.published] == ["go", "meddled"]


# --- models and money ------------------------------------------------------------------------------------------------


class Ask(Action):
    async def run(self, history: list[Message]) -> str:
        said = await self._aask(f"what about {history[-1].content}?")
        happens("Ask")
        return said


class Pass(Ask):
    pass


class Close(Ask):
    pass


def spending() -> Team:
    model = ScriptedModel(
        [
            {"match": "about go", "reply": "one", "tokens": {"in": 10, "out": 2}, "usd": 1.25},
            {"match": "about one", "reply": "two", "tokens": {"in": 20, "out": 4}, "usd": 1.0},
            {"match": "about two", "reply": "three", "tokens": {"in": 30, "out": 6}, "usd": 0.25},
        ]
    )
    roles = [role("A", Ask, UserRequirement), role("B", Pass, Ask), role("C", Close, Pass)]
    return Team(roles=roles, model=model, investment=2.0)


@pytest.mark.storm
def test_what_was_spent_goes_on_after_a_kill_and_the_budget_stops_it() -> None:
    """1.25 of 2.00, and 1.00: it stops at 2.25, and goes on with more money. In each life the same."""
    report = crash_everywhere(
        agent(spending),
        input="go",
        messages=[{"investment": 1.0}],
        points=["effect.after"],
    )
    assert report.killed["effect.after"] > 9


def test_money_that_is_spent_stops_it_until_there_is_more() -> None:
    with perdure.open("memory:") as store:
        stopped = store.run(agent(spending), "s", input="go")
        assert stopped.status == "idle"
        assert store.state_at("s")["team"]["spent"] == {"tokens_in": 30, "tokens_out": 6, "usd": 2.25}
        team = spending()
        team.run_project("go")
        team.session, team._store = "s", store
        with pytest.raises(BudgetError, match=r"2\.25 of 2 USD"):
            asyncio.run(team.run())
        store.send("s", {"investment": 1.0})
        assert store.run(agent(spending), "s").result == "three"
        assert store.state_at("s")["team"]["spent"]["usd"] == 2.5


class Count(Action):
    async def run(self, history: list[Message]) -> str:
        facts = await self.ask("how many?", Facts)
        return f"{facts.n}"


def counting(*replies: Any) -> Team:
    model = ScriptedModel([{"reply": reply, "usd": 0.5, "tokens": {"in": 5, "out": 1}} for reply in replies])
    return Team(roles=[role("A", First, UserRequirement), role("B", Count, First)], model=model)


def test_an_unusable_reply_is_shown_to_the_model_and_then_fails(store: perdure.AgentStore) -> None:
    good = {"n": 3, "names": []}
    assert store.run(agent(lambda: counting("three", {"n": "x"}, good)), "a", input="go").result == "3"
    assert store.state_at("a")["team"]["spent"]["usd"] == 1.5
    asked = [str(e["args"]) for e in store.log("a") if e.kind == "action_started" and "how many?" in str(e["args"])]
    assert ["Input should be" in each for each in asked] == [False, False, True]

    def bad() -> Team:
        return counting("one", "two", "three", good)

    failed = store.run(agent(bad), "b", input="go")
    assert failed.status == "failed"
    assert isinstance(failed.error, InvalidOutputError)
    again = store.run(agent(bad), "b", input="go")
    assert (again.status, again.result) == ("completed", "3")
    assert ran["First"] == 2
    assert store.state_at("b")["team"]["spent"]["usd"] == 2.0


def test_what_is_sent_before_a_team_is_done_is_taken_before_it_completes(store: perdure.AgentStore) -> None:
    made = agent(lambda: Team(roles=[role("A", First, UserRequirement), role("B", Second, First)]))
    assert store.run(made, "s", input={"idea": "go", "n_round": 1}).status == "idle"
    for sent in ({"rounds": 9}, "one more", 3, {"investment": 1}, "and another"):
        store.send("s", sent)
    outcome = store.run(made, "s")
    assert (outcome.status, outcome.result) == ("completed", "Second of 8")
    state = store.state_at("s")
    said = [state["messages"][number]["content"] for number in state["history"]]
    assert said == [
        "go", "First of 1", "Second of 2", "one more", "First of 4", "Second of 5", "and another", "First of 7",
        "Second of 8",
    ]  # fmt: skip
    assert (state["team"]["investment"], state["team"]["passed_over"]) == (11.0, 1)
    assert store.replay("s", made).difference is None
    assert "has_message" not in [entry["kind"] for entry in store.log("s") if entry.kind == "value"], (
        "older logs replay"
    )
