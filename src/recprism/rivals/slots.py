"""Slot filling: keep the best of the list and fill the last places by diversity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recprism.common.checks import Check, OneOf, Whole
from recprism.rivals.exposure import ORDER_SEED, spread
from recprism.rivals.xquad import cover
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class SlotFilling(Reranker):
    """Keeps the best k - m candidates and fills m places by diversity alone.

    Of equally diverse candidates the more relevant wins. m is ``slots``, or, if that is None, ``trade_off`` * k rounded
    to the nearest whole number, halves up.

    Attributes:
        fill: "coverage" takes the items that cover most new categories, one after another (xQuAD at 1 with uniform
            intents). "exposure" takes the items that were shown least. The kept places of all users count first, and
            filled places count as users are served.
        slots: How many places to fill, independent of ``trade_off``; k or more fill all.
        seed: The order in which "exposure" serves users, as in :class:`ExposureAware`.
    """

    fill: str = "coverage"
    slots: int | None = None
    seed: int | None = None

    rules: ClassVar[Mapping[str, Check]] = {
        **Reranker.rules,
        "fill": OneOf(("coverage", "exposure")),
        "slots": Whole(0, none="to go by trade_off"),
        "seed": ORDER_SEED,
    }

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        kept = k - min(k, math.floor(k * self.trade_off + 0.5) if self.slots is None else self.slots)
        if self.fill == "exposure":
            return spread(pool, features, k, trade_off=1.0, seed=self.seed, kept=kept)
        return cover(pool, features, features.uniform_intents, k, trade_off=1.0, kept=kept)
