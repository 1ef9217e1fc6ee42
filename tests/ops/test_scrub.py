"""A text that got into a store by mistake goes for good; the log, its points and the run stay."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.cli import main
from perdure.errors import RefusedError
from perdure.log.record import is_replaced
from perdure.stores.contract import Batch, Change
from tests.e2e import bytes_of

CANARY = "k7-Zq9-never-in-a-log-0451"
MASK = "<gone>"


def noise(n: int) -> str:
    return " ".join(f"{n * 31 + i:x}" for i in range(120))


def use(key: str, turn: int) -> dict[str, Any]:
    return {"used": key, "turn": turn}


def refuse(key: str) -> None:
    raise ValueError(f"{key} may not")


def agent(s: perdure.Session) -> Any:
    """Puts the canary into everything that is recorded."""
    s.state["config"] = {"client": {"key": CANARY}, ("tuple", CANARY): {CANARY}, CANARY: 1}
    s.state["messages"] = []
    s.state["large"] = (CANARY + noise(1)) * 300
    for turn in range(30):
        s.state["messages"].append(
            {"role": "user", "text": f"{noise(turn)} use {CANARY}" if turn % 7 == 0 else noise(turn)}
        )
        if turn % 10 == 0:
            s.call(use, CANARY, turn)
        s.save(reason=f"turn {turn} with {CANARY}" if turn == 3 else None)
    s.checkpoint(f"point {CANARY}")
    try:
        s.call(refuse, CANARY)
    except ValueError as error:
        s.state["error"] = str(error)
    said = s.ask(f"Use {CANARY}?", key="use")
    return [said, s.state["config"]["client"]["key"]]


def made(url: str, **options: Any) -> perdure.AgentStore:
    """A store of before, which let everything in: a run that waits, a fork of it, a handle with keyframes."""
    store = perdure.open(url, secrets="allow", **options)
    store.run(agent, "run", input={"key": CANARY}, labels={"who": f"ann {CANARY}"})
    store.fork("run", at=f"point {CANARY}", into="fork", reason=f"try {CANARY}")
    with store.session("handle", append_only=["messages"]) as s:
        s.state["messages"] = [f"{noise(n)} {CANARY if n % 50 == 0 else ''}" for n in range(1500)]
        for n in range(110):
            s.state["messages"].append(noise(n))
            s.save()
    with store.session("handle") as s:
        s.state["note"] = f"after the keyframe {CANARY}"
        s.checkpoint("late")
    store.send("handle", "a message")
    store.send("handle", {"use": CANARY}, key=f"once {CANARY}", by="ann")
    with store.session("other") as s:
        s.state["text"] = "nothing of it"
    return store


URLS = ["sqlite:///store.db", "file:store", "memory:"]


@pytest.fixture(params=URLS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> perdure.AgentStore:
    monkeypatch.chdir(tmp_path)
    return made(request.param)


@pytest.mark.parametrize("options", [{"protocol": "json"}, {"protocol": "protobuf"}, {"keys": bytes(32)}], ids=str)
def test_it_goes_out_of_every_protocol_and_out_of_sealed_stores(options: dict[str, Any], tmp_path: Path) -> None:
    with made(f"sqlite:///{tmp_path}/store.db", **options) as store:
        before = states(store)
        assert store.scrub(CANARY, mask=MASK, dry_run=False).clean
        assert states(store) == {place: replaced(state) for place, state in before.items()}
        assert bytes_of.in_store(CANARY, store) == []
        assert all(store.verify(name).ok for name in ("run", "fork", "handle"))
    assert bytes_of.in_files(CANARY, tmp_path) == []


def states(store: perdure.AgentStore) -> dict[tuple[str, int], Any]:
    """The state at restore points of every session, in between and at the end."""
    points = {info.id: [point.seq for point in store.snapshots(info.id)] for info in store.sessions()}
    return {(name, seq): store.state_at(name, seq) for name, seqs in points.items() for seq in [*seqs[::9], *seqs[-2:]]}


def replaced(value: Any) -> Any:
    """The value with the mask in the place of the canary, by plain Python."""
    if isinstance(value, str):
        return value.replace(CANARY, MASK)
    if isinstance(value, dict):
        return {replaced(key): replaced(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(map(replaced, value))
    return value


def test_it_is_nowhere_and_everything_else_is_as_it_was(store: perdure.AgentStore, tmp_path: Path) -> None:
    before = states(store)
    chains = {head.session: (head.seq, head.chain) for head in store.backend.heads()}
    assert bytes_of.in_store(CANARY, store)
    dry = store.scrub(CANARY, mask=MASK)
    assert dry.dry_run
    assert states(store) == before
    done = store.scrub(CANARY, mask=MASK, dry_run=False)
    assert [(one.session, one.records) for one in done.sessions] == [(one.session, one.records) for one in dry.sessions]
    assert {one.session: one.records > 0 for one in done.sessions} == {
        "run": True,
        "fork": True,
        "handle": True,
        "other": False,
    }
    assert done.clean
    assert done.chunks > 0
    assert bytes_of.in_store(CANARY, store) == []
    assert bytes_of.in_files(CANARY, tmp_path) == []
    assert states(store) == {place: replaced(state) for place, state in before.items()}
    for head in store.backend.heads():
        assert store.verify(head.session).ok, store.verify(head.session).problems
        seq, chain = chains[head.session]
        assert store.backend.read_at(head.session, [seq])[0].chain == chain
    assert store.doctor(deep=True).ok
    again = store.scrub(CANARY, mask=MASK, dry_run=False)
    assert (sum(one.records for one in again.sessions), again.chunks) == (0, 0)
    store.close()
    assert bytes_of.in_files(CANARY, tmp_path) == []


@pytest.mark.parametrize("url", URLS)
def test_a_run_goes_on_and_nothing_happens_twice(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls: Counter[int] = Counter()
    broken = True

    def post(key: str, turn: int) -> str:
        calls[turn] += 1
        return f"{turn} with {key}"

    @perdure.steps
    def worker(s: perdure.Session) -> None:
        turn = s.state.setdefault("turn", 0)
        s.state.setdefault("said", []).append(s.action(post, name="post")(CANARY, turn))
        if turn == 5 and broken:
            raise OSError("cut")
        s.state["turn"] = turn + 1
        if turn == 8:
            s.complete(s.state["said"])

    store = perdure.open(url, secrets="allow")
    assert store.run(worker, "w").status == "failed"
    store.scrub(CANARY, mask=MASK, dry_run=False)
    assert bytes_of.in_store(CANARY, store) == []
    broken = False
    outcome = store.run(worker, "w")
    assert outcome.result == [f"{turn} with {MASK if turn <= 5 else CANARY}" for turn in range(9)]
    assert calls == dict.fromkeys(range(9), 1)


def test_the_handle_goes_on_and_can_be_scrubbed_of_another(store: perdure.AgentStore, tmp_path: Path) -> None:
    store.scrub(CANARY, mask=MASK, dry_run=False)
    with store.session("handle") as s:
        assert s.receive() == "a message"
        assert s.receive() == {"use": MASK}
        s.state["note"] += " second-canary-4711"
        s.save()
    report = store.scrub("second-canary-4711", dry_run=False)
    assert report.clean
    assert bytes_of.in_store("second-canary", store) == []
    assert store.state_at("handle")["note"] == f"after the keyframe {MASK} [secret]"
    assert store.gc("handle", keep_last=1, dry_run=False).sessions[0].records > 0
    assert store.verify("handle").ok


def test_a_body_that_was_replaced_without_a_record_is_damage(store: perdure.AgentStore) -> None:
    store.scrub(CANARY, mask=MASK, dry_run=False)
    backend = store.backend
    victim = next(r for r in backend.read("handle") if is_replaced(r.body) and r.kind == "saved")
    other = next(r for r in backend.read("handle") if is_replaced(r.body) and r.kind == "saved" and r.seq != victim.seq)
    swapped = victim.body[:34] + other.body[34:]
    head, lease = backend.head("handle"), backend.lease("handle")
    backend.amend(
        "handle", Batch(()), Change(bodies=((victim.seq, swapped),)), seen=lease, head=head.seq, family=["handle"]
    )
    report = store.verify("handle")
    assert [problem.seq for problem in report.problems][:1] == [victim.seq]


def test_who_holds_one_keeps_the_family_as_it_is(store: perdure.AgentStore) -> None:
    before = len(bytes_of.in_store(CANARY, store))
    with store.session("held") as s:
        s.state["x"] = CANARY
        s.save()
        report = store.scrub(CANARY, dry_run=False)
        alone = {one.session: bool(one.left_alone) for one in report.sessions}
        assert alone == {"run": False, "fork": False, "handle": False, "other": False, "held": True}
        assert not report.clean
    assert 0 < len(bytes_of.in_store(CANARY, store)) < before
    assert store.scrub(CANARY, dry_run=False).clean
    assert bytes_of.in_store(CANARY, store) == []


def test_what_it_cannot_replace_it_names_and_leaves(tmp_path: Path) -> None:
    store = perdure.open(f"sqlite:///{tmp_path}/s.db", secrets="allow")
    with store.session("keyed") as s:
        s.action(use, key=CANARY)("x", 1)
    with store.session(f"s-{CANARY}") as s:
        s.state["x"] = 1
    said = {one.session: one.left_alone for one in store.scrub(CANARY, dry_run=False).sessions}
    assert "key of action" in said["keyed"]
    assert "id of a session" in said[f"s-{CANARY}"]
    for wrong in ("short", "x" + MASK):
        with pytest.raises(RefusedError):
            store.scrub(wrong, mask="x" + MASK)


@pytest.mark.parametrize("url", ["sqlite:///store.db", "file:store"])
def test_it_can_be_moved_afterwards(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with made(url) as store:
        store.scrub(CANARY, mask=MASK, dry_run=False)
        store.export_file("handle", "handle.perdure")
        state = store.state_at("handle")
        with perdure.open("sqlite:///elsewhere.db") as elsewhere:
            elsewhere.import_file("handle.perdure")
            assert elsewhere.state_at("handle") == state
            assert elsewhere.verify("handle").ok
    assert bytes_of.in_files(CANARY, tmp_path) == []


class Killed(BaseException):
    """The end of the process, as far as this test goes."""


@pytest.mark.parametrize("url", ["sqlite:///store.db", "file:store"])
def test_killed_at_each_point_it_is_done_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = made(url)
    before = states(store)
    store.close()
    kills: Counter[str] = Counter()

    def killed(point: str, *, after: int) -> None:
        def kill(reached: str) -> None:
            nonlocal after
            after -= reached == point
            if after < 0:
                raise Killed

        monkeypatch.setattr(faults, "hook", kill)
        with perdure.open(url, secrets="allow") as store:
            try:
                store.scrub(CANARY, mask=MASK, dry_run=False)
            except Killed:
                kills[point] += 1
            monkeypatch.setattr(faults, "hook", None)
            assert all(store.verify(name).ok for name in ("run", "fork", "handle"))

    killed("amend.inside", after=0)
    killed("sweep.inside", after=0)
    killed("scrub.session", after=0)
    killed("amend.inside", after=0)
    killed("scrub.swept", after=1)
    if url.startswith("file"):
        killed("purge.inside", after=1)
    assert kills.keys() >= {"amend.inside", "scrub.session", "sweep.inside", "scrub.swept"}
    assert ("purge.inside" in kills) == url.startswith("file")
    with perdure.open(url, secrets="allow") as store:
        assert store.scrub(CANARY, mask=MASK, dry_run=False).clean
        assert states(store) == {place: replaced(state) for place, state in before.items()}
        assert bytes_of.in_store(CANARY, store) == []
        assert all(store.verify(name).ok for name in ("run", "fork", "handle"))
    assert bytes_of.in_files(CANARY, tmp_path) == []


def say(*words: str) -> None:
    with contextlib.suppress(SystemExit):
        main(list(words))


def test_the_command_tells_first_and_shows_it_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OLD_KEY", CANARY)
    made("sqlite:///perdure.db").close()
    on = ["--store", "sqlite:///perdure.db", "--secret", "secret://env/OLD_KEY"]
    say("scrub", *on)
    told = capsys.readouterr().out
    assert "say --yes" in told
    say("scrub", *on, "--yes")
    done = capsys.readouterr()
    assert "do not any more" in done.out
    assert CANARY not in told + done.out + done.err
    assert bytes_of.in_files(CANARY, tmp_path) == []
    say("scrub", "run", *on, "--json")
    assert '"records": 0' in capsys.readouterr().out
