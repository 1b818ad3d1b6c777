"""A change of a model's user and item vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.models.factors import Factors


@dataclass(frozen=True, eq=False)
class Perturbation:
    """Changes in the base model's own units; None for a side that stays as it is.

    item: (n_items, d); user: (n_users, d)
    """

    item: Tensor | None = None
    user: Tensor | None = None

    def applied_to(self, factors: Factors) -> Factors:
        user = None if self.user is None else factors.user + self.user.cpu().numpy()
        item = None if self.item is None else factors.item + self.item.cpu().numpy()
        return factors.with_vectors(user=user, item=item)


def back_on_sphere(item: Tensor, change: Tensor) -> Tensor:
    """(n_items, d) the change that leaves vectors of length 1, in the direction that ``change`` gives them."""
    return torch.nn.functional.normalize(item + change) - item
