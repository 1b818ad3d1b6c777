"""Log lines for the phases of long work: when each begins, when it ends, and how long it took."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def phase(what: str, logger: str) -> Iterator[None]:
    """Log the start and the end of a phase, at level INFO.

    It works in a ``with`` statement and as a decorator.

    Args:
        what: What is being done, such as "training".
        logger: The ``__name__`` of the calling module. All loggers of the library are children of ``recprism``.
    """
    log = logging.getLogger(logger)
    log.info("%s: started", what)
    start = perf_counter()
    try:
        yield
    except BaseException as error:
        log.info("%s: stopped after %.2f s (%s)", what, perf_counter() - start, type(error).__name__)
        raise
    log.info("%s: done in %.2f s", what, perf_counter() - start)
