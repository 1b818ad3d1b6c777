"""Lists as tables, and users by their ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import as_id_array, id_positions, id_series


def rows_of(model: Any, users: Any) -> NDArray[np.int64]:
    """Return ``(n,)`` row numbers of user ids; all of them for None."""
    if users is None:
        return np.arange(model.n_users)
    wanted = [users] if np.isscalar(users) else users
    return id_positions(as_id_array(wanted, "user", distinct=False), model.user_ids, "user")


def lists_to_frame(model: Any, users: NDArray[Any], items: NDArray[Any], scores: NDArray[Any]) -> pl.DataFrame:
    """Return ``(n, k)`` item numbers, -1 in empty places, as a long table."""
    filled = items >= 0
    rank = np.broadcast_to(np.arange(1, items.shape[1] + 1), items.shape)
    owner = np.broadcast_to(users[:, None], items.shape)
    return pl.DataFrame(
        {
            "user_id": id_series(model.user_ids[owner[filled]]),
            "item_id": id_series(model.item_ids[items[filled]]),
            "rank": rank[filled].astype(np.int32),
            "score": scores[filled],
        }
    )
