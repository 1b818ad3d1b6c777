"""Reference pages that cannot go stale: comments in them are replaced by what the code says when the site is built.

``<!-- api: recprism.metrics -->`` becomes every public name of a package with its docstring. For a lazy package these
are the names of its stub ``__init__.pyi``. ``<!-- names: recprism -->`` becomes a list of links to names that other
pages document, and ``<!-- commands -->`` the command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer
from typer.main import get_command

import recprism
from recprism.cli import app as command_line
from recprism.common.lazy import homes_of

API = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)
NOT_HERE = "This package is not part of the version that the site was built from."


def public_names(module: ModuleType) -> list[str]:
    """What a module exports, or without ``__all__`` the classes and functions defined in it."""
    if hasattr(module, "__all__"):
        return sorted((name for name in module.__all__ if not name.startswith("_")), key=str.lower)
    return [name for name, value in vars(module).items() if not name.startswith("_") and _is_defined_in(module, value)]


def _is_defined_in(module: ModuleType, value: Any) -> bool:
    documented = (inspect.isclass(value) or inspect.isroutine(value)) and bool(inspect.getdoc(value))
    return documented and value.__module__ == module.__name__


def _api(found: re.Match[str]) -> str:
    if find_spec(found.group(1)) is None:
        return NOT_HERE
    module = import_module(found.group(1))
    parts = [_directive(module, name) for name in public_names(module)]
    level = re.findall(r"^Stability: (\w+)\.$", str(module.__doc__), re.MULTILINE)[0]
    said = f"Stability: {level}, unless an entry says otherwise."
    return "\n".join([said, "", "```{eval-rst}", f".. currentmodule:: {module.__name__}", "", *parts, "```"])


def _directive(module: ModuleType, name: str) -> str:
    value, full = getattr(module, name), f"{module.__name__}.{name}"
    if inspect.isclass(value):
        bases = "" if value.__bases__ == (object,) else "   :show-inheritance:\n"
        return f".. autoclass:: {full}\n   :members:\n{bases}"
    if inspect.isroutine(value):
        return f".. autofunction:: {full}\n"
    if inspect.ismodule(value):
        return f".. automodule:: {full}\n   :members:\n"
    lines = [*_words_about(module, name), "", _held(value)]
    return "\n".join([f".. py:data:: {full}", "", *(f"   {line}" for line in lines), ""])


def _words_about(module: ModuleType, name: str) -> list[str]:
    """The docstring below a constant, in the module that defines it."""
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    home = homes_of(stub).get(name, module.__name__) if stub.exists() else module.__name__
    return ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])


def _held(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"By name: {', '.join(f'``{key}``' for key in value)}"
    if isinstance(value, tuple | list):
        return f"Names: {', '.join(f'``{key}``' for key in value)}"
    return f"``{value!r}``"


def _names(found: re.Match[str]) -> str:
    module = import_module(found.group(1))
    values = {name: getattr(module, name) for name in public_names(module)}
    return "\n".join(f"- {{py:obj}}`{name} <{_full_name(it)}>`: {_first_line(it)}" for name, it in values.items())


def _full_name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _first_line(value: Any) -> str:
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", (inspect.getdoc(value) or "").partition("\n")[0])


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
    """Where a class or function is defined, and its bare name -> under which name a reference page documents it."""
    found: dict[str, str] = {}
    for page in sorted((docs / "reference").glob("*.md")):
        for name in API.findall(page.read_text(encoding="utf-8")):
            if find_spec(name) is not None:
                found |= _names_of(import_module(name))
    at_the_top = {f"recprism.{name}": _full_name(getattr(recprism, name)) for name in public_names(recprism)}
    return found | {name: found[home] for name, home in at_the_top.items() if home in found}


def _names_of(module: ModuleType) -> dict[str, str]:
    found = {name: f"{module.__name__}.{name}" for name in public_names(module)}
    values = {name: getattr(module, name) for name in found}
    defined = {_full_name(it): found[name] for name, it in values.items() if hasattr(it, "__qualname__")}
    return found | defined


def _resolve(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """A name by its page; one that exists and has no page as plain text; any other is a warning."""
    if node.get("refdomain") != "py":
        return None
    target, domain = node["reftarget"], env.get_domain("py")
    pages = app.recprism_pages
    head, tail = target, ""
    while head and head not in pages:
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    if head:
        public = pages[head] + tail
        return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], public, node, shown)
    return shown if _exists(target) else None


def _exists(target: str) -> bool:
    module, _, name = target.rpartition(".")
    try:
        return hasattr(import_module(module), name)
    except (ImportError, ValueError):
        return False


def _import_all(app: Any) -> None:
    """Before autodoc starts: it edits annotations of pydantic, and models cannot be defined after that."""
    app.recprism_pages = names_on_pages(Path(app.srcdir))


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", _import_all)
    app.connect("source-read", _expand)
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": False}
