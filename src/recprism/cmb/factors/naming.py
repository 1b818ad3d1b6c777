"""Names for item coordinates: the labels that the high end of a coordinate has and its low end lacks.

Names are chosen on one half of the items and tested on the other half. The p-value of a name is corrected for all names
and coordinates that are tested together. It is the share of item permutations in which any of them is as strong
(Westfall and Young). A coordinate without a significant label gets no name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from recprism.common.checks import random_generator
from recprism.data.categories import Categories
from recprism.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NO_NAME = "no reliable name"
IN_WORDS = 3  # names shown for each end


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels that can name a coordinate of the items.

    Attributes:
        names: One name per label.
        values: (n_items, n_labels) 0 or 1 for a property, any number for a quantity, NaN where unknown.
    """

    names: tuple[str, ...]
    values: FloatArray

    @classmethod
    def of(
        cls,
        categories: Categories | None = None,
        *,
        popularity: ArrayLike | None = None,
        year: ArrayLike | None = None,
        more: Mapping[str, ArrayLike] | None = None,
    ) -> Labels:
        """Collect labels from what is known about the items.

        The name of a quantity describes its upper end: "popular", "recent".

        Args:
            categories: One binary label per category.
            popularity: (n_items,) training interactions per item; the label is the logarithm.
            year: (n_items,) years.
            more: Name -> (n_items,) other quantities.

        Raises:
            InputError: If there is no label, or if labels differ in length.
        """
        names: list[str] = []
        columns: list[FloatArray] = []
        if categories is not None:
            names += categories.names
            columns += list(categories.items.dense().T.astype(np.float64))
        quantities = dict(more or {})
        if popularity is not None:
            quantities["popular"] = np.log1p(np.asarray(popularity, np.float64))
        if year is not None:
            quantities["recent"] = year
        names += quantities
        columns += [np.asarray(values, np.float64) for values in quantities.values()]
        if not columns or len({len(column) for column in columns}) > 1:
            raise InputError("items are named by labels of one and the same number of items; give at least one label")
        return cls(tuple(names), np.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class Name:
    """The name of a coordinate and the evidence for it.

    Attributes:
        positive: Significant labels of the high end, strongest first.
        negative: Significant labels of the low end, strongest first.
        effects: Label -> effect on the held-out half, from -1 to 1, for every tested label. The effect is rank-biserial
            for a property (0.5 means that three quarters of all pairs are in this order). It is Spearman's correlation
            for a quantity.
        p_value: The p-value of the strongest label, corrected for all labels and coordinates tested together.
    """

    positive: tuple[str, ...]
    negative: tuple[str, ...]
    effects: Mapping[str, float]
    p_value: float

    @property
    def reliable(self) -> bool:
        """Whether any label is significant."""
        return bool(self.positive or self.negative)

    def words(self) -> str:
        """Return a phrase such as "Film-Noir, Mystery against Children's", or say that there is no reliable name."""
        if not self.reliable:
            return NO_NAME
        high, low = (", ".join(names[:IN_WORDS]) for names in (self.positive, self.negative))
        return f"{high} against {low}" if high and low else high or f"all but {low}"


def halves(n_items: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Return the item numbers of the learning half and of the test half, each in ascending order."""
    mixed = random_generator(seed, n_items).permutation(n_items)
    return np.sort(mixed[: n_items // 2]), np.sort(mixed[n_items // 2 :])


def name_coordinates(
    coordinates: NDArray[np.floating],
    labels: Labels,
    *,
    level: float = 0.05,
    least_effect: float = 0.1,
    candidates: int = 6,
    permutations: int = 999,
    seed: int = 0,
) -> tuple[Name, ...]:
    """Name several coordinates, tested together.

    Args:
        coordinates: (n_items, n) factors of the items, or (n_items,) for one coordinate.
        labels: The labels that can be names.
        level: Probability of naming any of the n coordinates if none is related to a label.
        least_effect: Labels with a weaker effect are no names, whatever their p-value.
        candidates: Labels tested per coordinate: the strongest ones on the learning half.
        permutations: Item permutations for the p-values.
        seed: Determines the halves and the permutations.

    Returns:
        One name per coordinate.

    Raises:
        InputError: If coordinates and labels differ in the number of items, or if there are fewer than 4 items.
    """
    columns = np.asarray(coordinates, np.float64).reshape(len(coordinates), -1)
    if len(columns) != len(labels.values):
        raise InputError(f"{len(columns)} items have coordinates and {len(labels.values)} labels; give both for all")
    if len(columns) < 4:
        raise InputError(f"{len(columns)} items cannot be halved and named; at least 4 are needed")
    learn, test = halves(len(columns), seed)
    seen = correlations(columns[learn], labels.values[learn])
    chosen = np.argsort(-np.abs(seen), axis=1, kind="stable")[:, :candidates]
    signs = np.sign(np.take_along_axis(seen, chosen, axis=1))
    ranks, values = _standard_ranks(columns[test]), _label_columns(labels.values[test])
    strength = signs * np.take_along_axis(ranks.T @ values, chosen, axis=1)
    chance = _strongest_by_chance(ranks, values, chosen, signs, permutations, seed)
    p_values = (1 + (chance[:, None, None] >= strength - 1e-12).sum(axis=0)) / (permutations + 1)
    effects = _effect_sizes(columns[test], labels.values[test], ranks.T @ values)
    return tuple(
        _named(labels.names, chosen[one], p_values[one], effects[one], level, least_effect)
        for one in range(columns.shape[1])
    )


def correlations(columns: FloatArray, values: FloatArray) -> FloatArray:
    """(n, n_labels) correlations of coordinate ranks with labels; their null spread is the same for all labels."""
    return np.asarray(_standard_ranks(columns).T @ _label_columns(values))


def _strongest_by_chance(
    ranks: FloatArray, values: FloatArray, chosen: IntArray, signs: FloatArray, permutations: int, seed: int
) -> FloatArray:
    """(permutations,) the strongest tested correlation after the labels are permuted over the items."""
    generator = random_generator(seed, permutations)
    strongest = np.empty(permutations)
    for draw in range(permutations):
        found = ranks.T @ values[generator.permutation(len(values))]
        strongest[draw] = (signs * np.take_along_axis(found, chosen, axis=1)).max()
    return strongest


def _named(
    names: tuple[str, ...],
    tested: IntArray,
    p_values: FloatArray,
    effects: FloatArray,
    level: float,
    least_effect: float,
) -> Name:
    strongest_first = tested[np.argsort(-np.abs(effects[tested]), kind="stable")]
    passed = set(tested[(p_values <= level) & (np.abs(effects[tested]) >= least_effect)].tolist())
    return Name(
        tuple(names[label] for label in strongest_first if label in passed and effects[label] > 0),
        tuple(names[label] for label in strongest_first if label in passed and effects[label] < 0),
        {names[label]: float(effects[label]) for label in strongest_first},
        float(p_values.min()),
    )


def _standard_ranks(columns: FloatArray) -> FloatArray:
    """Ranks of length 1 around 0, so that a product of two columns is their correlation."""
    return _unit(rankdata(columns, axis=0))


def _label_columns(values: FloatArray) -> FloatArray:
    """The same for labels. An unknown value is 0, so it does not contribute to a correlation."""
    known = ~np.isnan(values)
    ranks = np.where(known, rankdata(np.where(known, values, np.inf), axis=0), np.nan)
    n_known = np.maximum(known.sum(axis=0), 1)
    centred = ranks - np.nansum(ranks, axis=0) / n_known
    return _unit(np.where(known, centred, 0.0))


def _effect_sizes(columns: FloatArray, values: FloatArray, correlation: FloatArray) -> FloatArray:
    """(n, n_labels) rank-biserial effect of binary labels, rank correlation of quantities."""
    binary = np.isin(values, (0.0, 1.0)).all(axis=0)
    has = np.where(binary, values, 0.0)
    n, inside = len(values), has.sum(axis=0)
    ranks = rankdata(columns, axis=0)
    outside = np.maximum(n - inside, 1)
    total = ranks.T @ has
    apart = total / np.maximum(inside, 1) - (n * (n + 1) / 2 - total) / outside
    return np.where(binary & (inside > 0) & (inside < n), 2 * apart / n, correlation)


def _unit(columns: FloatArray) -> FloatArray:
    centred = columns - columns.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(length > 0, length, 1.0))
