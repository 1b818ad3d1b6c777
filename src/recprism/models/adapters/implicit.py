"""Fitted models of the ``implicit`` library (extra ``[adapters]``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.errors import InputError, MissingDependencyError
from recprism.models.factors import Factors

Parts = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]


def from_implicit(model: Any, *, user_ids: ArrayLike | None = None, item_ids: ArrayLike | None = None) -> Factors:
    """The vectors of a fitted ALS or BPR model, of its CPU or GPU version, ranking as its own ``recommend`` does.

    user_ids, item_ids: the ids of the rows and columns of the matrix it was fitted to; 0, 1, 2, ... unless named

    BPR keeps an item bias as the last column, against a column of ones: it becomes ``item_bias``. Users it was fitted
    to without any item have zeros there too, so that implicit scores all their items 0; here their items go by bias.
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
    try:
        import implicit  # noqa: F401
    except ImportError as missing:
        raise MissingDependencyError(
            f"this needs the package {missing.name}; install it with: pip install 'recprism[adapters]'"
        ) from missing


def _plain(user: NDArray[Any], item: NDArray[Any]) -> Parts:
    return user, item, None


def _with_bias(user: NDArray[Any], item: NDArray[Any]) -> Parts:
    return user[:, :-1], item[:, :-1], item[:, -1]


KINDS: dict[str, Callable[[NDArray[Any], NDArray[Any]], Parts]] = {
    "AlternatingLeastSquares": _plain,
    "BayesianPersonalizedRanking": _with_bias,
}


def _as_array(factors: Any) -> NDArray[Any]:
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)


def _known() -> str:
    return " or ".join(f"a fitted {kind}" for kind in KINDS)
