"""The state of an installation, as plain facts."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from recprism.common.extras import EXTRAS, missing_from
from recprism.common.version import __version__
from recprism.data.datasets import NAMED, data_roots, locate

FROM_FILES = {"recbole": "nothing to install here: its models come as files, see tools/export_recbole.py"}
"""Libraries that cannot share an environment with recprism."""


def examine(data_root: str | Path | None = None) -> dict[str, Any]:
    """Return versions, extras, machine, data and what is missing."""
    extras = {name: missing_from(name) for name in EXTRAS}
    data = {name: _where(name, data_root) for name in NAMED}
    missing = [
        f"extra [{name}]: {', '.join(gone)} (pip install 'recprism[{name}]')" for name, gone in extras.items() if gone
    ]
    missing += [f"data set {name}: {state}" for name, state in data.items() if state.startswith("not found")]
    return {
        "versions": versions(),
        "extras": {
            **{name: "complete" if not gone else f"missing {', '.join(gone)}" for name, gone in extras.items()},
            **FROM_FILES,
        },
        "machine": _machine(),
        "data": {"looked for in": [str(root) for root in data_roots(data_root)], **data},
        "missing": missing,
    }


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


def _machine() -> dict[str, Any]:
    import torch

    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processors": os.cpu_count() or 1,
        "torch threads": torch.get_num_threads(),
        "cuda": ", ".join(devices) or "none",
        "device auto means": "cuda" if devices else "cpu",
    }


def _where(name: str, data_root: str | Path | None) -> str:
    source = locate(name, data_root)
    if source is not None:
        return str(source.path)
    if name == "ml-latest-small":
        return "embedded"
    return f"not found (recprism data fetch {name})" if NAMED[name].downloads else "not found"
