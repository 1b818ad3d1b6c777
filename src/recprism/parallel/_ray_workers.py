"""A worker pool on a Ray cluster: one worker per shard, each in its own process, on this machine or another.

The data of a shard (vectors, seen items, labels) goes into Ray's object store once. Ray restarts a worker that dies.
The new process fetches its shard from the store and repeats the call, whose arguments hold everything it needs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.metrics import METRICS
from recprism.parallel._ray_session import RETRIES, cpu_count, free_cpus, packed, plain_errors, unpacked

WARN_AFTER = 5.0
"""Seconds after which a pool that waits for CPUs logs a warning."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Worker = TypeVar("Worker")
State = TypeVar("State")

log = logging.getLogger(__name__)


class RayWorker:
    """A worker of a search in its own process, with one shard, on one thread.

    Every call names where the shard is stored, inside a list so that Ray does not fetch it each time. A process that
    has just started, also after another one died, loads it from there.
    """

    def __init__(self) -> None:
        import ray

        torch.set_num_threads(1)
        _send_tensors_as_arrays(ray)
        self._worker: Any = None

    def is_there(self) -> bool:
        """Answered once the process has its CPU and has started."""
        return True

    def call(self, stored: list[Any], function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self._ready(stored), *args, **kwargs)

    def advance(
        self, stored: list[Any], function: Callable[..., Any], states: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        results, states = function(self._ready(stored), states, *args, **kwargs)
        return results, states

    def _ready(self, stored: list[Any]) -> Any:
        if self._worker is None:
            import ray

            make, metrics, shard = unpacked(ray.get(stored[0]))
            METRICS.update(metrics)  # those registered in the driver
            self._worker = make([shard])
        return self._worker


class RayWorkerPool(Generic[Worker, State]):
    """One :class:`RayWorker` per shard; see :class:`recprism.common.executor.WorkerPool`.

    Functions travel by reference: a worker imports the module that defines them.
    """

    def __init__(self, ray: Any, make: Callable[[Sequence[Any]], Worker], shards: Sequence[Any]) -> None:
        self._ray = ray
        _send_tensors_as_arrays(ray)
        self._share = share = min(1.0, math.floor(1e4 * cpu_count(ray) / len(shards)) / 1e4)
        remote = ray.remote(num_cpus=share, max_restarts=RETRIES, max_task_retries=RETRIES)(RayWorker)
        # The pool holds these references: a restarted worker reads its shard again.
        stored = [ray.put(packed((make, dict(METRICS), shard))) for shard in shards]
        may_wait = free_cpus(ray) < share * len(shards)
        self._workers = [(remote.remote(), [it]) for it in stored]
        self._awaited = [worker.is_there.remote() for worker, _ in self._workers] if may_wait else []
        self._states: list[Any] = []

    def call(
        self,
        function: Callable[Concatenate[Worker, Arguments], list[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Result]:
        asked = [worker.call.remote(stored, function, *args, **kwargs) for worker, stored in self._workers]
        return _in_order(self._get(asked))

    def call_one(
        self,
        function: Callable[Concatenate[Worker, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        worker, stored = self._workers[0]
        (result,) = self._get([worker.call.remote(stored, function, *args, **kwargs)])
        return cast(Result, result)

    def set_states(self, states: Sequence[State]) -> None:
        self._states = [self._ray.put([state]) for state in states]

    def advance(
        self,
        function: Callable[Concatenate[Worker, list[State], Arguments], tuple[list[Result], list[State]]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Result]:
        """As in the protocol; states stay in the object store near the workers and survive them."""
        asked = [
            worker.advance.options(num_returns=2).remote(stored, function, state, *args, **kwargs)
            for (worker, stored), state in zip(self._workers, self._states, strict=True)
        ]
        self._states = [state for _, state in asked]
        return _in_order(self._get([results for results, _ in asked]))

    def states(self) -> list[State]:
        return _in_order(self._get(self._states))

    def post(self, array: Tensor) -> Tensor:
        # Ray replaces the reference by the array when it is an argument of a call.
        return cast(Tensor, self._ray.put(array))

    def close(self) -> None:
        for worker, _ in self._workers:
            self._ray.kill(worker)
        self._ray.util.deregister_serializer(Tensor)

    def _get(self, asked: list[Any]) -> list[Any]:
        with plain_errors(self._ray):
            self._warn_if_waiting()
            found: list[Any] = self._ray.get(asked)
        return found

    def _warn_if_waiting(self) -> None:
        """Once, for a pool that found too few free CPUs: Ray itself waits without a message."""
        if not self._awaited:
            return
        _, missing = self._ray.wait(self._awaited, num_returns=len(self._awaited), timeout=WARN_AFTER)
        self._awaited = []
        if missing:
            log.warning(
                "the Ray executor waits for %g CPUs of the cluster at %s, of which %g are free; it continues when "
                "other jobs release some. Use fewer shards or the local executor to avoid the wait",
                *(self._share * len(missing), self._ray.get_runtime_context().gcs_address, free_cpus(self._ray)),
            )


def _send_tensors_as_arrays(ray: Any) -> None:
    """Arrays travel ten times faster than tensors, of which a message has many small ones; flags travel as bits."""
    ray.util.register_serializer(Tensor, serializer=_as_array, deserializer=_as_tensor)


def _as_array(tensor: Tensor) -> tuple[NDArray[Any], tuple[int, ...] | None]:
    array = tensor.detach().cpu().numpy()
    return (np.packbits(array), array.shape) if array.dtype == np.bool_ else (array, None)


def _as_tensor(sent: tuple[NDArray[Any], tuple[int, ...] | None]) -> Tensor:
    array, shape = sent
    if shape is None:
        return torch.from_numpy(array.copy())  # arrays from the object store cannot be written to
    return torch.from_numpy(np.unpackbits(array, count=math.prod(shape)).astype(np.bool_).reshape(shape))


def _in_order(results: list[list[Any]]) -> list[Any]:
    return [result for of_worker in results for result in of_worker]
