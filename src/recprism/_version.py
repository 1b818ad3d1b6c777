"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("recprism")
except PackageNotFoundError:  # a source tree that is on the path and not installed, as on a GPU machine
    __version__ = "unknown"
