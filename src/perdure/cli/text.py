"""Short texts for people: ages, durations, values and messages on one line. Never a format."""

from __future__ import annotations

import contextlib
import datetime as dt
import getpass
import json
from typing import TYPE_CHECKING, Any, Final

from perdure import clock
from perdure.log.readable import json_of
from perdure.ops.units import SECONDS, seconds_of
from perdure.values import outward

if TYPE_CHECKING:
    from perdure.runtime.outcome import Question

_ESCAPED: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SPACES: Final = {9: " ", 10: " ", 13: " "}


def visible(text: str) -> str:
    """The text with its control characters written out, so that a terminal does not obey them."""
    return text.translate(_ESCAPED)


def one_line(text: str, *, chars_max: int = 80) -> str:
    """The text without line breaks and control characters, shortened at its end."""
    clean = visible(" ".join(text.translate(_SPACES).split()))
    return clean if len(clean) <= chars_max else clean[: chars_max - 1] + "…"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2 h`, `5 d`."""
    if 0 <= seconds < 10:
        return f"{seconds:.1f} s"
    size, unit = next(((size, unit) for size, unit in SECONDS if seconds >= size), SECONDS[-1])
    return f"{int(seconds // size)} {unit}"


def bytes_of(size: int) -> str:
    """`312 bytes`, `4.2 KB`, `17 MB`: in thousands."""
    if size < 1000:
        return f"{size} bytes"
    unit, one = next((unit, one) for unit, one in (("GB", 10**9), ("MB", 10**6), ("KB", 1000)) if size >= one)
    return f"{size / one:.1f} {unit}" if size < 10 * one else f"{size // one} {unit}"


def moment_of(text: str) -> int:
    """A moment as people write it, as microseconds since 1970: an age (`2h`), or a time of ISO 8601.

    A time without a zone is of the zone of this machine. Raises `ValueError`.
    """
    with contextlib.suppress(ValueError):
        return clock.now_us() - round(seconds_of(text) * 1e6)
    try:
        found = dt.datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        raise ValueError(f"{text!r} is no moment: write it as 2h, 2026-01-31 or 2026-01-31T12:00:00Z") from None
    return (found - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def age(time_us: int) -> str:
    """How long ago that was, to the unit that matters."""
    return duration(max(0, (clock.now_us() - time_us) // 1_000_000) or 0).replace(".0", "")


def as_point(text: str) -> int | str:
    """A point as people type it: digits are a number, everything else a name."""
    return int(text) if text.removeprefix("-").isdigit() else text


def written(value: Any, name: str = "") -> str:
    """A whole value, that of a field of this `name`, for the terminal: text as it is, else as indented JSON."""
    shown = outward.document(value if isinstance(value, str) else json_of(value), name)
    return shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)


def choice(value: Any) -> str:
    """An answer as it is typed: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(json_of(value))


def decisions(question: Question) -> list[tuple[tuple[str, ...], str]]:
    """What can be decided: the words after `perdure settle SESSION` or `perdure answer SESSION`, and what they mean."""
    seq = str(question.seq)
    if question.kind == "doubt":
        return [
            ((seq, "done", "--result", "JSON"), "it happened: its call is answered with this result"),
            ((seq, "not-done"), "it did not happen: it runs again"),
            ((seq, "abandoned"), "it is never run: its call raises AbandonedError"),
        ]
    if question.schema is not None and question.choices is None:
        return [((seq, "--value", "JSON"), f"as this says: {json.dumps(question.schema)}")]
    if question.choices is None:
        return [((seq, "TEXT"), "any text; --value JSON for anything else")]
    return [((seq, choice(value)), "") for value in question.choices]


def chosen_by(name: str | None) -> str:
    """Who decides: as given, else the user."""
    return getpass.getuser() if name is None else name
