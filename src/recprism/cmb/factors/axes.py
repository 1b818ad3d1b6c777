"""Canonical axes: the same recommender with factors that do not depend on the accident of a training run.

For any invertible M the vectors P M and Q inv(M)^T give the same scores, so trained axes are arbitrary. The singular
vectors of P Q^T are not. They can be rotated further by criteria on the items, and no list changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.naming import halves
from recprism.cmb.factors.score_directions import longer_tail
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.models import Factors

FloatArray = NDArray[np.float64]

NEGLIGIBLE = float(np.finfo(np.float32).eps)  # of the strongest axis: below float32 precision
TIE = 0.01
TURNS = 1000  # varimax: an upper limit; it stops at convergence


@dataclass(frozen=True, eq=False)
class Axes:
    """A recommender on canonical axes, and the maps to and from its own axes.

    Attributes:
        base: The recommender on its own axes.
        factors: The recommender on the new axes, with the same scores; empty columns of the base are dropped.
        method: The method that chose the axes.
        strengths: (r,) norm of each axis' part of all scores; the singular values of P Q^T for "svd".
        user_map: (d, r) with ``factors.user = base.user @ user_map``.
        item_map: (d, r) with ``factors.item = base.item @ item_map``.
        ties: Groups of adjacent axes with nearly equal strengths, for which only the spanned plane is meaningful. Empty
            for methods that do not choose axes by strength alone.
        targets: Subtopics to which the first axes were fitted.
        held_out: (len(targets),) correlation of axis and subtopic on the items that were not used for the fit.
    """

    base: Factors
    factors: Factors
    method: str
    strengths: FloatArray
    user_map: FloatArray
    item_map: FloatArray
    ties: tuple[tuple[int, ...], ...] = ()
    targets: tuple[str, ...] = ()
    held_out: FloatArray | None = None

    def to_original(self, change: Change) -> Change:
        """Express a change on the axes of the base; every score changes by the same amount."""
        return Change(self.base, **_mapped(change, item=self.user_map.T, user=self.item_map.T))

    def to_canonical(self, change: Change) -> Change:
        """Express a change of the base on these axes; exact if no column of the base is empty."""
        return Change(self.factors, **_mapped(change, item=self.item_map, user=self.user_map))


def canonical(
    factors: Factors, method: str = "svd", *, subtopics: Subtopics | None = None, tie: float = TIE, seed: int = 0
) -> Axes:
    """Express a recommender on canonical axes; all scores and lists stay the same.

    Axes are sorted by descending strength; for "subtopics" the fitted ones come first, by name. The longer tail of the
    items is positive.

    Args:
        factors: The recommender.
        method: "svd" takes the singular vectors of P Q^T and shares the strengths evenly between users and items.
            "varimax" rotates them so that each item lies on few axes. "subtopics" rotates them so that the first axes
            follow the subtopics; it learns on one half of the items and tests on the other (see ``halves``).
        subtopics: The subtopics of the items, for the method "subtopics".
        tie: Axes whose strengths differ by less than this share are reported as tied.
        seed: Seed of the halves.

    Raises:
        InputError: If the method is unknown, subtopics are missing, or all scores are 0.
    """
    if method not in ROTATIONS:
        raise InputError(f"axes are {', '.join(ROTATIONS)}, not {method!r}")
    if method == "subtopics" and (subtopics is None or not len(subtopics)):
        raise InputError("axes fitted to subtopics need them; pass subtopics=...")
    user_map, item_map, strengths = _singular_axes(factors)
    start = factors.item @ item_map
    turn, targets = ROTATIONS[method](start, strengths, subtopics, seed)
    signs = longer_tail(start @ turn)
    signs[: len(targets)] = 1.0  # a fitted axis already has the sign of its subtopic
    turn = turn * signs
    user_map, item_map = user_map @ turn, item_map @ turn
    user, item = factors.user @ user_map, factors.item @ item_map
    turned = replace(factors, user=user.astype(np.float32), item=item.astype(np.float32))
    return Axes(
        factors,
        turned,
        method,
        np.linalg.norm(user, axis=0) * np.linalg.norm(item, axis=0),
        user_map,
        item_map,
        _ties(strengths, tie) if method == "svd" else (),
        targets,
        _held_out(item, targets, subtopics, seed) if subtopics is not None else None,
    )


def _singular_axes(factors: Factors) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return maps (d, r) of users and items and strengths (r,), without forming the n_users x n_items matrix."""
    user_small, item_small = (np.linalg.qr(side.astype(np.float64))[1] for side in (factors.user, factors.item))
    left, strengths, right = np.linalg.svd(user_small @ item_small.T)
    kept = strengths > NEGLIGIBLE * strengths[0]
    if not kept.any():
        raise InputError("all scores of these factors are 0; there are no axes to find")
    size = int(kept.sum())
    root = np.sqrt(strengths[:size])
    # P times this is (P Q^T) V / root = U root: no inverse is needed, whatever the ranks of P and Q.
    return item_small.T @ right[:size].T / root, user_small.T @ left[:, :size] / root, strengths[:size]


Rotation = Callable[[FloatArray, FloatArray, "Subtopics | None", int], tuple[FloatArray, tuple[str, ...]]]


def _as_they_are(
    items: FloatArray, _strengths: FloatArray, _subtopics: Subtopics | None, _seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    return np.eye(items.shape[1]), ()


def _varimax(
    items: FloatArray, strengths: FloatArray, _subtopics: Subtopics | None, _seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """(r, r) rotation that maximises the variance of squared loadings: each item lies on few axes."""
    turn = np.eye(items.shape[1])
    before = 0.0
    for _ in range(TURNS):
        turned = items @ turn
        squares = turned * turned
        slope = items.T @ (turned * (squares - squares.mean(axis=0)))
        left, reached, right = np.linalg.svd(slope)
        turn = left @ right
        if reached.sum() <= before * (1 + 1e-8):
            break
        before = reached.sum()
    # On singular axes users and items have the same spread, so this is the strength of each rotated axis.
    order = np.argsort(-(turn**2 * strengths[:, None]).sum(axis=0), kind="stable")
    return turn[:, order], ()


def _along_subtopics(
    items: FloatArray, strengths: FloatArray, subtopics: Subtopics | None, seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """(r, r) rotation whose first axes fit the subtopics best on the learning half; the rest by strength."""
    assert subtopics is not None
    learn, _ = halves(len(items), seed)
    wanted, names = _standard_targets(subtopics, learn, items.shape[1])
    left, _, right = np.linalg.svd((items[learn] - items[learn].mean(axis=0)).T @ wanted, full_matrices=False)
    fitted = left @ right
    others = np.linalg.svd(fitted)[0][:, fitted.shape[1] :]  # the orthogonal complement
    spread, inside = np.linalg.eigh(others.T @ (strengths[:, None] * others))
    rest = others @ inside[:, np.argsort(-spread, kind="stable")]
    return np.hstack([fitted, rest]), names


ROTATIONS: dict[str, Rotation] = {"svd": _as_they_are, "varimax": _varimax, "subtopics": _along_subtopics}


def _standard_targets(subtopics: Subtopics, learn: NDArray[Any], most: int) -> tuple[FloatArray, tuple[str, ...]]:
    """(n_learn, t) standardised columns of the most frequent subtopics, in the order of their names."""
    has = subtopics.items.dense()[learn].astype(np.float64)
    counts = has.sum(axis=0)
    usable = np.flatnonzero((counts > 0) & (counts < len(learn)))
    if not len(usable):
        raise InputError("no subtopic tells the items of the learning half apart; choose another method")
    chosen = np.sort(usable[np.argsort(-counts[usable], kind="stable")[:most]])
    return _standard(has[:, chosen]), tuple(subtopics.names[number] for number in chosen)


def _held_out(item: FloatArray, targets: tuple[str, ...], subtopics: Subtopics, seed: int) -> FloatArray | None:
    if not targets:
        return None
    _, test = halves(len(item), seed)
    has = subtopics.items.dense()[test].astype(np.float64)
    wanted = _standard(has[:, [subtopics.names.index(name) for name in targets]])
    return np.asarray((_standard(item[test][:, : len(targets)]) * wanted).mean(axis=0))


def _standard(columns: FloatArray) -> FloatArray:
    centred = columns - columns.mean(axis=0)
    spread = centred.std(axis=0)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def _ties(strengths: FloatArray, tie: float) -> tuple[tuple[int, ...], ...]:
    close = np.flatnonzero(strengths[:-1] - strengths[1:] < tie * strengths[:-1])
    groups: list[list[int]] = []
    for first in close.tolist():
        if groups and groups[-1][-1] == first:
            groups[-1].append(first + 1)
        else:
            groups.append([first, first + 1])
    return tuple(tuple(group) for group in groups)


def _mapped(change: Change, item: FloatArray, user: FloatArray) -> dict[str, NDArray[np.float32]]:
    maps = {"item": item, "user": user}
    return {name: (side @ maps[name]).astype(np.float32) for name, side in change.sides.items()}
