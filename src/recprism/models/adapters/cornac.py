"""Fitted models of the ``cornac`` library (extra ``[cornac]``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError, MissingDependencyError
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
"""Where a model keeps its user vectors, item vectors and item bias."""


def from_cornac(model: Any) -> Factors:
    """The vectors of a fitted MF, SVD, NMF, BPR, WBPR, MMMF, PMF or WMF, ranking as its own ``recommend`` does.

    Ids are those of the Dataset it was fitted to. Users and items that Cornac only knows from a test set have no
    trained vectors and are left out. An item bias becomes ``item_bias``; a user bias and the global mean add the same
    to all items of a user, cannot change a ranking, and are dropped: scores differ from Cornac's by that much.
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
    try:
        import cornac  # noqa: F401
    except ImportError as missing:
        raise MissingDependencyError(
            f"this needs the package {missing.name}; install it with: pip install 'recprism[cornac]'"
        ) from missing


def _bias(model: Any, name: str | None) -> NDArray[Any] | None:
    """(n_items,), or None for a model that was told to have none: zeros would only be one more column to search."""
    if name is None or not model.use_bias:
        return None
    return np.asarray(getattr(model, name)[: model.num_items])


def _ids(rows: dict[Any, int], known: int) -> list[Any]:
    """The ids in the order of their rows; rows from ``known`` on are of ids that were not trained."""
    return [name for name, row in sorted(rows.items(), key=lambda pair: pair[1]) if row < known]


def _known() -> str:
    return f"a fitted {', '.join(list(KINDS)[:-1])} or {list(KINDS)[-1]}"
