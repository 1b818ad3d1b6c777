"""Our commands: what they refuse before any work, and how ``--help`` shows them.

``--help`` shows a flag by its name alone, without the type that other options have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, get_type_hints

from typer.core import TyperCommand, TyperGroup

from recprism.cli._output import say
from recprism.cli._usage import parameter_name
from recprism.errors import InputError


@dataclass(frozen=True)
class Only:
    """In the annotation of an option: where it has an effect.

    Attributes:
        names: Parameters of the command, or ``parameter=value``.
        wanted: Whether one of them must be given; else none of them may be.
    """

    names: tuple[str, ...]
    wanted: bool

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the option has an effect next to the values of all parameters."""
        pairs = (name.partition("=") for name in self.names)
        return self.wanted == any(values[name] == value if equals else values[name] for name, equals, value in pairs)

    def phrase(self, context: Any, *, holds: bool) -> str:
        """Say where the option has an effect, or (not ``holds``) has none."""
        params = {it.name: it for it in context.command.params}
        given, found = holds == self.wanted, []
        for name, _, value in (it.partition("=") for it in self.names):
            option, default = parameter_name(params[name]), params[name].default
            if type(default) is int and default:  # a number that 0 switches off
                found.append(f"with {option} above 0" if given else f"with {option} 0")
            elif value:
                found.append(f"with {option} {value if given else context.params[name]}")
            else:
                found.append(f"{'with' if given else 'without'} {option}")
        lead, link = found[0].partition(" ")[0], " or " if given else " and "
        return link.join([found[0], *(it.removeprefix(f"{lead} ") for it in found[1:])])


def With(*names: str) -> Only:  # noqa: N802 - reads as part of an annotation
    """The option has an effect with one of these parameters."""
    return Only(names, wanted=True)


def Without(*names: str) -> Only:  # noqa: N802 - as above
    """The option has an effect without these parameters."""
    return Only(names, wanted=False)


def conditions(command: Any) -> Iterator[tuple[Any, Only]]:
    """Yield the parameters of a command that do not always have an effect, with their conditions."""
    hints = get_type_hints(command.callback, include_extras=True)
    for param in command.params:
        found = getattr(hints.get(param.name), "__metadata__", ())
        yield from ((param, it) for it in reversed(found) if isinstance(it, Only))  # the command's own before shared


def refuse_ignored(context: Any) -> None:
    """Refuse an option that was given and has no effect; a value that equals the default was given, too."""
    for param, only in conditions(context.command):
        if is_given(context, param.name) and not only.holds(context.params):
            refuse(parameter_name(param), *(only.phrase(context, holds=it) for it in (False, True)))


def refuse(option: str, here: str, works: str) -> NoReturn:
    """Say that an option has no effect here, and where it has one."""
    raise InputError(f"{option} has no effect {here}; it works {works}")


def is_given(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


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
        refuse_ignored(ctx)
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
