"""Executors by name, for the command line."""

from __future__ import annotations

from recprism.common.executor import Executor, LocalExecutor
from recprism.errors import InputError

NAMES = ("local", "ray")


def executor_named(name: str) -> Executor:
    """The executor that ``--executor NAME`` asks for.

    Args:
        name: "local" for this process, or "ray" for a Ray cluster.

    Returns:
        The executor. Nothing is started yet.

    Raises:
        InputError: No executor has this name.
        MissingDependencyError: The package ray is not installed.
    """
    if name == "local":
        return LocalExecutor()
    if name == "ray":
        from recprism.parallel.ray_executor import RayExecutor

        return RayExecutor()
    raise InputError(f"executor is {' or '.join(NAMES)}, not {name!r}")
