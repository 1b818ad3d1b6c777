"""Metrics of all lists together that can be computed from sums over parts of the users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recprism.metrics.context import Context
from recprism.metrics.lists import Lists

Sums = tuple[Tensor, ...]


@dataclass(frozen=True)
class Decomposable:
    """The function of a metric of all lists, in two steps: each of several machines computes only the sums.

    Attributes:
        sums: f(lists, context, **options) -> tensors that are added over users; bool tensors are combined by "or".
        value: f(*tensors) -> one number.
    """

    sums: Callable[..., Sums]
    value: Callable[..., Tensor]

    def __call__(self, lists: Lists, context: Context, **options: Any) -> Tensor:
        return self.value(*self.sums(lists, context, **options))


def added(sums: list[Sums]) -> Sums:
    """Add the sums of several parts, in their order."""
    total = sums[0]
    for more in sums[1:]:
        total = tuple(
            one | other if one.dtype == torch.bool else one + other for one, other in zip(total, more, strict=True)
        )
    return total
