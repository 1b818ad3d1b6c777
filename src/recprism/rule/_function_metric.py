"""The metric of a goal that is a Python function of one list."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recprism.metrics.context import Context
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric
from recprism.rule.kernels.list_function import VECTORS, ListFunction


def metric_of(function: ListFunction) -> Metric:
    """Return the metric whose value for a list is that of the function."""

    def call(lists: Lists, context: Context) -> Tensor:
        data = context.keep("rows of items", lambda: _rows(context))
        vectors = context.keep(("directions", context.vectors), lambda: _directions(context)) if by_vectors else _NONE
        return torch.from_numpy(function.values(lists.items.cpu().numpy(), *data, *vectors)).to(context.device)

    by_vectors = VECTORS in function.takes
    return Metric(
        function.name,
        call,
        summary=f"What the function {function.name} returns for a list.",
        bounds=(-math.inf, math.inf),
        needs=function.takes,
        empties="an empty list has the value 0",
    )


_NONE = np.zeros((1, 1)), np.zeros(1)


def _rows(context: Context) -> tuple[Any, ...]:
    if not context.has("categories"):
        return np.zeros(context.n_items + 1, np.int64), np.zeros(0, np.int32), 0
    rows = context.categories.rows
    return rows.indptr.cpu().numpy(), rows.indices.cpu().numpy(), rows.n_cols


def _directions(context: Context) -> tuple[Any, ...]:
    """Return unit vectors without the columns that only fill up the width, and what they are multiplied by."""
    unit = context.vectors.unit[:-1]
    used = (unit != 0).any(0).nonzero()
    width = int(used.max()) + 1 if len(used) else 1
    return unit[:, :width].cpu().numpy().astype(np.float64), np.ones(len(unit))
