"""Our commands: what they refuse before any work, and how ``--help`` shows them.

``--help`` shows a flag by its name alone, without the type that other options have.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from recprism.cli._modes import refuse_ignored
from recprism.cli._output import say


class Command(TyperCommand):
    """A command of ours."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command, unless an option was given that has no effect; Ctrl-C prints one line."""
        refuse_ignored(ctx.command_path.partition(" ")[2], ctx)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            say(f"stopped; {stopped}" if stopped.args else "stopped")
            raise


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_flags(super().get_params(ctx))


def _with_plain_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
