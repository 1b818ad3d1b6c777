"""The BPR loss and its gradients as two sparse products; on a CPU at least twice as fast as autograd."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from recprism.models._sparse import run_starts, weighted_sums
from recprism.models.sampling import Batch


class Slope(NamedTuple):
    """Loss and gradients.

    Attributes:
        loss: Scalar, summed over all (user, positive, negative).
        user: Gradient of the user vectors, (n_users, d).
        item: Gradient of the item vectors, (n_items, d).
    """

    loss: Tensor
    user: Tensor
    item: Tensor


def bpr_slope(user: Tensor, item: Tensor, batch: Batch) -> Slope:
    """Sum -log sigmoid(score(u, i) - score(u, j)) over a batch, with its gradients.

    With s = sigmoid(score(u, j) - score(u, i)) the gradient is -s (q_i - q_j) for the user, -s p_u for the positive and
    +s p_u for the negative. This is a sparse users x items matrix of weights times the vectors of the other side.

    Args:
        user: User vectors, (n_users, d).
        item: Item vectors, (n_items, d).
        batch: Users, positives and negatives.
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
