"""The executor for a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Self, TypeVar

from recprism.parallel._ray_processes import RayProcesses
from recprism.parallel._ray_session import connect, load_ray, packed

Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


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
        self._processes = RayProcesses(self._ray)

    def __enter__(self) -> Self:
        if not self._depth:
            self._connected_here = connect(self._ray)
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        self._processes.close()
        if self._connected_here:
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
        """Call ``task(shared, piece)`` for each piece, all at the same time; see ``Executor.map``.

        A piece whose process dies is repeated. If a piece fails, its error is raised in its turn, and the others end;
        if the caller stops iterating, they end at the latest when the outermost ``with`` block ends. One call must be
        done before the next begins: its processes hold the CPUs.
        """
        with nullcontext() if self._depth else self:
            stored = self._ray.put(packed((task, shared)))
            for found in self._processes.results(stored, map(packed, pieces), len(pieces)):
                on_done()
                yield found
