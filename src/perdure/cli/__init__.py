"""The command line: each command a thin shell over one operation of a store."""

from perdure.cli.app import main

__all__ = ["main"]
