"""The constraints of a result, in item numbers."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from recprism.data._ids import as_id_array, id_positions
from recprism.runs.config import ConstraintsConfig


def numbered(asked: ConstraintsConfig, item_ids: NDArray[Any]) -> dict[str, Any]:
    """Return constraints as :class:`recprism.budget.Scenario` takes them: ids become item numbers."""

    def number(item: int | str) -> int:
        return int(id_positions(as_id_array([item], "item"), item_ids, "item")[0])

    return {
        "banned": sorted({number(item) for item in asked.banned}),
        "pinned": {int(place): number(item) for place, item in asked.pinned.items()},
        "min_share": asked.min_share,
        "max_share": asked.max_share,
        "tail_floor": asked.tail_floor,
        "per_user_diversity": "history" if asked.per_user_diversity else None,
    }
