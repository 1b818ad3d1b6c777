"""Progress of long work: the library calls a function of the caller, and never prints."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

ProgressCallback = Callable[[str, int, int], None]
"""Receives what is being done, how many of its steps are done, and how many there are."""


def count_steps(on_step: ProgressCallback | None, what: str, total: int) -> Callable[[], None]:
    """Report steps one by one.

    Args:
        on_step: Receives ``what``, the number of steps done and ``total``. The first call, with 0, is immediate.
        what: What is being done, for a person to read.
        total: The largest possible number of steps.

    Returns:
        A function to call after each step, from any thread.

    >>> step = count_steps(lambda what, done, total: print(what, done, total), "walking", 2)
    walking 0 2
    >>> step()
    walking 1 2
    """
    done = count()

    def step() -> None:
        steps = next(done)
        if on_step is not None:
            on_step(what, steps, total)

    step()
    return step
