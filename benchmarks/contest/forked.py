"""An executor whose processes begin as copies of this one, so that they share its problems."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_shared: list[Any] = []


def _call(piece: Any) -> Any:
    torch.set_num_threads(1)
    task, shared = _shared[-1]
    return task(shared, piece)


class Forked:
    """Runs pieces in as many processes as this one may use processors; see ``recprism.common.executor.Executor``.

    A GPU cannot be shared by copies of a process: hide it (``CUDA_VISIBLE_DEVICES=``) after the training.
    """

    in_process = False

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to close."""

    def map(self, task: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any], **_: Any) -> Iterator[Any]:
        """Call ``task(shared, piece)`` for each piece; the results are in the order of the pieces."""
        torch.set_num_threads(1)
        task(shared, pieces[0])  # compiles before there are copies
        _shared.append((task, shared))
        try:
            with multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0))) as pool:
                yield from pool.imap(_call, pieces)
        finally:
            _shared.pop()
