"""The whole life of a program, through crashes, failures and questions to its end; and how two lives compare.

A crash is an exception at an instant of the world: the session object is lost, the store and the world stay.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import perdure
from perdure.errors import RecordedError, SuspendedError
from perdure.recovery import SavePolicy
from perdure.runtime.store import AgentStore
from perdure.session.parallel import THREAD
from perdure.stores import open_store
from perdure.stores.contract import Store
from tests.instants import FULL
from tests.property import loops
from tests.property.programs import Op, Program, perform
from tests.property.worlds import Broken, Crash, Endless, LostReply, World, canonical, living

RUNS_MAX = 60
AGAIN_MAX = 3
SESSION = "life"


@dataclass(frozen=True)
class End:
    """What is left when a program is over. `points` are the names of the restore points of its branch, for people."""

    status: str
    result: str
    state: str
    effects: tuple[Any, ...]
    announced: str
    misuse: tuple[str, ...]
    asked: tuple[str, ...]
    instants: int
    alike: frozenset[int] = frozenset()


def until_all_have_died() -> None:
    """A process that ends takes its threads with it: those of parallel blocks end at their next instant."""
    for thread in threading.enumerate():
        if thread.name.startswith(THREAD):
            thread.join()


@dataclass
class _Life:
    program: Program
    store: AgentStore
    world: World
    in_loop: bool = False
    changed: bool = False
    renewing: bool = False
    saves: SavePolicy | None = None
    version: int = 0
    again: int = 0
    status: str = "stuck"
    result: Any = None

    def code(self) -> tuple[Op, ...]:
        changed = self.program.changed
        return changed if self.changed and changed is not None else self.program.ops

    @property
    def named(self) -> str:
        """The version of the code as the session records it."""
        return str(self.version) if self.renewing else ""

    def enter(self) -> tuple[str, Any]:
        """One run: (status, result or error). With `renewing`, by code of the next version."""
        self.version += self.renewing
        form, ops = self.program.form, self.code()
        fingerprint = "2" if self.changed and self.program.changed is not None else "1"
        with living(self.world, code=fingerprint):
            if form == "handle":
                return loops.handle(self.store, SESSION, ops, saves=self.saves) if self.in_loop else self._handle(ops)

            def agent(s: perdure.Session) -> Any:
                return perform(form, ops, s)

            if self.in_loop:
                agent = loops.agent(form, ops)
            agent = (perdure.steps if form == "steps" else perdure.agent)(version=self.named, saves=self.saves)(agent)
            outcome = self.store.run(agent, SESSION, input="go")
            return outcome.status, outcome.error if outcome.status == "failed" else outcome.result

    def _handle(self, ops: tuple[Op, ...]) -> tuple[str, Any]:
        try:
            with self.store.session(SESSION, version=self.named, saves=self.saves) as s:
                perform("handle", ops, s)
        except SuspendedError:
            return "waiting", None
        except Exception as error:  # noqa: BLE001 - the agent's own error, compared like a result
            return "failed", error
        return "idle", None

    def _tries_again(self, error: Any) -> bool:
        """Whether this error is of a tool that was repaired already: it failed beside another, in the same block."""
        self.again += 1
        return self.again <= AGAIN_MAX and isinstance(error, Broken | LostReply | RecordedError)

    def go(self) -> list[str]:
        """Runs until it is over. What was asked on the way."""
        asked: list[str] = []
        for _ in range(RUNS_MAX):
            self.world.dead = False
            try:
                status, value = self.enter()
            except Crash:
                until_all_have_died()
                self.changed = True
                continue
            except Endless:
                return asked
            if status == "waiting":
                asked += self.program.person.decide(self.store, SESSION, self.world)
            elif status == "failed" and (self.world.repair() or self._tries_again(value)):
                self.changed = True
            else:
                self.status, self.result = status, f"{type(value).__name__}: {value}" if status == "failed" else value
                return asked
        return asked


def live(
    program: Program,
    crash_at: tuple[int, ...] = (),
    *,
    backend: Store | None = None,
    in_loop: bool = False,
    renewing: bool = False,
    saves: SavePolicy | None = None,
) -> End:
    """The end of a program that is killed at these instants, helped when it waits, repaired when it failed."""
    world = World(crash_at)
    life = _Life(program, AgentStore(backend or open_store("memory:")), world, in_loop, renewing=renewing, saves=saves)
    try:
        asked = life.go()
        world.crash_at = ()
        if life.status == "completed":
            _check_that_it_is_over(life)
        return _end(life, asked)
    finally:
        life.store.close()


def _check_that_it_is_over(life: _Life) -> None:
    effects, result = len(life.world.effects), life.result
    if life.enter() != ("completed", result) or len(life.world.effects) != effects:
        life.status = "ran again after its end"


def _end(life: _Life, asked: list[str]) -> End:
    counted = Counter((effect, name, canonical(arg)) for effect, name, arg in life.world.effects)
    effects = tuple(sorted((*what, 1 if what[0] == "repeatable" else times) for what, times in counted.items()))
    announced = [arg for _, name, arg in life.world.effects if name == "announce"]
    return End(
        status=life.status,
        result=canonical(life.result),
        state=canonical(life.store.state_at(SESSION)),
        effects=effects,
        announced=canonical(announced),
        misuse=tuple(life.world.misuse),
        asked=tuple(asked),
        instants=life.world.instants,
        alike=frozenset(life.world.alike),
    )


def differs(want: End, got: End) -> str | None:
    """The first promise that is broken: the two ends must be equal in all but what was asked and how long it took."""
    for what in ("status", "effects", "announced", "result", "state", "misuse"):
        if getattr(want, what) != getattr(got, what):
            return f"{what}: want {getattr(want, what)}, got {getattr(got, what)}"
    return None


def harms(want: End, got: End) -> str | None:
    """For a person who abandons every doubt: it ends, and nothing happens more often than unharmed."""
    if got.status == "stuck":
        return "stuck"
    most = {what[:-1]: what[-1] for what in want.effects}
    over = [what for what in got.effects if what[0] != "repeatable" and what[-1] > most.get(what[:-1], 0)]
    return f"too often: {over}" if over else None


def crashes(
    instants: int, *, pairs: int, seed: int = 0, but: frozenset[int] = frozenset()
) -> Iterator[tuple[int, ...]]:
    """Every instant but these, then pairs of any at random (the second counts on through the next runs)."""
    yield from ((k,) for k in range(1, instants + 1) if k not in but)
    rng = random.Random(seed)
    for _ in range(pairs if instants else 0):
        first = rng.randint(1, instants)
        yield first, rng.randint(first + 1, first + instants + 6)


def everywhere(
    program: Program,
    *,
    want: End | None = None,
    pairs: int = 0,
    judge: Callable[[End, End], str | None] = differs,
    place: Callable[[], Store] | None = None,
    in_loop: bool = False,
    renewing: bool = False,
    saves: SavePolicy | None = None,
    every: bool = FULL,
) -> str | None:
    """Crashes a program at every instant; the first difference from its unharmed end, or from `want`.

    Unless at `every` one, at one for each thing that a crash can leave.
    """
    unharmed = live(program, backend=place() if place else None, in_loop=in_loop, saves=saves)
    want = want or unharmed
    if want.status not in ("completed", "idle"):
        return f"unharmed: {want.status} {want.result}"
    found = judge(want, unharmed)
    if found:
        return f"unharmed: {found}"
    for at in crashes(unharmed.instants, pairs=pairs, but=frozenset() if every else unharmed.alike):
        backend = place() if place else None
        found = judge(want, live(program, at, backend=backend, in_loop=in_loop, renewing=renewing, saves=saves))
        if found:
            return f"crash at {at}: {found}"
    return None
