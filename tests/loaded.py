"""What the process has loaded of which fresh ones are forks (`tests/elsewhere.py`)."""

from __future__ import annotations

import perdure.team  # noqa: F401 - loaded late by its commands
from perdure.cli.app import built

built()
