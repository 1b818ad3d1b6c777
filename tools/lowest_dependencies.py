"""Print the lowest versions that pyproject.toml allows, as pip constraints: python tools/lowest_dependencies.py

Each requirement ``name>=1.2`` of the package and of the extras for users becomes ``name==1.2``. A package that is named
twice gets the higher bound. Tools for tests, lint and documentation are left out: pip takes the newest ones that fit.
An extra that includes another one, ``recprism[full]``, adds nothing.
The Makefile uses this file with ``make test DEPENDENCIES=lowest``. It needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOT_FOR_USERS = {"test", "lint", "docs"}
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,. -]+\])?>=(?P<least>[\d.]+)(?:,<[\d.]+)?(?: *;(?P<marker>.+))?")


def lowest(project: dict[str, Any]) -> list[str]:
    """The constraints of a ``[project]`` table, in order of name.

    Args:
        project: The table ``[project]`` of pyproject.toml.

    Returns:
        One line per package, ``name==version``, with the marker of the requirement where it has one.

    Raises:
        ValueError: A requirement has no lower bound.
    """
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in extras.keys() - NOT_FOR_USERS for line in extras[name])]
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for line in wanted:
        if line.startswith("recprism["):
            continue
        parts = REQUIREMENT.fullmatch(line)
        if parts is None:
            raise ValueError(f"{line!r} in pyproject.toml has no lower bound of the form name>=1.2")
        name, least, marker = parts["name"], parts["least"], parts["marker"]
        order = tuple(int(number) for number in least.split("."))
        text = f"{name}=={least}" + (f";{marker}" if marker else "")
        found[name] = max(found.get(name, ((), "")), (order, text))
    return [found[name][1] for name in sorted(found, key=str.lower)]


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest(project)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
