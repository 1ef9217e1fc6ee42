"""Whether a server answers, asked from another network namespace: `python -m tests.servers.ask MODULE:CLASS JSON`."""

from __future__ import annotations

import json
import pkgutil
import sys
from pathlib import Path


def main() -> int:
    server = object.__new__(pkgutil.resolve_name(sys.argv[1]))
    vars(server).update(json.loads(sys.argv[2]))
    server.folder = Path(server.folder)
    try:
        return 0 if server.answers() else 1
    except OSError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
