"""Transfer a change of vectors to a retrained model, or to a model with new items.

A vector that both models have keeps its own change. A new item gets the mean change of the most similar known items.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.alignment import common
from recprism.models.perturbation import Perturbation

FloatArray = NDArray[np.float32]
NEIGHBOURS = 5
SAME = 1e-9  # a distance below this counts as 0: a copy of an item gets the change of that item alone
ROWS_AT_ONCE = 1024


def transfer_change(
    perturbation: Perturbation, old: Factors, new: Factors, subtopics: Subtopics | None = None
) -> Perturbation:
    """Transfer the change of one model's vectors to another model, by id.

    The axes of both models must be the same (see :func:`recprism.models.align`). New users keep their vectors; a
    :class:`QueryAdapter` can change those.

    Args:
        perturbation: The change of the vectors of ``old``.
        old: The model that the change was computed for.
        new: The model that the change is transferred to.
        subtopics: Subtopics of the items of ``new``; they help to find similar items.

    Returns:
        The change of the vectors of ``new``.

    Raises:
        InputError: The two models have vectors of different lengths.

    Stability: provisional.
    """
    if old.dim != new.dim:
        raise InputError(
            f"the change is of vectors with {old.dim} columns and the model has {new.dim}; align them first"
        )
    item = user = None
    if perturbation.item is not None:
        at, was = common(new.item_ids, old.item_ids)
        item = torch.from_numpy(change_from_similar_items(new, at, perturbation.item.cpu().numpy()[was], subtopics))
    if perturbation.user is not None:
        at, was = common(new.user_ids, old.user_ids)
        found = np.zeros_like(new.user)
        found[at] = perturbation.user.cpu().numpy()[was]
        user = torch.from_numpy(found)
    return Perturbation(item, user)


def change_from_similar_items(
    factors: Factors,
    known: NDArray[np.int64],
    changes: FloatArray,
    subtopics: Subtopics | None = None,
    *,
    neighbours: int = NEIGHBOURS,
) -> FloatArray:
    """Compute changes for all items from the changes of known items.

    A known item keeps its own change. Any other item gets the mean change of its most similar known items, weighted by
    1 / distance. The distance is 1 - cosine of the base vectors, plus 1 - cosine of the subtopics if they are given.

    Args:
        factors: The model with all items.
        known: Numbers of the known items, (n,).
        changes: Their changes, (n, d).
        subtopics: Subtopics of all items.
        neighbours: How many similar items count.

    Returns:
        The change of every item, (n_items, d); 0 if no item is known.

    Raises:
        InputError: ``known`` and ``changes`` do not fit together.

    Stability: provisional.
    """
    if len(known) != len(changes) or changes.shape[1:] != (factors.dim,):
        raise InputError(
            f"{len(known)} known items and changes of shape {changes.shape}; give one row of {factors.dim} each"
        )
    found = np.zeros((factors.n_items, factors.dim), np.float32)
    found[known] = changes
    cold = np.setdiff1d(np.arange(factors.n_items), known)
    count = min(neighbours, len(known))
    if not count or not len(cold):
        return found
    sides = [_unit(factors.item)] if subtopics is None else [_unit(factors.item), _unit(subtopics.dense())]
    for first in range(0, len(cold), ROWS_AT_ONCE):
        rows = cold[first : first + ROWS_AT_ONCE]
        unlike = sum((1 - side[rows] @ side[known].T for side in sides), np.zeros((len(rows), len(known))))
        near = np.argsort(unlike, axis=1, kind="stable")[:, :count]
        weight = 1 / np.maximum(np.take_along_axis(unlike, near, 1), SAME)
        weight /= weight.sum(1, keepdims=True)
        found[rows] = np.einsum("cn,cnd->cd", weight, changes[near].astype(np.float64))
    return found


def _unit(vectors: FloatArray) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(length > 0, length, 1))
