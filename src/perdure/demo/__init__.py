"""The demonstration: an agent that is killed and goes on, and what its log says about it afterwards.

It shows what the package promises by counting it, and must not know more about a session than any user can read.
"""

from perdure.demo.play import main

__all__ = ["main"]
