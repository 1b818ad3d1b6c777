"""Who holds the shards of users, by the engine's name; an engine is one function and one line in ``ENGINES``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from recprism.counterfactual.shards import Recruit, local_crew


class Hired(NamedTuple):
    """Into how many shards users go, and the way to a crew for them."""

    shards: int
    recruit: Recruit


@contextmanager
def _local(shards: int | None) -> Iterator[Hired]:
    yield Hired(shards or 1, local_crew)


@contextmanager
def _ray(shards: int | None) -> Iterator[Hired]:
    from recprism.counterfactual.ray_crew import ray_crews, ray_session, worker_count

    with ray_session() as ray, ray_crews(ray) as recruit:
        yield Hired(shards or worker_count(ray), recruit)


ENGINES: dict[str, Callable[[int | None], AbstractContextManager[Hired]]] = {"local": _local, "ray": _ray}
