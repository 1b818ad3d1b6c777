"""Work shared among plain threads: for compiled loops, which let go of the interpreter.

Threads and not OpenMP: torch has its own OpenMP threads, and two pools on the same cores wait for each other.
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
    """What ``task(first, last)`` returns for each run of ``step`` out of n, on as many threads as torch may use.

    Runs are the same for any number of threads; each goes to whoever comes first, this thread included.
    """
    starts = range(0, n, step)
    results: list[R | None] = [None] * len(starts)
    waiting = iter(enumerate(starts))

    def work() -> None:
        for number, first in waiting:
            results[number] = task(first, min(first + step, n))

    threads = min(torch.get_num_threads(), len(starts))
    most = torch.get_num_threads() - 1  # one pool for calls of any size: another would be made of new threads
    helpers = [_threads(most).submit(work) for _ in range(threads - 1)]
    try:
        work()
    except BaseException:
        for _ in waiting:  # the others end what they have begun, and begin nothing more
            pass
        raise
    finally:
        for helper in helpers:
            if not helper.cancel():  # one that has not begun by now is not needed
                helper.result()
    return results  # type: ignore[return-value]  # every place is filled: work() ends when none is waiting


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch in this thread alone: for many small operations, where to wake the others takes longer than the work, and
    for sums that must come out the same on any number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="recprism")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)
