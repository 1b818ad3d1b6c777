"""Work shared among Python threads, for compiled loops, which release the interpreter lock.

OpenMP is not used: torch has its own OpenMP threads, and two pools on the same cores would wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import torch

R = TypeVar("R")


def share_work(task: Callable[[int, int], R], n: int, step: int) -> list[R]:
    """Call ``task(first, last)`` for each part of ``step`` out of n, on as many threads as torch uses.

    The parts are the same for any number of threads. Each goes to the next free thread, this one included.

    Args:
        task: Called with the first number of a part and the one after its last.
        n: Number of all.
        step: Size of a part.

    Returns:
        The results of the parts, in order.
    """
    starts = range(0, n, step)
    results: list[R | None] = [None] * len(starts)
    waiting = iter(enumerate(starts))

    def work() -> None:
        for number, first in waiting:
            results[number] = task(first, min(first + step, n))

    threads = min(torch.get_num_threads(), len(starts))
    most = torch.get_num_threads() - 1  # one pool for calls of any size, so that threads are not created again
    helpers = [_threads(most).submit(work) for _ in range(threads - 1)]
    try:
        work()
    except BaseException:
        for _ in waiting:  # the other threads finish their part and start no other
            pass
        raise
    finally:
        for helper in helpers:
            if not helper.cancel():  # one that has not started is not needed
                helper.result()
    return results  # type: ignore[return-value]  # work() returns when no part is waiting


@contextmanager
def one_thread() -> Iterator[None]:
    """Use torch in this thread alone.

    It is for many small operations, where waking other threads takes longer than the work. It also makes sums
    independent of the number of threads.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="recprism")


if hasattr(os, "register_at_fork"):  # a forked process does not have its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)
