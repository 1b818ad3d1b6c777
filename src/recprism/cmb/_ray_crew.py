"""A crew on a Ray cluster: one worker a shard, each in a process of its own, on this machine or another.

What a shard knows (vectors, seen items, labels) goes into Ray's object store once. A worker that dies is started again
by Ray, fetches its shard from there, and is asked again: what it is asked holds all that it must have heard before.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._shards import Crew, Recruit, Shard
from recprism.errors import InputError, MissingDependencyError, RecprismError
from recprism.metrics import METRICS

RETRIES = 3
"""How often a worker that died is started again, and asked again; one that always dies would be for ever."""
TOLD_AFTER = 5.0
"""Seconds after which it is said that workers wait for processors that others have."""
HOW_TO_GET_IT = "engine 'ray' needs the package ray ({}); install it with pip install 'recprism[ray]'"

log = logging.getLogger(__name__)


@contextmanager
def ray_session() -> Iterator[Any]:
    """The package ray, connected: to the cluster that is there already, or to a local one for the while.

    There already is what ``ray.init`` was called for, or what the environment variable RAY_ADDRESS names.
    """
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    own = {"include_dashboard": False} if address == "local" else {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster started here tells nobody that it was
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # what its memory monitor kills, it redoes for ever
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **own)
    except ConnectionError:
        raise InputError(
            f"no Ray cluster answers at RAY_ADDRESS={address}; start it, or unset RAY_ADDRESS for a local one"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as missing:
        raise MissingDependencyError(HOW_TO_GET_IT.format(missing)) from missing
    return ray


@contextmanager
def said_plainly(ray: Any) -> Iterator[None]:
    """An error that a worker raised for a person to read is raised here as it was there; that it died is said, too."""
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
            f"engine 'ray': a worker died and was started again {RETRIES} times in vain ({type(died).__name__}), most "
            "often for want of memory; use more and smaller shards or machines with more memory, or engine 'local'"
        ) from None


def packed(thing: Any) -> bytes:
    """For another process of the same Ray session, and for nobody else: no file is ever written or read so.

    Ray would share arrays with all workers of a machine, as arrays that cannot be written to: other code would be
    compiled for them than in this process.
    """
    return bytes(_ray().cloudpickle.dumps(thing))


def unpacked(content: bytes) -> Any:
    """In a worker, what the driver packed."""
    return _ray().cloudpickle.loads(content)


def free_processors(ray: Any) -> float:
    return float(ray.available_resources().get("CPU", 0.0))


def worker_count(ray: Any) -> int:
    """As many as the cluster has processors."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def ray_crews(ray: Any) -> Iterator[Recruit]:
    """A way to recruit crews whose workers end with the block."""
    crews: list[RayCrew] = []

    def recruit(member: Callable[[Sequence[Shard]], Any], shards: Sequence[Shard]) -> Crew:
        crews.append(RayCrew(ray, member, shards))
        return crews[-1]

    try:
        yield recruit
    finally:
        for crew in crews:
            crew.dismiss()


class Worker:
    """A member of a crew in a process of its own, with one shard, on one thread.

    Every question names where the shard is stored, in a list so that Ray does not fetch it each time: a worker that has
    just started, as the first or in the place of one that died, takes it from there.
    """

    def __init__(self) -> None:
        import ray

        torch.set_num_threads(1)
        _send_tensors_as_arrays(ray)
        self._member: Any = None

    def is_there(self) -> bool:
        """Answered once the process has its processor and has started."""
        return True

    def ask(self, stored: list[Any], question: str, *message: Any) -> Any:
        return getattr(self._ready(stored), question)(*message)

    def advance(self, stored: list[Any], question: str, states: Any, *message: Any) -> tuple[Any, Any]:
        answers, states = getattr(self._ready(stored), question)(states, *message)
        return answers, states

    def _ready(self, stored: list[Any]) -> Any:
        if self._member is None:
            import ray

            member, metrics, shard = unpacked(ray.get(stored[0]))
            METRICS.update(metrics)  # those that somebody registered over there
            self._member = member([shard])
        return self._member


class RayCrew:
    """One worker a shard."""

    def __init__(self, ray: Any, member: Callable[[Sequence[Shard]], Any], shards: Sequence[Shard]) -> None:
        self._ray = ray
        _send_tensors_as_arrays(ray)
        self._share = share = min(1.0, math.floor(1e4 * worker_count(ray) / len(shards)) / 1e4)
        remote = ray.remote(num_cpus=share, max_restarts=RETRIES, max_task_retries=RETRIES)(Worker)
        # held here: who starts again reads it once more
        stored = [ray.put(packed((member, dict(METRICS), shard))) for shard in shards]
        others_have_some = free_processors(ray) < share * len(shards)
        self._workers = [(remote.remote(), [it]) for it in stored]
        self._awaited = [worker.is_there.remote() for worker, _ in self._workers] if others_have_some else []
        self._states: list[Any] = []

    def ask(self, question: str, *message: Any) -> list[Any]:
        return _in_order(self._got([worker.ask.remote(stored, question, *message) for worker, stored in self._workers]))

    def ask_one(self, question: str, *message: Any) -> Any:
        worker, stored = self._workers[0]
        return self._got([worker.ask.remote(stored, question, *message)])[0]

    def start(self, states: list[Any]) -> None:
        self._states = [self._ray.put([state]) for state in states]

    def advance(self, question: str, *message: Any) -> list[Any]:
        """What members remember stays in the object store beside them, where it outlives them."""
        asked = [
            worker.advance.options(num_returns=2).remote(stored, question, state, *message)
            for (worker, stored), state in zip(self._workers, self._states, strict=True)
        ]
        self._states = [state for _, state in asked]
        return _in_order(self._got([answers for answers, _ in asked]))

    def states(self) -> list[Any]:
        return _in_order(self._got(self._states))

    def post(self, array: Tensor) -> Any:
        return self._ray.put(array)

    def dismiss(self) -> None:
        for worker, _ in self._workers:
            self._ray.kill(worker)
        self._ray.util.deregister_serializer(Tensor)

    def _got(self, answers: list[Any]) -> list[Any]:
        with said_plainly(self._ray):
            self._say_if_waiting()
            found: list[Any] = self._ray.get(answers)
        return found

    def _say_if_waiting(self) -> None:
        """Once, and only of a crew that found less than it needs: a cluster waits for processors without a word."""
        if not self._awaited:
            return
        _, missing = self._ray.wait(self._awaited, num_returns=len(self._awaited), timeout=TOLD_AFTER)
        self._awaited = []
        if missing:
            log.warning(
                "engine 'ray' waits for %g processors of the cluster at %s, of which %g are free; it goes on once"
                " others give some back: ask for fewer shards, or for engine 'local', to wait for nobody",
                *(self._share * len(missing), self._ray.get_runtime_context().gcs_address, free_processors(self._ray)),
            )


def _send_tensors_as_arrays(ray: Any) -> None:
    """Arrays travel ten times faster than tensors, of which a message holds many small ones; flags travel as bits."""
    ray.util.register_serializer(Tensor, serializer=_as_array, deserializer=_as_tensor)


def _as_array(tensor: Tensor) -> tuple[NDArray[Any], tuple[int, ...] | None]:
    array = tensor.detach().cpu().numpy()
    return (np.packbits(array), array.shape) if array.dtype == np.bool_ else (array, None)


def _as_tensor(sent: tuple[NDArray[Any], tuple[int, ...] | None]) -> Tensor:
    array, shape = sent
    if shape is None:
        return torch.from_numpy(array.copy())  # what comes out of the object store cannot be written to
    return torch.from_numpy(np.unpackbits(array, count=math.prod(shape)).astype(np.bool_).reshape(shape))


def _in_order(answers: list[list[Any]]) -> list[Any]:
    return [answer for of_worker in answers for answer in of_worker]
