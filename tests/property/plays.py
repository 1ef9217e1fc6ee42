"""Programs written by hand, one for each thing that resuming must get right, by name.

Those in `CHANGED` change their code at the first crash.
"""

from __future__ import annotations

from typing import Final

from tests.property.programs import (
    Advised,
    Ask,
    Caught,
    Checkpoint,
    Cut,
    Do,
    Drawn,
    Errand,
    Program,
    Read,
    Repeat,
    Rollback,
    Save,
    Tidied,
    Together,
    Wrapped,
)
from tests.property.worlds import Person

PLAYS: Final[dict[str, Program]] = {
    "a call of each class": Program("script", (Do("look"), Do("store"), Do("pay"), Do("mail"), Do("fax"))),
    "the same call again and again": Program("script", tuple(Do(t) for t in ("pay", "store", "mail", "look") * 2)),
    "saves between a call and its use": Program("script", (Repeat("pay", 3), Save(), Do("pay", 2), Save(), Save())),
    "values in arguments": Program(
        "script", (Drawn("pay"), Save(), Drawn("store", "now"), Drawn("look", "random"), Do("announce"))
    ),
    "one key, many calls": Program("script", (Do("pay", 1, "key"), Do("store", 1, "key"), Cut(), Do("pay", 1, "key"))),
    "one key, many steps": Program("steps", (Do("pay", 1, "key"), Cut(), Do("pay", 1, "key"), Cut(), Do("pay"))),
    "caught errors": Program(
        "script", (Caught("look_refused"), Caught("pay_refused"), Save(), Caught("pay_unsure"), Do("pay"))
    ),
    "errors that end the run": Program(
        "script", (Do("pay"), Do("look"), Do("store_broken"), Do("pay_broken"), Do("pay"))
    ),
    "the reply is lost": Program("script", (Do("store_lost"), Do("pay_lost"), Do("pay"))),
    "a handler calls, then raises": Program("script", (Wrapped("look_broken"), Do("pay"))),
    "an effect that was asked about keeps its key": Program(
        "script", (Wrapped("pay_broken"), Tidied("pay_lost"), Wrapped("look_broken")), Person("again")
    ),
    "an effect that was taken over is no second one": Program("script", (Wrapped("look_broken"), Tidied("pay_lost"))),
    "one effect on two branches that were left": Program(
        "script", (Wrapped("look_broken"), Do("store"), Do("store", 2))
    ),
    "a finally calls while the run is left": Program(
        "script", (Do("pay"), Tidied("fax"), Tidied("pay_lost"), Do("pay", 2))
    ),
    "retries": Program("script", (Do("store_flaky"), Do("pay_flaky"), Do("pay"))),
    "calls inside a call": Program(
        "script", (Errand(("pay", "store_broken")), Checkpoint("a"), Errand(("pay", "look"), 2, "once"), Do("mail"))
    ),
    "calls inside a call that fails": Program("script", (Errand(("pay", "store_broken"), 1, "once"), Do("pay"))),
    "steps": Program("steps", (Do("pay"), Cut(), Do("pay"), Do("store"), Cut(), Cut(), Do("announce"), Drawn("pay"))),
    "steps with points": Program(
        "steps", (Do("pay"), Checkpoint("a"), Do("store"), Cut(), Do("pay"), Save(), Do("pay"))
    ),
    "a handle": Program(
        "handle", (Do("pay"), Save(), Do("store"), Do("pay"), Checkpoint("a"), Do("fax"), Cut(), Do("look"))
    ),
    "questions": Program(
        "script", (Do("pay"), Ask(), Save(), Do("pay", 2), Ask(), Ask("sure?", "k"), Ask("sure?", "k"))
    ),
    "a rollback undoes": Program(
        "script",
        (
            Do("announce"),
            Checkpoint(),
            Do("reserve"),
            Do("charge"),
            Do("pick"),
            Do("pay"),
            Save(),
            Rollback(),
            Do("pay", 2),
        ),
    ),
    "a rollback keeps keys": Program(
        "script",
        (
            Checkpoint(),
            Do("pay", 1, "key"),
            Do("charge", 2, "key"),
            Do("store"),
            Do("shell"),
            Rollback(),
            Rollback(-1),
            Do("pay"),
        ),
    ),
    "a rollback to the opening": Program(
        "script", (Do("pay"), Do("store"), Drawn("look"), Rollback(0), Do("announce"))
    ),
    "a rollback, and again": Program(
        "script", (Checkpoint(), Do("pay"), Do("pay", 2), Rollback(), Do("store"), Rollback(0)), Person("again")
    ),
    "a rollback over steps": Program(
        "steps", (Do("charge"), Checkpoint(), Do("pay"), Cut(), Do("store"), Cut(), Do("look"), Rollback(), Do("mail"))
    ),
    "a rollback of a handle": Program(
        "handle",
        (Do("look"), Checkpoint(), Do("reserve"), Do("pay"), Do("charge"), Rollback(), Do("store"), Cut(), Do("pay")),
    ),
    "advice is seen at its place": Program(
        "script", (Advised("look"), Drawn("pay"), Checkpoint(), Advised("store"), Rollback(), Advised("pay"))
    ),
    "a parallel block of each class": Program(
        "script", (Do("pay"), Together(("look", "store", "pay", "mail")), Do("announce"))
    ),
    "identical calls in parallel": Program("script", (Together(("pay", "pay", "store", "store")), Do("pay"))),
    "one key, many calls in parallel": Program("script", (Together(("pay", "pay", "store"), how="key"), Do("pay"))),
    "calls inside parallel calls": Program("script", (Together(("pay", "store_flaky"), how="errands"), Do("pay"))),
    "a parallel block with errors": Program(
        "script", (Together(("pay", "store_broken", "pay_lost")), Together(("pay_broken", "look")), Do("pay", 2))
    ),
    "two of a parallel block end the run, one after the other": Program(
        "script", (Together(("pay_lost", "pay_lost", "store_broken")), Do("pay"))
    ),
    "a save inside a parallel block": Program(
        "script", (Together(("pay", "store", "charge"), save_after=1), Rollback(-1), Do("pay", 2))
    ),
    "a handle saves while calls are open": Program(
        "handle", (Do("pay"), Cut(), Together(("pay", "store", "look"), save_after=0), Cut(), Do("announce"))
    ),
    "a handle saves while calls inside of open ones run": Program(
        "handle", (Do("pay"), Cut(), Together(("pay", "reserve"), how="errands", save_after=0), Cut(), Do("announce"))
    ),
    "a rollback over a parallel block": Program(
        "script", (Checkpoint(), Together(("charge", "reserve", "pay")), Rollback(), Do("pay", 2))
    ),
    "a question, then a rollback": Program(
        "script", (Ask("send?", "k"), Checkpoint(), Do("pay"), Rollback(), Ask("send?", "k"))
    ),
    "streams read to their ends": Program(
        "script", (Read("read_look"), Read("read_store"), Read("read_pay"), Save(), Read("read_pay"), Do("announce"))
    ),
    "streams that are left": Program(
        "script", (Read("read_pay", 1, None, 1), Do("pay"), Read("read_store", 1, 1, 2), Read("read_look", 2, 2, 2))
    ),
    "streams that break off": Program("script", (Read("read_look_broken"), Read("read_store_broken", 1, 1), Do("pay"))),
    "streams in steps": Program(
        "steps", (Read("read_pay"), Cut(), Read("read_look", 1, 1, 2), Read("read_pay"), Cut())
    ),
    "streams on a handle": Program(
        "handle", (Read("read_store", 1, 2), Cut(), Read("read_pay", 1, None, 2), Do("pay"))
    ),
    "a rollback over streams": Program(
        "script", (Checkpoint(), Read("read_pay"), Read("read_store", 1, None, 1), Rollback(), Read("read_pay"))
    ),
}

_ORDER: Final = (Do("look"), Do("pay"), Do("store"), Do("pay", 2))

CHANGED: Final[dict[str, Program]] = {
    "calls in another order": Program("script", _ORDER, changed=(Do("look"), Do("pay", 2), Do("pay"), Do("store"))),
    "another argument": Program("script", _ORDER, changed=(Do("look"), Do("pay", 11), Do("store"), Do("pay", 2))),
    "a call more": Program("script", _ORDER, changed=(Do("pay"), *_ORDER)),
    "a call less": Program("script", _ORDER, changed=(Do("look"), Do("store"), Do("pay", 2))),
    "a call more at the end": Program("script", _ORDER, changed=(*_ORDER, Do("announce"))),
    "no rollback any more": Program(
        "script",
        (Checkpoint(), Do("reserve"), Do("reserve", 2), Rollback()),
        changed=(Checkpoint(), Do("reserve"), Do("reserve", 2)),
    ),
}
