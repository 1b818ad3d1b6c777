"""Calibration as a flow of minimum cost (after Abdollahpouri, Nazari, Gain et al., 2023), solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recprism.rivals._kernels.flows import calibrated_flow
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class CalibratedFlow(Reranker):
    """The list with the largest (1 - t) * sum of relevance + t * filled quotas, exactly; sorted by score.

    t is ``trade_off``. k places flow from the categories of the user's history (``Features(user_categories=...)``) to
    the items of the list. An item serves one of its categories, or none. The quota of a category is k times its share
    of the history, and items above the quota fill nothing. So the filled quotas are k * (1 - total variation distance)
    between the history and what the list serves.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        wanted = features.intents(pool.n_users)
        rows = features.categories.rows
        return pool.choose(calibrated_flow, k, (rows.indptr, rows.indices), wanted, float(self.trade_off), TIE)
