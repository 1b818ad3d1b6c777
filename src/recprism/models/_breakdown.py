"""The error of a training whose numbers are no longer finite: where, which vector, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recprism.common.ids import show
from recprism.data.split import Split
from recprism.errors import RecprismError

Whose = Callable[[int], str]
"""Maps the flat position of a parameter to its name, such as "the vector of user 'ann'"."""


def vector_of(split: Split, row: int) -> str:
    """Name the vector at a row; rows of users come before rows of items."""
    if row < split.n_users:
        return f"the vector of user {show(split.user_ids[row])}"
    return f"the vector of item {show(split.item_ids[row - split.n_users])}"


def breakdown(where: str, loss: float, parameters: Tensor, whose: Whose, advice: str) -> RecprismError:
    """Build the error.

    Args:
        where: Epoch and step, from 1.
        loss: The loss of that step.
        parameters: The parameters at that time.
        whose: Names the vector that a parameter belongs to.
        advice: Which settings to change.
    """
    flat = parameters.flatten()
    broken = ~torch.isfinite(flat)
    if bool(broken.any()):
        first = int(broken.nonzero()[0])
        what = f"{whose(first)} is the first that is not finite ({int(broken.sum())} of {len(flat)} numbers are not)"
    else:
        at = int(flat.abs().argmax())
        what = f"scores grew too large, with all vectors finite; the largest number, {float(flat[at]):.3g}, is in "
        what += whose(at)
    return RecprismError(f"training broke down in {where}: the loss is {loss:g}, and {what}; train again with {advice}")
