"""Our commands: what they refuse before any work, and how ``--help`` shows them.

``--help`` shows a flag by its name alone, without the type that other options have.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from recprism.cli._modes import is_given, refuse_ignored
from recprism.cli._output import say
from recprism.cli._usage import parameter_name
from recprism.errors import InputError


class Command(TyperCommand):
    """A command of ours."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse a second value of an option that takes one: the parser would forget the first."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for param in set(given):
            takes_one = not (param.multiple or getattr(param, "is_flag", False) or param.param_type_name == "argument")
            if takes_one and given.count(param) > 1:
                raise InputError(f"{parameter_name(param)} is given twice; give it once")
        return list(super().parse_args(ctx, args))

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


def given(context: Any, *but: str) -> dict[str, Any]:
    """Return the options of a command line as ``command_line`` takes them, without some parameters."""
    options = [it for it in context.command.params if it.param_type_name == "option" and it.name not in but]
    return {parameter_name(it)[2:]: context.params[it.name] for it in options if is_given(context, it.name)}


def _with_plain_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
