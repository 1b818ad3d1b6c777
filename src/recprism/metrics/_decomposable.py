"""Values of all lists together that can be had from any parts of them: what the parts give adds up."""

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
    """The function of a metric of all lists, in two steps: users on several machines need only the first each.

    sums: f(lists, context, **options) -> tensors that add up over users; bool ones are joined by "or"
    value: f(*tensors) -> one number
    """

    sums: Callable[..., Sums]
    value: Callable[..., Tensor]

    def __call__(self, lists: Lists, context: Context, **options: Any) -> Tensor:
        return self.value(*self.sums(lists, context, **options))


def added(sums: list[Sums]) -> Sums:
    """Those of several parts, in their order, as those of the whole."""
    total = sums[0]
    for more in sums[1:]:
        total = tuple(
            one | other if one.dtype == torch.bool else one + other for one, other in zip(total, more, strict=True)
        )
    return total
