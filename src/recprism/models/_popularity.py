"""The baseline that knows nobody: the same most popular items for all, but for what each has seen."""

from __future__ import annotations

import numpy as np

from recprism.data.split import Split
from recprism.models.factors import Factors


def popularity(split: Split) -> Factors:
    """Vectors of one factor that rank items by how many users have them in the training part."""
    counts = split.train.col_counts.astype(np.float32)[:, None]
    everybody = np.ones((split.n_users, 1), np.float32)
    settings = {"model": "popularity"}
    return Factors.from_arrays(everybody, counts, user_ids=split.user_ids, item_ids=split.item_ids, settings=settings)
