"""Who does the independent pieces of a study: this process, one after the other, or the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from recprism.counterfactual.ray_crew import RETRIES, packed, ray_session, said_plainly, unpacked
from recprism.errors import InputError

Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Fleet(Protocol):
    """Does ``task(shared, piece)`` for each piece; results come in the order of the pieces."""

    def each(
        self, task: Callable[[Shared, Piece], Result], shared: Shared, pieces: Sequence[Piece]
    ) -> Iterator[Result]: ...


class OwnProcess:
    """One piece after the other, each when its result is asked for."""

    def each(
        self, task: Callable[[Shared, Piece], Result], shared: Shared, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        return (task(shared, piece) for piece in pieces)


class RayFleet:
    """All pieces at once, one processor each; what they share is stored once. A piece whose worker dies is redone.

    Where one fails, or no more are asked for, those that are left are not done.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def each(
        self, task: Callable[[Shared, Piece], Result], shared: Shared, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        remote = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_done)
        stored = self._ray.put(packed((task, shared)))
        waiting = [remote.remote(stored, packed(piece)) for piece in pieces]
        try:
            while waiting:
                with said_plainly(self._ray):
                    found: Result = self._ray.get(waiting[0])
                del waiting[0]
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


@contextmanager
def _own_process() -> Iterator[Fleet]:
    yield OwnProcess()


@contextmanager
def _ray() -> Iterator[Fleet]:
    with ray_session() as ray:
        yield RayFleet(ray)


FLEETS: dict[str, Callable[[], AbstractContextManager[Fleet]]] = {"local": _own_process, "ray": _ray}


def fleet(engine: str) -> AbstractContextManager[Fleet]:
    """By the engine's name."""
    if engine not in FLEETS:
        raise InputError(f"engine is {' or '.join(FLEETS)}, not {engine!r}")
    return FLEETS[engine]()
