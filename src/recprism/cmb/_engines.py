"""Who does the work, by the engine's name: this process, or the workers of a Ray cluster.

An engine is one class and one line in ``ENGINES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple, Protocol

from recprism.cmb._fleet import Fleet, OwnProcess, RayFleet
from recprism.cmb._ray_crew import ray_crews, ray_session, worker_count
from recprism.cmb._shards import Recruit, local_crew
from recprism.errors import InputError


class Hired(NamedTuple):
    """Into how many shards users go, and the way to a crew for them."""

    shards: int
    recruit: Recruit


class Engine(Protocol):
    """Whoever works does so until the block ends.

    here: whether that is this process, on any device; elsewhere it is processors
    """

    here: bool

    def crews(self, shards: int | None) -> AbstractContextManager[Hired]:
        """For a search. shards: of the users; None for as many as suit the engine."""
        ...

    def fleet(self) -> AbstractContextManager[Fleet]:
        """For the independent pieces of a study."""
        ...


class ThisProcess:
    """Nobody else."""

    here = True

    def crews(self, shards: int | None) -> AbstractContextManager[Hired]:
        return nullcontext(Hired(shards or 1, local_crew))

    def fleet(self) -> AbstractContextManager[Fleet]:
        return nullcontext(OwnProcess())


class RayCluster:
    """The workers of the cluster that is there, or of a local one for the while."""

    here = False

    @contextmanager
    def crews(self, shards: int | None) -> Iterator[Hired]:
        with ray_session() as ray, ray_crews(ray) as recruit:
            yield Hired(shards or worker_count(ray), recruit)

    @contextmanager
    def fleet(self) -> Iterator[Fleet]:
        with ray_session() as ray:
            yield RayFleet(ray)


ENGINES: dict[str, Engine] = {"local": ThisProcess(), "ray": RayCluster()}


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise InputError(f"engine is {' or '.join(ENGINES)}, not {name!r}")
    return ENGINES[name]
