"""Names and submodules of a package that load on first use.

The stub ``__init__.pyi`` next to a package's ``__init__.py`` lists the public names and their modules. Type checkers
and editors read the stub; :func:`attach` reads the same lines at run time. Importing a package is therefore cheap, and
a kernel can be imported without torch. Where the packages of an extra are missing, a name that needs them says so.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package with a stub.

    Args:
        package: ``__name__`` of the package.
        file: ``__file__`` of the package; the stub is next to it.

    Returns:
        A function that loads a public name or a public submodule, a function that lists both, and the list of public
        names.
    """
    homes = homes_of(Path(file).with_suffix(".pyi"))

    def load(name: str) -> Any:
        inside = f"{package}.{name}"
        home = homes.get(name, package)
        if home != package:
            _require(inside, home)
            value = getattr(import_module(home), name)
            setattr(sys.modules[package], name, value)
            return value
        spec = None if name.startswith("_") else find_spec(inside)
        if spec is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not Path(str(spec.origin)).with_suffix(".pyi").exists():  # a package with a stub asks for each of its names
            _require(inside, inside)
        return import_module(inside)

    def names() -> list[str]:
        modules = (it.name for it in iter_modules([str(Path(file).parent)]) if not it.name.startswith("_"))
        return sorted({*homes, *modules, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, names, sorted(homes)


def _require(name: str, home: str) -> None:
    """Refuse a name whose module needs packages that are not installed."""
    from recprism.common.extras import extra_of, require

    if extra := extra_of(home):
        require(name, extra, whole=False)


def homes_of(stub: Path) -> dict[str, str]:
    """Name -> module, from the ``from module import name as name`` lines of a stub."""
    lines = ast.parse(stub.read_text(encoding="utf-8")).body
    imports = [line for line in lines if isinstance(line, ast.ImportFrom) and line.module]
    return {alias.asname or alias.name: str(line.module) for line in imports for alias in line.names}
