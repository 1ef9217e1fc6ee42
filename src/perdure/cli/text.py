"""Short texts for people: ages, durations, values and messages on one line. Never a format."""

from __future__ import annotations

import datetime as dt
import getpass
import json
import re
from typing import TYPE_CHECKING, Any, Final

from perdure import clock
from perdure.log.readable import json_of
from perdure.values import outward

if TYPE_CHECKING:
    from perdure.runtime.outcome import Question

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(d|h|min|s)")
_SIZES: Final = {"B": 1, "KB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?B)", re.IGNORECASE)
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
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{int(seconds // size)} {unit}"


def bytes_of(size: int) -> str:
    """`312 bytes`, `4.2 KB`, `17 MB`: in thousands."""
    if size < 1000:
        return f"{size} bytes"
    unit, one = next((unit, one) for unit, one in (("GB", 10**9), ("MB", 10**6), ("KB", 1000)) if size >= one)
    return f"{size / one:.1f} {unit}" if size < 10 * one else f"{size // one} {unit}"


def seconds_of(text: str) -> float:
    """The seconds of an age as people write it: `90s`, `15min`, `12h`, `30d`. Raises `ValueError`."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no age: write it as 90s, 15min, 12h or 30d")
    return float(found[1]) * next(size for size, unit in _UNITS if unit == found[2])


def moment_of(text: str) -> int:
    """A moment as people write it, as microseconds since 1970: an age (`2h`), or a time of ISO 8601.

    A time without a zone is of the zone of this machine. Raises `ValueError`.
    """
    if _AGE.fullmatch(text.strip()):
        return clock.now_us() - round(seconds_of(text) * 1e6)
    try:
        found = dt.datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        raise ValueError(f"{text!r} is no moment: write it as 2h, 2026-01-31 or 2026-01-31T12:00:00Z") from None
    return (found - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def size_of(text: str) -> int:
    """The bytes of a size as people write it: `500MB`, `2.5 GB`, in thousands. Raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: write it as 800KB, 500MB or 2.5GB")
    return int(float(found[1]) * _SIZES[found[2].upper()])


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
