"""What a user's history says about categories."""

from __future__ import annotations

from typing import Any

from recprism.common.compile import compiled


@compiled
def add_shares(items: Any, indptr: Any, indices: Any, shares: Any, amount: Any) -> None:
    """Add the shares of the items' categories.

    Args:
        items: Item numbers, (n,).
        indptr: The entries of item i are those from indptr[i] to indptr[i + 1].
        indices: Category of each entry.
        shares: Share of the item that each entry has; those of an item add up to 1.
        amount: Receives the sums, (n_categories,) float64.
    """
    for at in range(len(items)):
        for entry in range(indptr[items[at]], indptr[items[at] + 1]):
            amount[indices[entry]] += shares[entry]
