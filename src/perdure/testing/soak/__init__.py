"""A soak: many writers on many sessions for minutes, some killed, and an exact count at the end.

`python -m perdure.testing.soak URL` is for whoever wants to see it on a server of theirs; docs/testing.md tells of it.
"""

from perdure.testing.soak.count import Report, counted
from perdure.testing.soak.crowd import Crowd, WriterFailedError
from perdure.testing.soak.plan import Plan

__all__ = ["Crowd", "Plan", "Report", "WriterFailedError", "counted"]
