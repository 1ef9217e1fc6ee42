"""What perdure is tested with, for what you build on it: agents crashed at every instant, stores held to the contract.

`docs/testing.md` is the guide. `perdure.testing.conformance` needs pytest and is imported by itself.
"""

from perdure.testing.bell import Command
from perdure.testing.crash import Report, crash_everywhere
from perdure.testing.doubts import Doubt
from perdure.testing.lives import CrashPoint

__all__ = ["Command", "CrashPoint", "Doubt", "Report", "crash_everywhere"]
