"""Non-personalised popularity baseline."""

from __future__ import annotations

import numpy as np

from recprism.data.split import Split
from recprism.models.factors import Factors


def popularity(split: Split) -> Factors:
    """Return vectors of one factor that rank items by their number of training users."""
    counts = split.train.col_counts.astype(np.float32)[:, None]
    same = np.ones((split.n_users, 1), np.float32)
    settings = {"model": "popularity"}
    return Factors.from_arrays(same, counts, user_ids=split.user_ids, item_ids=split.item_ids, settings=settings)
