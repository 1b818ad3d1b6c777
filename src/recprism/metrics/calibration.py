"""Calibration: whether a list has the proportions of the user's interests (Steck, 2018)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics.context import Context
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric, register

ALPHA = 0.01


def _calibration(lists: Lists, context: Context, *, alpha: float = ALPHA) -> Tensor:
    """Return KL(p || q) in nats.

    p is the distribution of the user's training items over categories; q is that of the list with a share ``alpha`` of
    p mixed in. Every item counts 1, shared among its categories by their weights. The worst value is -log(alpha).
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha is the part of the user's own distribution mixed in, above 0 and below 1; got {alpha}")
    judged = context.keep("has history", lambda: context.history.any(1))
    return torch.where(judged, lists.divergence(alpha), torch.nan)


register(
    Metric(
        "calibration",
        _calibration,
        summary="How far the list's categories are from the proportions of the user's training items; 0 if equal.",
        higher_is_better=False,
        bounds=(0.0, -math.log(ALPHA)),
        needs=("categories", "history"),
        empties=(
            "A list without categories, an empty one too, scores the worst. "
            "Users without training items that have categories are left out of the mean."
        ),
        options={"alpha": ALPHA},
    )
)
