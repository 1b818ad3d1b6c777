"""Executors: where independent tasks run.

This module has the protocol and the implementation for this process; ``recprism.parallel`` has the one for a Ray
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

from recprism.common.threads import share_work

Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Executor(Protocol):
    """Where work runs: in this process, or on a cluster.

    An executor is a context manager, and may be entered several times. Functions that take an executor enter it
    themselves. Enter it yourself to keep one connection for several calls.

    Attributes:
        in_process: Whether work runs in this process, on any device. Elsewhere it runs on CPUs.
    """

    in_process: bool

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def map(
        self,
        task: Callable[[Shared, Piece], Result],
        shared: Shared,
        pieces: Sequence[Piece],
        *,
        before_threads: Callable[[Shared], object] | None = None,
        on_done: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        """Call ``task(shared, piece)`` for each piece.

        Args:
            task: The function to call.
            shared: What all pieces need; it is sent once.
            pieces: The second argument of each call.
            before_threads: If given, several threads of one process may run pieces at the same time. It is called with
                ``shared`` before they start.
            on_done: Called in this process after each piece, possibly from several threads.

        Returns:
            The results, in the order of the pieces.
        """


class LocalExecutor:
    """Run everything in this process.

    Pieces of :meth:`map` run one after the other, each when its result is asked for. With ``before_threads`` all of
    them run at once, on the threads of this process.
    """

    in_process = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to close."""

    def map(
        self,
        task: Callable[[Shared, Piece], Result],
        shared: Shared,
        pieces: Sequence[Piece],
        *,
        before_threads: Callable[[Shared], object] | None = None,
        on_done: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        """Call ``task(shared, piece)`` for each piece; see :meth:`Executor.map`."""

        def run(piece: Piece) -> Result:
            result = task(shared, piece)
            on_done()
            return result

        if before_threads is None:
            return map(run, pieces)
        before_threads(shared)
        return iter(share_work(lambda at, _: run(pieces[at]), len(pieces), 1))
