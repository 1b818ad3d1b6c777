"""The executor for a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Self, TypeVar

from recprism.cmb._executor import WorkerPool
from recprism.parallel._ray_session import RETRIES, connect, cpu_count, load_ray, packed, plain_errors, unpacked
from recprism.parallel._ray_workers import RayWorkerPool

Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")
Worker = TypeVar("Worker")
State = TypeVar("State")


class RayExecutor:
    """Run work on the workers of a Ray cluster, one CPU each.

    The executor uses the cluster that ``ray.init`` connected to, or the one that the environment variable RAY_ADDRESS
    names. Without either it starts a local cluster, and stops it when the outermost ``with`` block ends. Functions
    that take an executor open such a block themselves.

    Raises:
        MissingDependencyError: The package ray is not installed (extra ``[ray]``).

    Stability: experimental.
    """

    in_process = False

    def __init__(self) -> None:
        self._ray = load_ray()
        self._depth = 0
        self._connected_here = False

    def __enter__(self) -> Self:
        if not self._depth:
            self._connected_here = connect(self._ray)
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth and self._connected_here:
            self._ray.shutdown()

    def map(
        self,
        task: Callable[[Shared, Piece], Result],
        shared: Shared,
        pieces: Sequence[Piece],
        *,
        before_threads: Callable[[Shared], object] | None = None,  # noqa: ARG002 - no two pieces share a process
        on_done: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        """Call ``task(shared, piece)`` for each piece, all at the same time; see :meth:`Executor.map`.

        A piece whose worker dies is repeated. If a piece fails, or the caller stops iterating, the others are
        cancelled.
        """
        with nullcontext() if self._depth else self:
            remote = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
            stored = self._ray.put(packed((task, shared)))
            waiting = [remote.remote(stored, packed(piece)) for piece in pieces]
            try:
                while waiting:
                    with plain_errors(self._ray):
                        found: Result = self._ray.get(waiting[0])
                    del waiting[0]
                    on_done()
                    yield found
            finally:  # also after an error or an interrupt
                if self._ray.is_initialized():
                    self._cancel(waiting)

    def default_shards(self) -> int:
        """One per CPU of the cluster."""
        with self:
            return cpu_count(self._ray)

    def start_workers(
        self, make: Callable[[Sequence[Piece]], Worker], shards: Sequence[Piece]
    ) -> WorkerPool[Worker, State]:
        """Start one worker process per shard; call it inside a ``with`` block of this executor."""
        return RayWorkerPool(self._ray, make, shards)

    def _cancel(self, left: list[Any]) -> None:
        """Repeatedly, because Ray loses a request that meets a piece just as it begins."""
        for _ in range(RETRIES):
            if not left:
                return
            for result in left:
                self._ray.cancel(result)
            _, left = self._ray.wait(left, num_returns=len(left), timeout=1)


def _run(stored: bytes, piece: bytes) -> Any:
    """In a worker. Bytes become arrays that can be written to; those that Ray unpacks cannot."""
    task, shared = unpacked(stored)
    return task(shared, unpacked(piece))
