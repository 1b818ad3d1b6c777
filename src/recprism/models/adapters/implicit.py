"""Fitted models of the ``implicit`` library (extra ``[adapters]``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.extras import needing
from recprism.errors import InputError
from recprism.models.factors import Factors

Parts = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]


def from_implicit(model: Any, *, user_ids: ArrayLike | None = None, item_ids: ArrayLike | None = None) -> Factors:
    """Convert a fitted model of implicit; the result ranks as the model's own ``recommend``.

    BPR stores an item bias as its last column, which becomes ``item_bias``. A user without training items has zeros in
    all columns, so implicit scores all items 0; here such a user's items are ranked by bias.

    Args:
        model: A fitted ALS or BPR model, of the CPU or GPU version.
        user_ids: Ids of the rows of the training matrix, (n_users,); 0, 1, 2, ... by default.
        item_ids: Ids of its columns, (n_items,); 0, 1, 2, ... by default.

    Returns:
        The vectors of the model.

    Raises:
        InputError: The model is of another kind, or not fitted.
        MissingDependencyError: ``implicit`` is not installed.

    Stability: stable.
    """
    require_implicit()
    kind = type(model).__name__
    if kind not in KINDS or not type(model).__module__.startswith("implicit."):
        raise InputError(f"{type(model).__module__}.{kind} is no model of implicit that can be read; pass {_known()}")
    if model.user_factors is None or model.item_factors is None:
        raise InputError(f"this {kind} is not fitted yet; call its fit first")
    user, item, bias = KINDS[kind](_as_array(model.user_factors), _as_array(model.item_factors))
    settings = {
        "model": f"implicit.{kind}",
        **{
            name: float(value) if isinstance(value, float) else value
            for name in ("factors", "regularization", "alpha", "learning_rate", "iterations")
            if isinstance(value := getattr(model, name, None), (int, float))
        },
    }
    return Factors.from_arrays(user, item, user_ids=user_ids, item_ids=item_ids, item_bias=bias, settings=settings)


def require_implicit() -> None:
    with needing("a model of implicit", "adapters"):
        import implicit  # noqa: F401


KINDS: dict[str, Callable[[NDArray[Any], NDArray[Any]], Parts]] = {
    "AlternatingLeastSquares": lambda user, item: (user, item, None),
    "BayesianPersonalizedRanking": lambda user, item: (user[:, :-1], item[:, :-1], item[:, -1]),
}


def _as_array(factors: Any) -> NDArray[Any]:
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)


def _known() -> str:
    return " or ".join(f"a fitted {kind}" for kind in KINDS)
