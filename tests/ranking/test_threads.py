"""Threads are reused from one call to the next, however many of them each call can use."""

from __future__ import annotations

import threading

import torch

from recprism.common.threads import share_work


def test_helpers_are_the_same_threads_for_any_amount_of_work() -> None:
    before, seen = torch.get_num_threads(), set()

    def on_threads(count: int) -> None:
        all_of_them = threading.Barrier(count, timeout=60)

        def task(first: int, last: int) -> None:
            seen.add(threading.current_thread())
            all_of_them.wait()  # no thread takes two

        share_work(task, count, 1)

    torch.set_num_threads(4)
    try:
        for count in (2, 4, 3, 2, 4):
            on_threads(count)
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 4, "this one and three helpers"
