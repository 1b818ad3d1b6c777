"""The BPR loss and its gradients in closed form, as two sparse products: on a CPU twice as fast as autograd or more."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from recprism.models._sampling import Batch
from recprism.models._sparse import run_starts, weighted_sums


class Slope(NamedTuple):
    """loss: scalar, summed over all (user, positive, negative); user, item: its gradients, shaped as the vectors."""

    loss: Tensor
    user: Tensor
    item: Tensor


def bpr_slope(user: Tensor, item: Tensor, batch: Batch) -> Slope:
    """Sum of -log sigmoid(score(u, i) - score(u, j)) over a batch, and what it asks of all vectors.

    user: (n_users, d); item: (n_items, d)

    With s = sigmoid(score(u, j) - score(u, i)) the gradient is -s (q_i - q_j) for the user, -s p_u for the positive and
    +s p_u for the negative: a sparse users x items matrix of signed weights times the vectors of the other side.
    """
    width = 1 + batch.negatives.shape[1]
    items = torch.cat([batch.positives[:, None], batch.negatives], 1)
    scores = torch.einsum(
        "nd,nwd->nw",
        user.index_select(0, batch.users),
        item.index_select(0, items.flatten()).view(len(items), width, -1),
    )
    behind = scores[:, 1:] - scores[:, :1]
    push = torch.sigmoid(behind)
    weights = torch.cat([-push.sum(1, keepdim=True), push], 1).flatten()
    return Slope(
        softplus(behind).sum(),
        weighted_sums(run_starts(batch.users, len(user)) * width, items.flatten(), weights, item),
        _sums_by_item(items.flatten(), batch.users.repeat_interleave(width), weights, user, len(item)),
    )


def _sums_by_item(items: Tensor, users: Tensor, weights: Tensor, user: Tensor, n_items: int) -> Tensor:
    items, order = torch.sort(items, stable=True)
    return weighted_sums(run_starts(items, n_items), users[order], weights[order], user)
