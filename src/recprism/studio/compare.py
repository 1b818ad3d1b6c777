"""Two results side by side: what can be compared, and what cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.studio import schemas
from recprism.studio.view import View


def answer(names: tuple[str, str], views: tuple[View, View], figures: tuple[Any, Any]) -> schemas.CompareAnswer:
    """Say what two results have in common.

    Args:
        names: Names of both in the studio.
        views: Both.
        figures: What each serves, :class:`schemas.Served` or None.
    """
    users, items = (_common(views, it) for it in ("user_ids", "item_ids"))
    same = same_test(*views)
    return schemas.CompareAnswer(
        names=list(names),
        users=len(users),
        items=len(items),
        example_user=None if not len(users) else users[:1].tolist()[0],
        same_test=same,
        sentences=_sentences(views, len(users), len(items), same),
        figures=list(figures),
    )


def same_test(one: View, other: View) -> bool:
    """Whether both are judged on the same users, items and held-out interactions, of which there are some."""
    first, second = (view.split.part(view.problem.part) for view in (one, other))
    ids = ("user_ids", "item_ids")
    return (
        one.labelled
        and all(np.array_equal(getattr(one.factors, it), getattr(other.factors, it)) for it in ids)
        and np.array_equal(first.indptr, second.indptr)
        and np.array_equal(first.indices, second.indices)
    )


def _common(views: tuple[View, View], which: str) -> NDArray[Any]:
    first: NDArray[Any]
    second: NDArray[Any]
    first, second = (getattr(view.factors, which) for view in views)
    if first.dtype.kind != second.dtype.kind:  # ids of one are numbers and of the other text
        return first[:0]
    return np.asarray(first[np.isin(first, second)])


def _sentences(views: tuple[View, View], users: int, items: int, same: bool) -> list[str]:
    sizes = [(view.factors.n_users, view.factors.n_items) for view in views]
    if same:
        figures = "Figures can be compared: both are judged on the same held-out interactions."
    elif not all(view.labelled for view in views):
        figures = "Figures cannot be compared: at least one has no held-out interactions that judge it."
    else:
        figures = "Figures cannot be compared: they are judged on different held-out interactions. Compare the changes."
    lists = (
        f"Lists can be compared for {users:,} users with the same id (of {sizes[0][0]:,} and {sizes[1][0]:,})."
        if users
        else "Lists cannot be compared: no user id is in both."
    )
    shared = f"{items:,} items have the same id (of {sizes[0][1]:,} and {sizes[1][1]:,})."
    return [figures, lists, shared]
