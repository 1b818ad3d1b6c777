"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("recprism")
except PackageNotFoundError:  # a source tree on the path that is not installed
    __version__ = "unknown"
