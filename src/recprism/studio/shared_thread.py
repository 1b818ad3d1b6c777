"""One thread per kind of work, shared by all studios of this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import cache
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SharedThread(Executor):
    """A studio's queue for a thread that outlives the studio.

    Memory allocators and OpenMP hold buffers for each thread. A new thread per studio would leak them
    (docs/reliability.md, long runs).

    Args:
        kind: The kind of work; executors of one kind share a thread.
    """

    def __init__(self, kind: str) -> None:
        self._thread = _kept(kind)
        self._unfinished: set[Future[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._closed:
            raise RuntimeError("this studio is closed and takes no more work")
        future = self._thread.submit(fn, *args, **kwargs)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End this studio's work; work of other studios continues."""
        self._closed = True
        left = [it for it in tuple(self._unfinished) if not (cancel_futures and it.cancel())]
        if wait:
            wait_for(left)


@cache
def _kept(kind: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f"recprism-{kind}")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_kept.cache_clear)
