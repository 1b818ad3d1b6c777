"""A connection to a Ray cluster, what its processes send each other, and errors in plain words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recprism.common.extras import needing
from recprism.errors import InputError, RecprismError

RETRIES = 3
"""How often a dead worker is restarted and its call repeated. Without a limit, a worker that always dies never ends."""


def load_ray() -> Any:
    """The package ray."""
    with needing("the Ray executor", "ray"):
        import ray
    return ray


def connect(ray: Any) -> bool:
    """Connect to a cluster, unless ``ray.init`` was called before.

    The cluster is the one that the environment variable RAY_ADDRESS names, or a new local one.

    Returns:
        Whether this call made the connection; then the caller ends it with ``ray.shutdown``.
    """
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS") or "local"
    own = {"include_dashboard": False} if address == "local" else {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent over the network unasked
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # Ray's memory monitor retries without limit otherwise
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **own)
    except ConnectionError:
        raise InputError(
            f"no Ray cluster answers at RAY_ADDRESS={address}; start it, or unset RAY_ADDRESS for a local one"
        ) from None
    return True


@contextmanager
def plain_errors(ray: Any) -> Iterator[None]:
    """Raise an error of recprism in a worker as the same error here, and a worker's death as one sentence."""
    known = ray.exceptions
    try:
        yield
    except known.RayTaskError as failed:
        if isinstance(failed.cause, RecprismError):
            raise failed.cause from None
        raise
    except (
        *(known.RayActorError, known.WorkerCrashedError, known.OutOfMemoryError),
        *(known.NodeDiedError, known.ObjectLostError),
    ) as died:
        raise RecprismError(
            f"a Ray worker died, and {RETRIES} restarts did not help ({type(died).__name__}); most often memory runs "
            "out: use smaller shards, machines with more memory, or the local executor"
        ) from None


def packed(thing: Any) -> bytes:
    """Bytes for another process of the same Ray session; no file is written or read in this format.

    Arrays that Ray itself sends are shared between the workers of a machine and cannot be written to. Numba would
    compile other code for them than in this process.
    """
    return bytes(load_ray().cloudpickle.dumps(thing))


def unpacked(content: bytes) -> Any:
    """In a worker, what this process packed."""
    return load_ray().cloudpickle.loads(content)


def cpu_count(ray: Any) -> int:
    """CPUs of the cluster, at least 1."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
