"""Sets off all bombs in a process whose memory is bounded; prints what came of each, and at last how much it took."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from perdure import values
from perdure.errors import PerdureError
from perdure.values import capnproto, codecs, jsontext, pickles, protobufs
from tests.unit.bombs import BOMBS

LOADED = (capnproto, codecs, jsontext, pickles, protobufs)
"""Before memory is bounded, so that what they take does not count."""


def resident_max() -> int:
    """Bytes of memory that were ever resident."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def bound(more: int) -> None:
    """From now on this process can have so many more bytes."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + more, has + more))


def outcome(name: str, place: Path) -> str:
    """What becomes of a bomb that is read as the library reads: the code of the error, or what is read."""
    codec, data = BOMBS[name](place)
    try:
        if codec == "frame":
            codec, data = values.unseal(data)
        return type(values.decode(data, codec=codec, pickled=True)).__name__
    except PerdureError as error:
        return error.code


def main() -> None:
    """Arguments: the place that appears if something runs, and how many bytes may be taken."""
    place, more = Path(sys.argv[1]), int(sys.argv[2])
    before = resident_max()
    bound(more)
    for name in BOMBS:
        print(name, outcome(name, place))  # noqa: T201  (its parent reads it)
    print("bytes", resident_max() - before)  # noqa: T201


if __name__ == "__main__":
    main()
