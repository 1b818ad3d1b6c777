"""Weights that users set for themselves, added to the dials that the solver found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import Real
from recprism.common.ids import as_id_array, id_positions
from recprism.errors import InputError
from recprism.forms.dials.named import Dials
from recprism.models import Factors

SHARE = Real(-1, 1)


def own_weights(dials: Dials, base: Factors, settings: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the weights that users set for themselves, (n_users, m), in units of scores.

    A user's score range is the largest minus the smallest base score over the catalogue. A share of it means the same
    for every user and model.

    Args:
        dials: What the solver found.
        base: The recommender that the dials belong to.
        settings: User id -> property -> share of the user's score range, from -1 to 1.

    Raises:
        InputError: If a user or a property is unknown, or a share is out of range.
    """
    weights = np.zeros_like(dials.weights)
    if not settings:
        return weights
    rows = id_positions(as_id_array(list(settings), "user"), dials.user_ids, "user")
    for row, own in zip(rows, settings.values(), strict=True):
        reach = score_range(base, int(row))
        for name, value in own.items():
            weights[row, _column(dials, name)] += reach * float(SHARE.read(f"the setting of {name}", value))
    return weights


def steered(dials: Dials, base: Factors, settings: Mapping[str, Any]) -> Dials:
    """Return the dials with the weights that users set for themselves added."""
    return replace(dials, weights=dials.weights + own_weights(dials, base, settings)) if settings else dials


def score_range(base: Factors, row: int) -> float:
    """Return the largest minus the smallest base score of a user, given by row number."""
    user, item = base.search_vectors
    scores: NDArray[np.float32] = item @ user[row]
    return float(scores.max() - scores.min())


def _column(dials: Dials, name: str) -> int:
    if name not in dials.names:
        raise InputError(f"there is no dial {name!r}; dials are {', '.join(dials.names)}")
    return dials.names.index(name)
