"""Re-rankers by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from recprism.errors import InputError
from recprism.rerank.base import Reranker

RERANKERS: dict[str, Callable[..., Reranker]] = {}


def register(name: str, make: Callable[..., Reranker], *, replace: bool = False) -> None:
    """Register a re-ranker by name.

    Args:
        name: Lower case, with underscores between words.
        make: Creates the re-ranker from keyword settings, which include ``trade_off`` and ``sort_back``.
        replace: Allow a name that is already registered.

    Raises:
        InputError: The name is malformed, or already registered.

    Stability: stable.
    """
    if name != _plain(name):
        raise InputError(f"a re-ranker's name is lower case, with _ between words, not {name!r}")
    if not replace and name in RERANKERS:
        raise InputError(f"there is a re-ranker called {name!r} already; choose another name or pass replace=True")
    RERANKERS[name] = make


def reranker(name: str, **settings: Any) -> Reranker:
    """Create a re-ranker by name.

    Args:
        name: A key of ``RERANKERS``; case, spaces and hyphens do not matter.
        **settings: Settings of the re-ranker.

    Returns:
        The re-ranker.

    Raises:
        InputError: The name or a setting is unknown, or a setting is out of range.

    >>> reranker("mmr", trade_off=0.3)
    MMR(trade_off=0.3, sort_back=False, similarity='vectors')
    >>> reranker("mrm")
    Traceback (most recent call last):
        ...
    recprism.errors.InputError: unknown re-ranker 'mrm'; did you mean 'mmr'?

    Stability: stable.
    """
    plain = _plain(name)
    if plain not in RERANKERS:
        close = get_close_matches(plain, RERANKERS, n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else f"there are {', '.join(sorted(RERANKERS))}"
        raise InputError(f"unknown re-ranker {name!r}; {hint}")
    try:
        return RERANKERS[plain](**settings)
    except TypeError as problem:  # a setting it does not have
        raise InputError(f"re-ranker {plain!r}: {problem}") from None


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


# Re-rankers register themselves when their module is imported. To add one, add its module here.
from recprism.rerank import (  # noqa: E402
    calibrated,  # noqa: F401
    dpp,  # noqa: F401
    dpp_window,  # noqa: F401
    exposure,  # noqa: F401
    mmr,  # noqa: F401
    msd,  # noqa: F401
    optimal,  # noqa: F401
    pm2,  # noqa: F401
    pmmf,  # noqa: F401
    slots,  # noqa: F401
    ssd,  # noqa: F401
    xquad,  # noqa: F401
)
