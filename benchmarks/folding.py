"""Folding in: vectors for users who joined after the training, from their interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from recprism.common.checks import COUNT, POSITIVE, require_seed
from recprism.common.threads import one_thread
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models.factors import Factors, FloatArray
from recprism.models.sampling import NegativeSampler

STEPS = 30  # of Newton's method; five to eight are usual
HALVINGS = 20
CLOSE = 1e-3  # a step below this share of the vector is the last; the remaining error is about its square


def fold_in(
    factors: Factors,
    interactions: SparseRows | Any,
    *,
    weight_decay: float = 2.0,
    negatives: int = 8,
    seed: int = 0,
) -> FloatArray:
    """Compute vectors for new users with the item vectors held fixed.

    Each vector minimises the BPR loss over the user's items plus ``weight_decay / 2 * |vector|^2``. The loss compares
    each item with ``negatives`` items drawn from the others. This convex problem is solved by Newton's method. A user
    without items, or with all of them, gets the mean user vector, as in training.

    Args:
        factors: The trained model.
        interactions: The items of each new user, (n_rows, n_items); rows are independent of the users of ``factors``.
        weight_decay: L2 penalty; the loss counts each item of the row once. The default is larger than in training,
            because training stops before it reaches the minimum.
        negatives: Drawn per item; with more of them, the result depends less on ``seed``.
        seed: Seed of the draws.

    Returns:
        User vectors, (n_rows, d) float32.

    Raises:
        InputError: The number of items differs, or a setting is out of range.

    """
    taken = SparseRows.coerce(interactions)
    if taken.n_cols != factors.n_items:
        raise InputError(
            f"the interactions have {taken.n_cols} items and the model {factors.n_items}; index both alike"
        )
    POSITIVE.read("weight_decay", weight_decay)
    COUNT.read("negatives", negatives)
    require_seed(seed)
    vectors = np.tile(factors.user.mean(0), (taken.n_rows, 1))
    useful = np.flatnonzero((taken.row_counts > 0) & (taken.row_counts < taken.n_cols))
    own, others = _pairs(taken, useful, negatives, seed)
    first = np.concatenate([[0], np.cumsum(taken.row_counts[useful])]).tolist()
    item = torch.from_numpy(factors.item).double()
    bias = torch.zeros(len(item), dtype=torch.float64)
    if factors.item_bias is not None:
        bias += torch.from_numpy(factors.item_bias)
    start = torch.from_numpy(vectors[:1]).double().flatten()
    with one_thread():
        for row, begin, end in zip(useful, first[:-1], first[1:], strict=True):
            mine, theirs = own[begin:end, None], others[begin:end]
            difference = (item[mine] - item[theirs]).flatten(0, 1)
            handicap = (bias[mine] - bias[theirs]).flatten()
            vectors[row] = _settle(difference, handicap, start, weight_decay, negatives).numpy()
    return vectors


def _pairs(taken: SparseRows, rows: NDArray[np.int64], negatives: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the items of the rows, (n,), and negatives for each of them, (n, negatives)."""
    some = taken.take_rows(rows)
    own = torch.from_numpy(some.indices.astype(np.int64))
    if not len(own):
        return own, torch.empty((0, negatives), dtype=torch.int64)
    place = torch.device("cpu")
    generator = torch.Generator(place).manual_seed(seed)
    return own, NegativeSampler(some, place).draw(torch.from_numpy(some.row_of_entry), negatives, generator)


def _settle(difference: Tensor, handicap: Tensor, vector: Tensor, weight_decay: float, negatives: int) -> Tensor:
    """Minimise by Newton's method; a step is halved until the loss falls.

    Args:
        difference: Vector of the item minus vector of its negative, (n_pairs, d).
        handicap: The same for biases, (n_pairs,).
        vector: Start of the search, (d,).
        weight_decay: L2 penalty.
        negatives: Negatives per item.

    Returns:
        The minimum, (d,).
    """
    ridge = weight_decay * torch.eye(len(vector), dtype=torch.float64)

    def total(lead: Tensor, x: Tensor) -> float:
        return float(softplus(-lead).sum() / negatives + 0.5 * weight_decay * (x @ x))

    lead = difference @ vector + handicap
    loss = total(lead, vector)
    for _ in range(STEPS):
        push = torch.sigmoid(-lead)
        slope = weight_decay * vector - (push @ difference) / negatives
        weight = (push * (1 - push) / negatives)[:, None]
        step = torch.linalg.solve(ridge + difference.T @ (weight * difference), slope)
        for _ in range(HALVINGS):
            lead_after = difference @ (vector - step) + handicap
            after = total(lead_after, vector - step)
            if after <= loss:
                break
            step = step / 2
        else:
            return vector  # no lower loss within rounding errors
        vector, lead, loss = vector - step, lead_after, after
        if float(step.norm()) <= CLOSE * float(vector.norm()):
            break
    return vector
