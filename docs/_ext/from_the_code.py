"""Reference pages that cannot go stale: comments in them are replaced by what the code says when the site is built.

``<!-- api: recprism.metrics -->`` becomes every public name of a module with its docstring,
``<!-- names: recprism -->`` links to those of a package whose names are written elsewhere, and ``<!-- commands -->``
the command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.main import get_command

from recprism.cli import app as command_line

API = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)


def public_names(module: ModuleType) -> list[str]:
    """What a module exports, or without ``__all__`` the classes and functions written in it."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    return [name for name, value in vars(module).items() if not name.startswith("_") and _is_written_in(module, value)]


def _is_written_in(module: ModuleType, value: Any) -> bool:
    documented = (inspect.isclass(value) or inspect.isroutine(value)) and bool(inspect.getdoc(value))
    return documented and value.__module__ == module.__name__


def _api(found: re.Match[str]) -> str:
    module = import_module(found.group(1))
    parts = [_directive(module, name) for name in public_names(module)]
    return "\n".join(["```{eval-rst}", f".. currentmodule:: {module.__name__}", "", *parts, "```"])


def _directive(module: ModuleType, name: str) -> str:
    value, full = getattr(module, name), f"{module.__name__}.{name}"
    if inspect.isclass(value):
        bases = "" if value.__bases__ == (object,) else "   :show-inheritance:\n"
        return f".. autoclass:: {full}\n   :members:\n{bases}"
    if inspect.isroutine(value):
        return f".. autofunction:: {full}\n"
    if inspect.ismodule(value):
        return f".. automodule:: {full}\n   :members:\n"
    held = ", ".join(f"``{key}``" for key in value)
    return f".. py:data:: {full}\n\n   {'By name' if isinstance(value, Mapping) else 'Names'}: {held}\n"


def _names(found: re.Match[str]) -> str:
    module = import_module(found.group(1))
    values = {name: getattr(module, name) for name in public_names(module)}
    return "\n".join(f"- {{py:obj}}`{name} <{it.__module__}.{it.__qualname__}>`" for name, it in values.items())


def _commands(_: re.Match[str]) -> str:
    return "\n".join(_group(get_command(command_line), "recprism"))


def _group(group: Any, path: str) -> list[str]:
    lines: list[str] = []
    for name, command in group.commands.items():
        lines += _group(command, f"{path} {name}") if hasattr(command, "commands") else _command(command, path, name)
    return lines


def _command(command: Any, path: str, name: str) -> list[str]:
    context = command.make_context(f"{path} {name}", [], resilient_parsing=True)
    usage = command.get_usage(context).partition(": ")[2]
    records = [record for option in command.params if (record := option.get_help_record(context))]
    table = ["| | |", "|---|---|", *(f"| `{_cell(spelled)}` | {_cell(said)} |" for spelled, said in records)]
    return [f"## {path} {name}", "", command.help, "", "```text", usage, "```", "", *(table if records else ()), ""]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


EXPANSIONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (API, _api),
    (re.compile(r"^<!-- names: ([\w.]+) -->$", re.MULTILINE), _names),
    (re.compile("<!-- commands -->"), _commands),
)


def _expand(_app: Any, _docname: str, source: list[str]) -> None:
    for pattern, made in EXPANSIONS:
        source[0] = pattern.sub(made, source[0])


def names_on_pages(docs: Path) -> dict[str, str]:
    """Where a class or function is written, and its bare name -> under which name a reference page has it."""
    found: dict[str, str] = {}
    for page in (docs / "reference").glob("*.md"):
        for name in API.findall(page.read_text(encoding="utf-8")):
            module = import_module(name)
            for public in public_names(module):
                value = getattr(module, public)
                found[public] = f"{name}.{public}"
                if hasattr(value, "__qualname__"):
                    found[f"{value.__module__}.{value.__qualname__}"] = f"{name}.{public}"
    return found


def _resolve(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """A name by its page; one that exists and has no page as plain text; any other is a warning."""
    if node.get("refdomain") != "py":
        return None
    target, domain = node["reftarget"], env.get_domain("py")
    if not hasattr(env, "recprism_pages"):
        env.recprism_pages = names_on_pages(Path(app.srcdir))
    head, tail = target, ""
    while head and head not in env.recprism_pages:
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    if head:
        public = env.recprism_pages[head] + tail
        return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], public, node, shown)
    return shown if _exists(target) else None


def _exists(target: str) -> bool:
    module, _, name = target.rpartition(".")
    try:
        return hasattr(import_module(module), name)
    except (ImportError, ValueError):
        return False


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _expand)
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": False}
