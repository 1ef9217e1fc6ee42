"""Random small teams, broken off at random places, against a model of them that is written apart."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure.team import Action, Message, Role, Team, UserRequirement, agent, rounds
from perdure.testing.lives import forked

KINDS = ("K0", "K1", "K2", "K3")
IDEA = "Idea"
FULL = os.environ.get("PERDURE_STORM") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 120)

faults: dict[int, str] = {}
"""What happens at which of the actions of a process, counted from 0: it fails, or the process is killed."""
count = 0


def act(kind: str) -> None:
    global count
    number, count = count, count + 1
    what = faults.get(number)
    if what == "kill":
        os.kill(os.getpid(), 9)
    if what == "fail":
        raise RuntimeError(kind)


class Kind(Action):
    to: Any = None

    async def run(self, history: list[Message]) -> Message:
        act(type(self).__name__)
        told = f"{type(self).__name__}<{history[-1].content[:40]}"
        return Message(told, cause_by=self, send_to=set(self.to), sent_from="x", role=type(self).__name__)


CLASSES = {name: type(name, (Kind,), {"__module__": __name__, "__annotations__": {}}) for name in KINDS}


@dataclass(frozen=True)
class Member:
    """A role: which kinds of action it has, in order, what it watches, to whom its messages go."""

    name: str
    kinds: tuple[str, ...]
    watches: tuple[str, ...]
    to: tuple[str, ...]


NAMES = ("Ann", "Bob", "Cid")
MEMBERS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
        st.lists(st.sampled_from([IDEA, *KINDS]), min_size=1, max_size=3, unique=True),
        st.lists(st.sampled_from(["<all>", "<self>", *NAMES]), min_size=1, max_size=2, unique=True),
    ),
    min_size=1,
    max_size=3,
).map(lambda told: [Member(NAMES[i], tuple(k), tuple(w), tuple(t)) for i, (k, w, t) in enumerate(told)])
FAULTS = st.lists(
    st.dictionaries(st.integers(0, 6), st.sampled_from(["fail", "kill"]), min_size=1, max_size=2), max_size=3
)
ROUNDS = 4


# --- the model --------------------------------------------------------------------------------------------------------


@dataclass
class Simple:
    """Who runs which action in which round on how many messages: as the documents say it, in few words."""

    members: list[Member]
    said: list[str] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    acted: list[tuple[str, int]] = field(default_factory=list)

    def play(self) -> None:
        texts, causes = ["go"], [IDEA]
        inbox: dict[str, list[int]] = {member.name: [0] for member in self.members}
        published = [0]
        for _ in range(ROUNDS):
            if not any(inbox.values()):
                break
            sent: list[tuple[Member, int]] = []
            for member in self.members:
                came, inbox[member.name] = inbox[member.name], []
                mine = self.memory[member.name]
                new = [number for number in came if number not in mine]
                mine += new
                news = [n for n in new if causes[n] in member.watches or self.is_to(member, n)]
                if not news:
                    continue
                for kind in member.kinds:
                    self.acted.append((kind, len(mine)))
                    texts.append(f"{kind}<{texts[mine[-1]][:40]}")
                    causes.append(kind)
                    self.to[len(texts) - 1] = (member, member.to)
                    mine.append(len(texts) - 1)
                sent.append((member, len(texts) - 1))
            for member, number in sent:
                published.append(number)
                for other in self.members:
                    if self.is_sent(member, other):
                        inbox[other.name].append(number)
        self.said = [texts[number] for number in published]

    to: dict[int, Any] = field(default_factory=dict)

    def is_to(self, member: Member, number: int) -> bool:
        """Whether a message names this member."""
        if number not in self.to:
            return False
        sender, to = self.to[number]
        return member.name in to or ("<self>" in to and member is sender)

    def is_sent(self, sender: Member, other: Member) -> bool:
        if "<self>" in sender.to:
            return other is sender
        return "<all>" in sender.to or other.name in sender.to


# --- the team ---------------------------------------------------------------------------------------------------------


def hired(members: list[Member]) -> Any:
    watched = {IDEA: UserRequirement, **CLASSES}

    def hire() -> Team:
        roles = []
        for member in members:
            kind = type(member.name, (Role,), {"__module__": __name__, "__annotations__": {}})
            role = kind(name=member.name, profile=member.name)
            role.set_actions([CLASSES[name](to=list(member.to)) for name in member.kinds])
            role._watch([watched[name] for name in member.watches])
            role._set_react_mode("by_order")
            roles.append(role)
        return Team(roles=roles)

    return agent(hire)


def life(folder: Path, members: list[Member], broken: dict[int, str]) -> None:
    """A process that runs it once, with these faults."""

    def told() -> bytes:
        faults.clear()
        faults.update(broken)
        with perdure.open(folder / "agents.db") as store:
            store.run(hired(members), "s", input={"idea": "go", "n_round": ROUNDS})
        return b""

    forked(told)


@pytest.mark.storm
@settings(max_examples=400 if FULL else 10)
@given(members=MEMBERS, broken=FAULTS)
def test_a_random_team_does_what_the_model_does(
    members: list[Member], broken: list[dict[int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(members, broken, tmp_path_factory.mktemp("team"))


def test_a_build_that_loses_an_inbox_does_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [Member("Ann", ("K0",), (IDEA,), ("<all>",)), Member("Bob", ("K1",), ("K0",), ("<all>",))]
    broken = [{1: "kill"}]
    check(members, broken, tmp_path)
    put_in = rounds.put_in

    def wrong(env: Any, state: Any) -> Any:
        table = put_in(env, state)
        env.roles["Bob"].rc.msg_buffer = []
        return table

    monkeypatch.setattr(rounds, "put_in", wrong)
    (tmp_path / "wrong").mkdir()
    with pytest.raises(AssertionError):
        check(members, broken, tmp_path / "wrong")


def check(members: list[Member], broken: list[dict[int, str]], folder: Path) -> None:
    """Plays them with these faults, one life each, and then to the end."""
    model = Simple(members)
    model.play()
    os.chdir(folder)
    for faulty in broken:
        life(folder, members, faulty)
    life(folder, members, {})
    with perdure.open(folder / "agents.db") as store:
        state, log = store.state_at("s"), list(store.log("s"))
    texts = [message["content"] for message in state["messages"]]
    assert [texts[number] for number in state["history"]] == model.said
    starts = [entry["name"] for entry in log if entry.kind == "action_started" and entry["of"] is None]
    assert Counter(name for name in starts if name in KINDS) == Counter(kind for kind, _ in model.acted)
    for member in members:
        mine = [texts[number] for number in state["memories"][member.name]["memory"]]
        assert len(mine) == len(model.memory[member.name]), member
