"""How properties are searched: the same examples in every ordinary run, new ones and many more in a storm."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("storm", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("storm" if os.environ.get("PERDURE_STORM") == "full" else "ci")

pytest_plugins = ["tests.servers.plugin"]
