"""A change that was found for some vectors, carried over to a model that has others: retrained, or with new items.

Vectors that were there keep their own change. A new item gets that of the known items it is most like.
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
SAME = 1e-9  # a distance that counts as none, so that a copy of an item gets its change and nothing else
ROWS_AT_ONCE = 1024


def carried(perturbation: Perturbation, old: Factors, new: Factors, subtopics: Subtopics | None = None) -> Perturbation:
    """The changes of ``old``'s vectors as changes of ``new``'s, by id; the axes must be the same (``models.align``).

    subtopics: of ``new``'s items, for the rule of new ones; new users stay as they are (an ``Adapter`` changes any)
    """
    if old.dim != new.dim:
        raise InputError(
            f"the change is of vectors with {old.dim} columns and the model has {new.dim}; align them first"
        )
    item = user = None
    if perturbation.item is not None:
        at, was = common(new.item_ids, old.item_ids)
        item = torch.from_numpy(items_like(new, at, perturbation.item.cpu().numpy()[was], subtopics))
    if perturbation.user is not None:
        at, was = common(new.user_ids, old.user_ids)
        found = np.zeros_like(new.user)
        found[at] = perturbation.user.cpu().numpy()[was]
        user = torch.from_numpy(found)
    return Perturbation(item, user)


def items_like(
    factors: Factors,
    known: NDArray[np.int64],
    changes: FloatArray,
    subtopics: Subtopics | None = None,
    *,
    neighbours: int = NEIGHBOURS,
) -> FloatArray:
    """(n_items, d) changes of all items: the known ones' own, and for every other the mean of those it is most like.

    known: (n,) numbers of the items whose ``changes`` (n, d) are known
    Unlikeness is 1 - cosine of the base vectors, plus 1 - cosine of the subtopics where they are given; the nearest
    count by its inverse. An item without neighbours (none is known) stays as it is.
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
