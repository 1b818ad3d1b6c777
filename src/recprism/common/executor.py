"""Executors: where independent tasks run, and where the workers of a search live.

The search calls plain functions of its worker class, through a :class:`WorkerPool`. This module has the protocols and
the implementation for this process; ``recprism.parallel`` has the one for a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from torch import Tensor

from recprism.common.threads import share_work

Arguments = ParamSpec("Arguments")
Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")
Worker = TypeVar("Worker")
Worker_co = TypeVar("Worker_co", covariant=True)
State = TypeVar("State")


class WorkerPool(Protocol[Worker_co, State]):
    """Workers that hold the shards of a search, and a state per shard.

    A function is called on every worker and returns a list with one result per shard of that worker. Results come in
    the order of the shards. Sums over shards are therefore the same for any pool.
    """

    def call(
        self,
        function: Callable[Concatenate[Worker_co, Arguments], list[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Result]:
        """Call ``function(worker, ...)`` on every worker.

        Args:
            function: A method of the worker class, such as ``SearchWorker.judge``.
            args: Its arguments after the worker.
            kwargs: Its keyword arguments.

        Returns:
            One result per shard.
        """
        ...

    def call_one(
        self,
        function: Callable[Concatenate[Worker_co, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call ``function(worker, ...)`` on one worker, for a question that all would answer alike."""
        ...

    def set_states(self, states: Sequence[State]) -> None:
        """Store a state for each shard; it stays where the worker is."""
        ...

    def advance(
        self,
        function: Callable[Concatenate[Worker_co, list[State], Arguments], tuple[list[Result], list[State]]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Result]:
        """Call ``function(worker, states, ...)`` on every worker and keep the states that it returns.

        Args:
            function: A method of the worker class, such as ``MarginalWorker.look``. It returns results and new states.
            args: Its arguments after the states.
            kwargs: Its keyword arguments.

        Returns:
            One result per shard.
        """
        ...

    def states(self) -> list[State]:
        """The state of each shard."""
        ...

    def post(self, array: Tensor) -> Tensor:
        """Send a large array to all workers once; pass the returned handle in its place to several calls."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


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
        ...

    def default_shards(self) -> int:
        """How many shards suit this executor."""
        ...

    def start_workers(
        self, make: Callable[[Sequence[Piece]], Worker], shards: Sequence[Piece]
    ) -> WorkerPool[Worker, State]:
        """Start the workers of a search.

        Args:
            make: Makes a worker from its shards, in the process where the worker lives.
            shards: The shards of all workers.

        Returns:
            The pool; close it when the search ends.
        """
        ...


class LocalWorkerPool(Generic[Worker, State]):
    """One worker in this process, with all shards."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._states: list[State] = []

    def call(
        self,
        function: Callable[Concatenate[Worker, Arguments], list[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Result]:
        return function(self._worker, *args, **kwargs)

    def call_one(
        self,
        function: Callable[Concatenate[Worker, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        return function(self._worker, *args, **kwargs)

    def set_states(self, states: Sequence[State]) -> None:
        self._states = list(states)

    def advance(
        self,
        function: Callable[Concatenate[Worker, list[State], Arguments], tuple[list[Result], list[State]]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Result]:
        results, self._states = function(self._worker, self._states, *args, **kwargs)
        return results

    def states(self) -> list[State]:
        return self._states

    def post(self, array: Tensor) -> Tensor:
        return array

    def close(self) -> None:
        """Nothing to end: the worker lives in this process."""


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

    def default_shards(self) -> int:
        """One: all users together."""
        return 1

    def start_workers(
        self, make: Callable[[Sequence[Piece]], Worker], shards: Sequence[Piece]
    ) -> WorkerPool[Worker, State]:
        """Make one worker with all shards."""
        return LocalWorkerPool(make(shards))
