"""The versions of what is installed."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

from recprism.common.version import __version__


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of everything that it needs."""
    return {"python": platform.python_version(), "recprism": __version__, **_dependencies()}


def _dependencies() -> dict[str, str]:
    lines = requires("recprism") or []
    needed = [line for line in lines if "extra ==" not in line or re.search(r"extra == .(full|serve)\b", line)]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed]
    return {name: _version(name) for name in names}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
