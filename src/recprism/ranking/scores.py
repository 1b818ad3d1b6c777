"""Exact top-k lists from blocks of scores, for models that are not dot products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.ranking._torch_engine import rank_blocks, users_at_a_time


def rank_scores(
    score: Callable[[int, int], Tensor],
    shape: tuple[int, int],
    k: int,
    *,
    exclude: SparseRows | Any | None = None,
    block: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, Tensor]:
    """Return the k best items of every user by any scores, with the rules of :func:`topk`.

    Args:
        score: ``score(first, last)`` returns the ``(last - first, n_items)`` scores of users first .. last - 1.
        shape: ``(n_users, n_items)``.
        k: Length of the lists.
        exclude: Users x items, the pairs never to be returned.
        block: Number of users to score at a time.
        device: Device of the scores.

    Returns:
        Items ``(n_users, k)`` int64 and scores ``(n_users, k)`` float32; -1 and -inf if a user has no item left.

    Raises:
        InputError: The scores have another shape or are not finite.
    """
    n_users, n_items = shape
    width = min(k, n_items)
    rows = block or users_at_a_time(n_items, torch.device(device))

    def checked(first: int, last: int) -> Tensor:
        # A copy, because excluded pairs are overwritten and the scorer may keep its array.
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

    seen = None if exclude is None else SparseRows.coerce(exclude)
    items, scores = rank_blocks(checked, n_users, width, seen, rows, torch.device(device))
    pad = (0, k - width)
    return torch.nn.functional.pad(items, pad, value=-1), torch.nn.functional.pad(scores, pad, value=-torch.inf)
