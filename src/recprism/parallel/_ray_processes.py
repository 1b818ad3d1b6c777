"""Processes of a Ray cluster that call one task for many pieces.

They are Ray's actors and not its tasks, because a piece must end when its caller does not want it any more. Ray ends an
actor's process at once. A request to cancel a task can be lost, and one that meets the end of its task can end the
process that asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from recprism.parallel._ray_session import RETRIES, cpu_count, plain_errors, unpacked

PATIENCE = 10.0
"""Seconds without any result after which processes that have no piece give their CPUs back."""


class RayProcess:
    """One process with one CPU."""

    def is_there(self) -> None:
        """Answered once the process has its CPU and has started."""

    def run(self, stored: bytes, piece: bytes) -> Any:
        """Bytes become arrays that can be written to; those that Ray unpacks cannot."""
        task, shared = unpacked(stored)
        return task(shared, unpacked(piece))


class RayProcesses:
    """At most one process per CPU of the cluster; started when pieces ask for them, and kept for later pieces."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._all: list[Any] = []
        self._idle: list[Any] = []

    def results(self, stored: Any, pieces: Iterator[bytes], n_pieces: int) -> Iterator[Any]:
        """The result of each piece, in their order; a piece whose process dies is repeated.

        If a piece fails, or the caller is interrupted, the processes of the other pieces end. If the caller stops
        iterating, no more pieces begin; those that run go on, because starting new processes usually takes longer.
        """
        busy = self._start(n_pieces)
        waiting, done = enumerate(pieces), {}
        try:
            for number in range(n_pieces):
                while number not in done:
                    ready, _ = self._ray.wait(list(busy), timeout=PATIENCE)
                    if not ready:
                        self._end(self._idle)  # a process that restarts may wait for their CPUs
                        continue
                    process, piece = busy.pop(ready[0])
                    done[piece] = ready[0]
                    following = next(waiting, None)
                    if following is None:
                        self._idle.append(process)
                    else:
                        busy[process.run.remote(stored, following[1])] = process, following[0]
                with plain_errors(self._ray):
                    found = self._ray.get(done.pop(number))
                yield found
            self._keep(busy)
        except GeneratorExit:
            self._keep(busy)
            raise
        except BaseException:
            self._end([process for process, _ in busy.values()])
            raise

    def close(self) -> None:
        """End all processes, and give their CPUs back."""
        self._end(self._all)

    def _start(self, n_pieces: int) -> dict[Any, tuple[Any, int]]:
        """Processes by the answer that says that they are there; they have negative numbers instead of a piece's."""
        remote = self._ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=RETRIES)(RayProcess)
        missing = min(n_pieces, cpu_count(self._ray)) - len(self._idle)
        new = [remote.remote() for _ in range(missing)]
        processes, self._idle, self._all = self._idle + new, [], self._all + new
        return {process.is_there.remote(): (process, -number) for process, number in zip(processes, count(1))}

    def _keep(self, busy: Mapping[Any, tuple[Any, int]]) -> None:
        """Let these processes serve later pieces when they are done; unless all were ended in the meantime."""
        self._idle += [process for process, _ in busy.values() if process in self._all]

    def _end(self, processes: Sequence[Any]) -> None:
        for process in processes if self._ray.is_initialized() else ():
            self._ray.kill(process)
        self._all = [process for process in self._all if process not in processes]
        self._idle = [process for process in self._idle if process not in processes]
