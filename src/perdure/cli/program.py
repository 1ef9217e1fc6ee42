"""What holds the commands: an option on the wrong side of its command is told where it belongs; help flows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Program(TyperGroup):
    """The program with its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What stands before the command."""
        with self._placing():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """The command, and what stands behind it."""
        with self._placing():
            return super().invoke(ctx)

    @contextmanager
    def _placing(self) -> Iterator[None]:
        """An error about an option that stands elsewhere says where."""
        try:
            yield
        except Exception as caught:  # of a class that typer has under another name in each version
            error: Any = caught
            if hasattr(error, "possibilities") and (place := self._place(error.option_name, error.ctx)):
                error.message, error.possibilities = f"{error.option_name} stands {place}", None
            raise

    def _place(self, option: str, ctx: Any) -> str:
        commands = getattr(ctx.command, "commands", {}).values()
        if any(option in _names(command) for command in commands):
            return f"behind the command: {ctx.command_path} COMMAND … {option} …"
        if option in _names(self):
            _, _, words = ctx.command_path.partition(" ")
            return f"before the command: perdure {option} … {words} …"
        return ""


class Dashed(TyperCommand):
    """A command whose arguments may begin with a dash, as -1 does; what begins with two is an option all the same."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses an option that is not there, which would be taken for an argument."""
        for word in args[: args.index("--")] if "--" in args else args:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in _names(self) | {"--help"}:
                ctx.fail(f"No such option: {name}")
        return super().parse_args(ctx, args)


def _names(command: Any) -> set[str]:
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)}


def flow(command: Any) -> None:
    """Lets the paragraphs of a command's help, and of those under it, flow to the width that is there."""
    command.help = "\n\n".join(map(_flowing, (command.help or "").split("\n\n")))
    for inner in getattr(command, "commands", {}).values():
        flow(inner)


def _flowing(paragraph: str) -> str:
    return paragraph if paragraph.startswith(" ") else paragraph.replace("\n", " ")
