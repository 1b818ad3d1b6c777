"""What reasons say of earlier pages: categories that these lacked, if an item is in the list because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.explain.reasons.reruns import Reruns


class EarlierPages(NamedTuple):
    """What reasons say of earlier pages.

    Attributes:
        without: On how many of the last pages no item had the category, (n_categories,).
        left: The share of a category that the page before leaves.
        by_distance: Whether distances to items of earlier pages count.
    """

    without: NDArray[np.int64]
    left: float
    by_distance: bool


def name_pages(
    newcomers: Sequence[tuple[int, dict[str, Any], Mapping[str, int]]],
    pages: EarlierPages | None,
    reruns: Reruns | None,
) -> None:
    """Name the categories that earlier pages lacked, if the item is not in the list had the last one had them.

    Args:
        newcomers: Position, what decides the exchange, and name -> number of its categories.
        pages: The earlier pages; None if there are none.
        reruns: Makes the list again.
    """
    if pages is None or reruns is None:
        return
    asked = []
    for at, own, numbers in newcomers:
        own["after_pages"] = pages.by_distance
        single = [] if "for_variety" in own["together"] else own["for_variety"]
        asked += [(at, own, name, numbers[name]) for name in single if pages.without[numbers[name]] > 0]
    stays = reruns.stays_if_shown([(at, number) for at, _, _, number in asked], pages.left)
    for (_, own, name, number), stay in zip(asked, stays, strict=True):
        if not stay:
            own["not_lately"][name] = int(pages.without[number])
