"""A change of a model's user and item vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.models.factors import Factors


@dataclass(frozen=True, eq=False)
class Perturbation:
    """Changes of vectors in the units of the base model; None for a side that does not change.

    Attributes:
        item: Changes of the item vectors, (n_items, d).
        user: Changes of the user vectors, (n_users, d).
    """

    item: Tensor | None = None
    user: Tensor | None = None

    def applied_to(self, factors: Factors) -> Factors:
        """Return the model with the changed vectors."""
        user = None if self.user is None else factors.user + self.user.cpu().numpy()
        item = None if self.item is None else factors.item + self.item.cpu().numpy()
        return factors.with_vectors(user=user, item=item)


def back_on_sphere(item: Tensor, change: Tensor) -> Tensor:
    """Rescale a change so that the changed item vectors have length 1, (n_items, d)."""
    return torch.nn.functional.normalize(item + change) - item
