"""An owner writes through two tiers while things happen at named instants; and what must be true of it afterwards.

Everything happens in one thread and two places in memory: an instant is a `tier.…` point of `faults` that the owner's
work reaches, and what happens there is done to the end before the work goes on, or instead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from perdure import faults
from perdure.errors import PerdureError
from perdure.log import GENESIS, verified
from perdure.stores import Base, Batch, Change
from perdure.stores.tiered import TieredStore
from perdure.stores.tiered.carrying import freeze
from tests.tiered.bench import Owner, Place, bodies, next_record, tiered

_NAMES: Final = count()


class KilledError(BaseException):
    """The owner's process ends here."""


@dataclass(slots=True)
class World:
    """Two places, the owner under test and whoever came after it."""

    settings: dict[str, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"world-{next(_NAMES)}")
    owners: list[Owner] = field(default_factory=list)
    plan: list[tuple[int, str]] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    dumped: dict[str, Any] = field(default_factory=dict)
    stores: list[TieredStore] = field(default_factory=list)
    was_told: bool = False
    forks: dict[str, list[bytes]] = field(default_factory=dict)

    def hot(self) -> Place:
        """A handle of its own, as each process has one."""
        return Place(f"{self.name}-hot")

    def cold(self) -> Place:
        """The same."""
        return Place(f"{self.name}-cold")

    def store(self) -> TieredStore:
        """The two of them, as another process opens them."""
        made = tiered(self.hot(), self.cold(), **self.settings)
        self.stores.append(made)
        return made

    @property
    def first(self) -> Owner:
        """The owner under test."""
        return self.owners[0]

    def end(self) -> None:
        """Nothing stays of it."""
        for store in self.stores:
            store._writes.copier.end()
        self.hot().lose_everything()
        self.cold().lose_everything()


def steal(world: World) -> None:
    """Another owner takes the session and writes."""
    other = Owner(world.store(), name=f"other {len(world.owners)}")
    world.owners.append(other)
    other.open()
    for number in range(1, 4):
        other.save(b"%s save %d" % (other.name.encode(), number))


def take_only(world: World) -> None:
    """Another owner takes the session, and dies before it has written anything."""
    store = world.store()
    store.claim("s", owner="other", seen=store.lease("s"))


def open_only(world: World) -> None:
    """Another owner takes the session, and does not get further."""
    other = Owner(world.store(), name=f"other {len(world.owners)}")
    world.owners.append(other)
    other.open()


def freeze_only(world: World) -> None:
    """Somebody is about to take the session, has frozen hot, and dies."""
    freeze(world.store()._tiers, "s")


def steal_from_cold(world: World) -> None:
    """Another owner takes the session, without hot."""
    other = Owner(world.cold(), name=f"cold {len(world.owners)}")
    world.owners.append(other)
    other.open()
    other.save(b"%s save 1" % other.name.encode())


def fork(world: World) -> None:
    """Somebody makes a fork of the end of the session: what it begins with stays."""
    store, name = world.store(), f"f{len(world.forks)}"
    head = store.head("s")
    record = next_record(name, (head.seq, head.chain), b"fork", kind="opened")
    store.fork(name, Batch((record,)), base=Base("s", head.seq), epoch=1)
    world.forks[name] = bodies(store, name)


def read(world: World) -> None:
    """Somebody reads all of it: what was acknowledged is there."""
    store = world.store()
    found = bodies(store)
    assert [point.seq for point in store.points("s")] == [*range(1, len(found) + 1)]
    if world.happened == ["read"]:
        assert found[: len(world.first.acknowledged)] == world.first.acknowledged


def evict(world: World) -> None:
    """Everything that may leave hot leaves it."""
    store = tiered(world.hot(), world.cold(), **world.settings | {"hot_bytes": 0, "hot_age_s": 0.0})
    world.stores.append(store)
    store.evict()


def amend(world: World) -> None:
    """Somebody drops the first body."""
    store = world.store()
    lease, head = store.lease("s"), store.head("s").seq
    store.amend("s", Batch(()), Change(bodies=((1, b"owned by owner"),)), seen=lease, head=head, family=["s"])


def lose(world: World) -> None:
    """Hot is started again, with nothing."""
    world.hot().lose_everything()


def go_stale(world: World) -> None:
    """Hot is started again, from an older copy of itself."""
    world.hot().load(world.dumped)


def dump(world: World) -> None:
    """That copy is made."""
    world.dumped = world.hot().dump()


def cut_off(world: World) -> None:
    """The owner does not reach hot any more; others do."""
    world.stores[0]._hot.is_away = True  # type: ignore[attr-defined]


def kill(world: World) -> None:
    """The owner's process ends."""
    raise KilledError


HAPPENINGS: Final[tuple[Callable[[World], None], ...]] = (
    *(
        steal,
        open_only,
        take_only,
        freeze_only,
        steal_from_cold,
        fork,
        read,
        evict,
        amend,
        lose,
        dump,
        go_stale,
        cut_off,
        kill,
    ),
)


def may_lose(world: World) -> bool:
    """Whether what was acknowledged may be lost: hot lost it, and who had it is gone; or hot was not asked."""
    happened = {*world.happened}
    is_hot_less = bool(happened & {"lose", "go_stale"})
    return "steal_from_cold" in happened or (
        is_hot_less and bool(happened & {"kill", "steal", "open_only", "take_only"})
    )


def work(world: World) -> None:
    """What the owner does: saves that hot acknowledges, and copies in between."""
    store = world.store()
    owner = Owner(store)
    world.owners.append(owner)
    owner.open()
    for number in range(1, 4):
        owner.save(b"owner save %d" % number)
    _copy(store)
    for number in range(4, 7):
        owner.save(b"owner save %d" % number)
    _copy(store)
    owner.save(b"owner save 7")
    assert owner.lease is not None
    store.release(owner.lease)


def _copy(store: TieredStore) -> None:
    """A round of the copier, here and now."""
    writes: Any = store._writes
    writes._copy(writes.lines.all())


def run(world: World, plan: Sequence[tuple[int, Callable[[World], None]]]) -> list[str]:
    """Works, with each thing happening when so many points were reached. The points that were."""
    reached: list[str] = []
    world.plan = [(when, happening.__name__) for when, happening in plan]

    def at(point: str) -> None:
        if not point.startswith("tier."):
            return
        reached.append(point)
        with no_hook():
            for when, happening in plan:
                if when == len(reached):
                    world.happened.append(happening.__name__)
                    with suppress(PerdureError):
                        happening(world)

    faults.hook = at
    try:
        work(world)
    except KilledError:
        pass
    except PerdureError:
        world.was_told = True
    finally:
        faults.hook = None
    return reached


class no_hook:  # noqa: N801 - it is used as a word
    """Within it nothing happens."""

    def __enter__(self) -> None:
        self.hook, faults.hook = faults.hook, None

    def __exit__(self, *_: object) -> None:
        faults.hook = self.hook


def check(world: World) -> None:
    """What is true whatever happened."""
    if "kill" not in world.happened:
        try:
            world.stores[0].close()
        except PerdureError:
            world.was_told = True
    last = Owner(world.store(), name="last").open()
    last.save(b"last save 1")
    log = list(verified(last.store.read("s"), session="s", after=0, previous=GENESIS)) if _is_whole(world) else None
    found = bodies(last.store)
    last.store.close()
    cold = world.cold()
    assert bodies(cold) == found, "cold has all that was acknowledged, in the end"
    assert log is None or [record.seq for record in log] == [*range(1, len(found) + 1)]
    epochs = [record.epoch for record in cold.read("s")]
    assert epochs[-1] == max(epochs)
    owners = [_by(body) for body in found[:-2]]
    assert owners == sorted(owners, key=owners.index), "who wrote before another owner never writes after it"
    for owner in world.owners:
        written = [body for body in found if _by(body) == owner.name]
        assert written[: len(owner.acknowledged)] == owner.acknowledged[: len(written)], "what is there is a beginning"
        assert len(written) <= len(owner.acknowledged) + 1
        if owner.name.startswith("cold") or not may_lose(world):
            assert len(written) >= len(owner.acknowledged), "nothing that was acknowledged is lost"
    lost = len(world.first.acknowledged) > sum(_by(body) == "owner" for body in found)
    assert not lost or world.was_told or "kill" in world.happened, "an owner hears of what is lost"
    for name, begun in world.forks.items():
        assert bodies(cold, name) == begun, "a fork is what it was"


def _by(body: bytes) -> str:
    """Who wrote it: bodies are "owned by NAME" and "NAME save NUMBER"."""
    text = body.decode()
    return text.removeprefix("owned by ") if text.startswith("owned") else text.rpartition(" save ")[0]


def _is_whole(world: World) -> bool:
    return "amend" not in world.happened
