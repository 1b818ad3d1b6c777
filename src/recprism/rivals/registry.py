"""Re-rankers by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any

from recprism.errors import InputError
from recprism.metrics.metric import plain_name
from recprism.rivals.calibrated import Calibrated
from recprism.rivals.calibrated_flow import CalibratedFlow
from recprism.rivals.dpp import DPP
from recprism.rivals.dpp_window import SlidingDPP
from recprism.rivals.exposure import ExposureAware
from recprism.rivals.greedy import Greedy
from recprism.rivals.mmr import MMR
from recprism.rivals.msd import MSD
from recprism.rivals.pm2 import PM2
from recprism.rivals.pmmf import PMMF
from recprism.rivals.slots import SlotFilling
from recprism.rivals.ssd import SSD
from recprism.rivals.xquad import XQuAD
from recprism.rule.base import Reranker
from recprism.rule.goal import TERMS
from recprism.rule.list_search import ListSearch

RERANKERS: dict[str, Callable[..., Reranker]] = {
    "calibrated": Calibrated,
    "calibrated_flow": CalibratedFlow,
    "dpp": DPP,
    "dpp_window": SlidingDPP,
    "exposure": ExposureAware,
    "greedy": Greedy,
    "mmr": MMR,
    "msd": MSD,
    "optimal": ListSearch,
    **{
        f"optimal_{name}": partial(ListSearch, goals=MappingProxyType({name: 1.0}))
        for name, term in TERMS.items()
        if not term.is_exposure
    },
    "pm2": PM2,
    "pmmf": PMMF,
    "xquad": XQuAD,
    "xquad_uniform": partial(XQuAD, intents="uniform"),
    "slots_coverage": partial(SlotFilling, fill="coverage"),
    "slots_exposure": partial(SlotFilling, fill="exposure"),
    "ssd": SSD,
}
"""Every re-ranker by name. A new one is a file and its line here."""


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
    plain = plain_name(name)
    if plain not in RERANKERS:
        close = get_close_matches(plain, RERANKERS, n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else f"there are {', '.join(sorted(RERANKERS))}"
        raise InputError(f"unknown re-ranker {name!r}; {hint}")
    try:
        return RERANKERS[plain](**settings)
    except TypeError as problem:  # a setting it does not have
        raise InputError(f"re-ranker {plain!r}: {problem}") from None
