"""Diversity in training: BPR whose positives are drawn more often where their categories are rare for the user."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from contest.base_models.tuned import tuned_settings
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.models import BPRMF, Factors
from recprism.models.sampling import Batch, Triples
from recprism.rule import category_probabilities

STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Powers of the inverse share; each is one training. This is the method's trade-off."""


def positive_weights(train: SparseRows, categories: Categories, strength: float) -> NDArray[np.float64]:
    """Return the weight of each training interaction, (n,): the inverse share of its categories, to a power.

    The share of an interaction is the mean over the item's categories of their shares in the user's history. Weights
    of a user have mean 1, so that no user counts more than before. Items without categories have the user's mean.

    Args:
        train: Training interactions, (n_users, n_items).
        categories: The categories of the items.
        strength: The power; 0 weighs all alike.
    """
    shares = category_probabilities(train, categories)
    has = categories.items.row_counts[train.indices]
    dense = np.zeros((categories.items.n_rows, categories.items.n_cols))
    dense[categories.items.row_of_entry, categories.items.indices] = 1.0
    users = train.row_of_entry
    share = np.empty(len(train))
    for rows in np.array_split(np.arange(len(train)), max(1, len(train) // 100_000)):  # bounded memory
        share[rows] = (shares[users[rows]] * dense[train.indices[rows]]).sum(1)
    known = (has > 0) & (share > 0)
    weight = np.where(known, (np.where(known, share, 1.0) / np.maximum(has, 1)) ** -strength, np.nan)
    totals = np.bincount(users[known], weight[known], minlength=train.n_rows)
    counts = np.bincount(users[known], minlength=train.n_rows)
    mean = np.where(counts > 0, totals / np.maximum(counts, 1), 1.0)[users]
    return np.asarray(np.where(known, weight / mean, 1.0))


class _WeightedTriples(Triples):
    """Triples whose positives are drawn with replacement, in proportion to their weights."""

    def __init__(self, train: SparseRows, negatives: int, device: torch.device, weights: NDArray[np.float64]) -> None:
        super().__init__(train, negatives, device)
        lacks_some = train.row_counts[train.row_of_entry] < train.n_cols
        self._weights = torch.from_numpy(weights[lacks_some]).to(device)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        order = torch.multinomial(self._weights, len(self), replacement=True, generator=generator)
        for first in range(0, len(order), size):
            rows = order[first : first + size].sort().values
            users = self._users[rows]
            yield Batch(users, self._positives[rows], self._sampler.draw(users, self._negatives, generator))


def train_reweighted(
    split: Split, categories: Categories, strength: float, *, dataset: str, seed: int, device: str = "auto"
) -> Factors:
    """Train BPRMF, with the settings tuned for the base model, on reweighted positives; see ``positive_weights``.

    Args:
        split: Training and validation interactions.
        categories: The categories of the items.
        strength: Power of the inverse share.
        dataset: Name of the data set, for the settings.
        seed: Seed of the training.
        device: Device of the training.
    """
    weights = positive_weights(split.train, categories, strength)

    class Reweighted(BPRMF):
        def _triples(self, split: Split, device: torch.device, generator: torch.Generator) -> Triples:  # noqa: ARG002
            return _WeightedTriples(split.train, self.negatives, device, weights)

    settings = tuned_settings("bprmf", dataset, str(split.settings.get("method")))
    return Reweighted.preset(**settings).fit(split, seed=seed, device=device)
