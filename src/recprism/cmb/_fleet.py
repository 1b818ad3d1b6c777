"""Who does the independent pieces of a study: this process, or the workers of a Ray cluster (see ``engines``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from recprism.cmb._ray_crew import RETRIES, packed, said_plainly, unpacked
from recprism.ranking._threads import share_work

Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Fleet(Protocol):
    """Does ``task(shared, piece)`` for each piece; results come in the order of the pieces."""

    def each(
        self,
        task: Callable[[Shared, Piece], Result],
        shared: Shared,
        pieces: Sequence[Piece],
        *,
        before_threads: Callable[[Shared], object] | None = None,
        on_done: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        """All of them.

        before_threads: given where threads of one process may do several at once: what is done with ``shared`` before
        on_done: called in this process after each piece, perhaps by several threads
        """
        ...


class OwnProcess:
    """One piece after the other, each when its result is asked for; all of them now, where they may go on threads."""

    def each(
        self,
        task: Callable[[Shared, Piece], Result],
        shared: Shared,
        pieces: Sequence[Piece],
        *,
        before_threads: Callable[[Shared], object] | None = None,
        on_done: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        def do(piece: Piece) -> Result:
            result = task(shared, piece)
            on_done()
            return result

        if before_threads is None:
            return map(do, pieces)
        before_threads(shared)
        return iter(share_work(lambda at, _: do(pieces[at]), len(pieces), 1))


class RayFleet:
    """All pieces at once, one processor each; what they share is stored once. A piece whose worker dies is redone.

    Where one fails, or no more are asked for, those that are left are not done.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def each(
        self,
        task: Callable[[Shared, Piece], Result],
        shared: Shared,
        pieces: Sequence[Piece],
        *,
        before_threads: Callable[[Shared], object] | None = None,  # noqa: ARG002 - no two pieces share a process
        on_done: Callable[[], None] = lambda: None,
    ) -> Iterator[Result]:
        remote = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_done)
        stored = self._ray.put(packed((task, shared)))
        waiting = [remote.remote(stored, packed(piece)) for piece in pieces]
        try:
            while waiting:
                with said_plainly(self._ray):
                    found: Result = self._ray.get(waiting[0])
                del waiting[0]
                on_done()
                yield found
        finally:  # an error, an interrupt, or nobody asks for the rest
            if self._ray.is_initialized():
                self._cancel(waiting)

    def _cancel(self, left: list[Any]) -> None:
        """More than once: what meets a piece just as it begins is lost."""
        for _ in range(RETRIES):
            if not left:
                return
            for result in left:
                self._ray.cancel(result)
            _, left = self._ray.wait(left, num_returns=len(left), timeout=1)


def _done(stored: bytes, piece: bytes) -> Any:
    """In a worker. Arrays that Ray itself would unpack cannot be written to; these are like any other."""
    task, shared = unpacked(stored)
    return task(shared, unpacked(piece))
