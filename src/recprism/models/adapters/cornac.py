"""Fitted models of the ``cornac`` library (extra ``[cornac]``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.extras import needing
from recprism.errors import InputError
from recprism.models.factors import Factors

WITH_BIAS = ("u_factors", "i_factors", "i_biases")
PLAIN = ("U", "V", None)

KINDS: dict[str, tuple[str, str, str | None]] = {
    "MF": WITH_BIAS,
    "SVD": WITH_BIAS,
    "NMF": WITH_BIAS,
    "BPR": WITH_BIAS,
    "WBPR": WITH_BIAS,
    "MMMF": WITH_BIAS,
    "PMF": PLAIN,
    "WMF": PLAIN,
}
"""Attributes of a model that hold its user vectors, item vectors and item bias."""


def from_cornac(model: Any) -> Factors:
    """Convert a fitted model of Cornac; the result ranks as the model's own ``recommend``.

    Ids are those of the Dataset that the model was fitted to. Users and items that only occur in a test set have no
    trained vectors and are dropped. An item bias becomes ``item_bias``. The user bias and the global mean are the same
    for all items of a user and do not affect the ranking. They are dropped, so scores differ from Cornac's by them.

    Args:
        model: A fitted MF, SVD, NMF, BPR, WBPR, MMMF, PMF or WMF.

    Returns:
        The vectors of the model.

    Raises:
        InputError: The model is of another kind, or not fitted.
        MissingDependencyError: ``cornac`` is not installed.
    """
    require_cornac()
    kind = type(model).__name__
    if kind not in KINDS or not type(model).__module__.startswith("cornac."):
        raise InputError(f"{type(model).__module__}.{kind} is no model of Cornac that can be read; pass {_known()}")
    if not model.is_fitted:
        raise InputError(f"this {kind} is not fitted yet; call its fit first")
    user, item, bias = KINDS[kind]
    settings = {
        "model": f"cornac.{kind}",
        **{
            name: value
            for name in ("k", "max_iter", "learning_rate", "lambda_reg", "use_bias", "seed")
            if isinstance(value := getattr(model, name, None), (int, float))
        },
    }
    return Factors.from_arrays(
        getattr(model, user)[: model.num_users],
        getattr(model, item)[: model.num_items],
        user_ids=_ids(model.uid_map, model.num_users),
        item_ids=_ids(model.iid_map, model.num_items),
        item_bias=_bias(model, bias),
        settings=settings,
    )


def require_cornac() -> None:
    with needing("a model of cornac", "cornac"):
        import cornac  # noqa: F401


def _bias(model: Any, name: str | None) -> NDArray[Any] | None:
    """Return the item bias, (n_items,), or None if the model was fitted without one."""
    if name is None or not model.use_bias:
        return None
    return np.asarray(getattr(model, name)[: model.num_items])


def _ids(rows: dict[Any, int], known: int) -> list[Any]:
    """Return the ids in the order of their rows; rows from ``known`` on have no trained vectors."""
    return [name for name, row in sorted(rows.items(), key=lambda pair: pair[1]) if row < known]


def _known() -> str:
    return f"a fitted {', '.join(list(KINDS)[:-1])} or {list(KINDS)[-1]}"
