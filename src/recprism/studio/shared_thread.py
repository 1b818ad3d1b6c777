"""One thread for one kind of work, shared by all studios of this process."""

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
    """A studio's own queue for a thread that outlives it.

    The thread is kept: memory allocators and OpenMP hold buffers for each thread, and one made anew for every studio
    leaves its share behind in yet another place (docs/reliability.md, long runs).
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
        """End this studio's work; that of others goes on."""
        self._closed = True
        left = [it for it in tuple(self._unfinished) if not (cancel_futures and it.cancel())]
        if wait:
            wait_for(left)


@cache
def _kept(kind: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=f"recprism-{kind}")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_kept.cache_clear)
