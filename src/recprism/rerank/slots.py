"""Slot filling: keep the best of the list, give the last places away."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker, require_one_of, require_whole
from recprism.rerank.exposure import spread
from recprism.rerank.features import Features
from recprism.rerank.xquad import cover


@dataclass(frozen=True, kw_only=True)
class SlotFilling(Reranker):
    """Keeps the best k - m candidates and fills m places by diversity alone, of equals the more relevant.

    m is ``slots``, or, if that is None, the share ``trade_off`` of the k places to the nearest whole number, halves up.

    fill: "coverage" takes what covers most new subtopics, one after another (xQuAD at 1 with uniform intents);
        "exposure" takes what was shown least, everybody's kept places counted first and filled ones as users are served
    slots: how many places to fill, whatever ``trade_off`` says; k or more fill all
    seed: the order in which "exposure" serves users, as in ExposureAware
    """

    fill: str = "coverage"
    slots: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("fill", self.fill, ("coverage", "exposure"))
        require_whole("seed", self.seed, "for the order of the rows")
        require_whole("slots", self.slots, "to go by trade_off")

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        kept = k - min(k, math.floor(k * self.trade_off + 0.5) if self.slots is None else self.slots)
        if self.fill == "exposure":
            return spread(pool, features, k, trade_off=1.0, seed=self.seed, kept=kept)
        return cover(pool, features, features.uniform_intents, k, trade_off=1.0, kept=kept)
