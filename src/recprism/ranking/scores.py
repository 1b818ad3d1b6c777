"""Exact top-k lists for models that are no dot product: from blocks of scores, whoever made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from recprism.data.incidence import Incidence
from recprism.errors import InputError
from recprism.ranking._torch_engine import rank_blocks, users_at_a_time


def rank_scores(
    score: Callable[[int, int], Tensor],
    shape: tuple[int, int],
    k: int,
    *,
    exclude: Incidence | Any | None = None,
    block: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, Tensor]:
    """The k best items of every user, under the same rules as ``topk``.

    score: ``score(first, last)`` gives the (last - first, n_items) scores of users first .. last - 1
    shape: (n_users, n_items)
    """
    n_users, n_items = shape
    width = min(k, n_items)
    rows = block or users_at_a_time(n_items, torch.device(device))

    def checked(first: int, last: int) -> Tensor:
        # A copy: the scorer may keep what it gave, and excluded pairs are about to be overwritten.
        scores = score(first, last).detach().to(torch.float32, copy=True)
        if scores.shape != (last - first, n_items):
            raise InputError(
                f"the scorer gave scores of shape {tuple(scores.shape)} for users {first} to {last - 1};"
                f" {(last - first, n_items)} is needed"
            )
        if not bool(torch.isfinite(scores).all()):
            row, column = (~torch.isfinite(scores)).nonzero()[0].tolist()
            raise InputError(
                f"the scorer gave {float(scores[row, column])} for user row {first + row} and item {column};"
                " look at the model, every score must be a finite number"
            )
        return scores

    seen = None if exclude is None else Incidence.coerce(exclude)
    items, scores = rank_blocks(checked, n_users, width, seen, rows, torch.device(device))
    pad = (0, k - width)
    return torch.nn.functional.pad(items, pad, value=-1), torch.nn.functional.pad(scores, pad, value=-torch.inf)
