"""Canonical axes: the same recommender with factors that a rule chose, and not the accident of a training run.

For any invertible M the vectors P M and Q inv(M)^T give the same scores, so trained axes are arbitrary. The singular
vectors of P Q^T are not; they can be turned further, by rules that look at the items alone, without a list changing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.explain.change import Change
from recprism.explain.naming import halves
from recprism.explain.score_directions import longer_tail
from recprism.models import Factors

FloatArray = NDArray[np.float64]

NEGLIGIBLE = float(np.finfo(np.float32).eps)  # of the strongest axis: what float32 vectors cannot hold anyway
TIE = 0.01
TURNS = 1000  # varimax: more than enough; it ends when nothing turns any more


@dataclass(frozen=True, eq=False)
class Axes:
    """A recommender on canonical axes, and the way there and back.

    base: as it was; factors: on the new axes, with the same scores; fewer columns where the base had empty ones
    strengths: (r,) length of the axis' part of all scores; the singular values of P Q^T under method "svd"
    ties: groups of neighbouring axes whose strengths are so close that only the plane they span means anything; empty
        where a rotation chose the axes by more than their strength
    targets: subtopics that the first axes were fitted to; held_out: (len(targets),) correlation of axis and subtopic on
        the items that took no part in the fit
    user_map, item_map: (d, r) with factors.user = base.user @ user_map, factors.item = base.item @ item_map
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
        """A change found on these axes, on the base's own; every score changes by the same amount."""
        return Change(self.base, **_mapped(change, item=self.user_map.T, user=self.item_map.T))

    def to_canonical(self, change: Change) -> Change:
        """A change of the base on these axes; exact where no column of the base was empty."""
        return Change(self.factors, **_mapped(change, item=self.item_map, user=self.user_map))


def canonical(
    factors: Factors, method: str = "svd", *, subtopics: Subtopics | None = None, tie: float = TIE, seed: int = 0
) -> Axes:
    """Put a recommender on canonical axes; all scores, and with them all lists, stay as they are.

    method: "svd", the singular vectors of P Q^T, strengths shared evenly between users and items; "varimax", turned so
        that each item lies on few axes; "subtopics", turned so that the first axes follow the subtopics, learned on one
        half of the items (see ``halves``) and tested on the other
    tie: axes whose strengths differ by less than this share are reported as tied
    seed: of the halves

    Axes go by falling strength (under "subtopics" the fitted ones first, by name), and the longer tail of the items is
    positive.
    """
    if method not in ROTATIONS:
        raise InputError(f"axes are {', '.join(ROTATIONS)}, not {method!r}")
    if method == "subtopics" and (subtopics is None or not len(subtopics)):
        raise InputError("axes fitted to subtopics need them; pass subtopics=...")
    user_map, item_map, strengths = _singular_axes(factors)
    start = factors.item @ item_map
    turn, targets = ROTATIONS[method](start, strengths, subtopics, seed)
    signs = longer_tail(start @ turn)
    signs[: len(targets)] = 1.0  # a fitted axis rises with its subtopic
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
    """Maps (d, r) of users and items and strengths (r,); the n_users x n_items matrix is never written."""
    user_small, item_small = (np.linalg.qr(side.astype(np.float64))[1] for side in (factors.user, factors.item))
    left, strengths, right = np.linalg.svd(user_small @ item_small.T)
    kept = strengths > NEGLIGIBLE * strengths[0]
    if not kept.any():
        raise InputError("all scores of these factors are 0; there are no axes to be found")
    size = int(kept.sum())
    root = np.sqrt(strengths[:size])
    # P times this is (P Q^T) V / root = U root, and no inverse is needed, whatever the ranks of P and Q.
    return item_small.T @ right[:size].T / root, user_small.T @ left[:, :size] / root, strengths[:size]


Rotation = Callable[[FloatArray, FloatArray, "Subtopics | None", int], tuple[FloatArray, tuple[str, ...]]]


def _as_they_are(
    items: FloatArray, _strengths: FloatArray, _subtopics: Subtopics | None, _seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    return np.eye(items.shape[1]), ()


def _varimax(
    items: FloatArray, strengths: FloatArray, _subtopics: Subtopics | None, _seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """(r, r) the rotation under which squared loadings vary most: each item on few axes."""
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
    # On singular axes users and items have the same spread, so this is the strength of each turned axis.
    order = np.argsort(-(turn**2 * strengths[:, None]).sum(axis=0), kind="stable")
    return turn[:, order], ()


def _along_subtopics(
    items: FloatArray, strengths: FloatArray, subtopics: Subtopics | None, seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """(r, r) the rotation whose first axes follow the subtopics best on the learning half; the rest by strength."""
    assert subtopics is not None
    learn, _ = halves(len(items), seed)
    wanted, names = _standard_targets(subtopics, learn, items.shape[1])
    left, _, right = np.linalg.svd((items[learn] - items[learn].mean(axis=0)).T @ wanted, full_matrices=False)
    fitted = left @ right
    others = np.linalg.svd(fitted)[0][:, fitted.shape[1] :]  # whatever is at right angles to them
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
