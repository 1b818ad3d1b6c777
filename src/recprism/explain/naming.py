"""Names for a coordinate of the items: what its high end has that its low end lacks, if anything.

Names are chosen on one half of the items and tested on the other. The p-value of a name allows for every name and every
coordinate that was tested with it: it is the share of permutations of the items in which any of them came out as strong
(Westfall and Young). Where nothing passes, there is no name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from recprism.data.subtopics import Subtopics
from recprism.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NO_NAME = "no reliable name"
IN_WORDS = 3  # names shown for each end


@dataclass(frozen=True, eq=False)
class Labels:
    """What items can be named by.

    values: (n_items, n_labels) 0 or 1 for what an item has or lacks, any number for a quantity, NaN where not known
    """

    names: tuple[str, ...]
    values: FloatArray

    @classmethod
    def of(
        cls,
        subtopics: Subtopics | None = None,
        *,
        tags: Subtopics | None = None,
        popularity: ArrayLike | None = None,
        year: ArrayLike | None = None,
        more: Mapping[str, ArrayLike] | None = None,
    ) -> Labels:
        """Subtopics, tags, training interactions per item (taken as logarithm), years and other quantities.

        A quantity goes by the name of its upper end: "popular", "recent".
        """
        names: list[str] = []
        columns: list[FloatArray] = []
        for sets in (subtopics, tags):
            if sets is not None:
                names += sets.names
                columns += list(sets.items.dense().T.astype(np.float64))
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
    """What a coordinate is about.

    positive, negative: labels of its high and its low end that passed the test, strongest first
    effects: label -> effect on the held-out half, for every label that was tested: from -1 to 1, rank-biserial for what
        items have or lack (0.5: three quarters of all pairs are in this order), Spearman's for quantities
    p_value: of the strongest, corrected for all labels and coordinates tested together
    typical_high, typical_low: item numbers, most typical first
    """

    positive: tuple[str, ...]
    negative: tuple[str, ...]
    effects: Mapping[str, float]
    p_value: float
    typical_high: IntArray
    typical_low: IntArray

    @property
    def reliable(self) -> bool:
        return bool(self.positive or self.negative)

    def words(self) -> str:
        """ "Film-Noir, Mystery against Children's", or that there is no reliable name."""
        if not self.reliable:
            return NO_NAME
        high, low = (", ".join(names[:IN_WORDS]) for names in (self.positive, self.negative))
        return f"{high} against {low}" if high and low else high or f"all but {low}"


def halves(n_items: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Item numbers of the half to learn on and of the half to test on, each rising."""
    mixed = np.random.default_rng([seed, n_items]).permutation(n_items)
    return np.sort(mixed[: n_items // 2]), np.sort(mixed[n_items // 2 :])


def name_coordinates(
    coordinates: NDArray[np.floating],
    labels: Labels,
    *,
    level: float = 0.05,
    least_effect: float = 0.1,
    candidates: int = 6,
    permutations: int = 999,
    typical: int = 5,
    seed: int = 0,
) -> tuple[Name, ...]:
    """A name for each of several coordinates, tested together.

    coordinates: (n_items, n) factors or directions of the items, or (n_items,) for one
    level: how often a name may be given anywhere among the n where there is nothing to name
    least_effect: what is weaker is no name, however certain
    candidates: labels tested for each coordinate, the strongest on the learning half
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
        _named(columns[:, one], labels.names, chosen[one], p_values[one], effects[one], level, least_effect, typical)
        for one in range(columns.shape[1])
    )


def correlations(columns: FloatArray, values: FloatArray) -> FloatArray:
    """(n, n_labels) of the ranks of the coordinates with the labels; the same spread by chance for rare and common."""
    return np.asarray(_standard_ranks(columns).T @ _label_columns(values))


def _strongest_by_chance(
    ranks: FloatArray, values: FloatArray, chosen: IntArray, signs: FloatArray, permutations: int, seed: int
) -> FloatArray:
    """(permutations,) the strongest of all tested correlations when items get the labels of other items."""
    generator = np.random.default_rng([seed, permutations])
    strongest = np.empty(permutations)
    for draw in range(permutations):
        found = ranks.T @ values[generator.permutation(len(values))]
        strongest[draw] = (signs * np.take_along_axis(found, chosen, axis=1)).max()
    return strongest


def _named(
    column: FloatArray,
    names: tuple[str, ...],
    tested: IntArray,
    p_values: FloatArray,
    effects: FloatArray,
    level: float,
    least_effect: float,
    typical: int,
) -> Name:
    strongest_first = tested[np.argsort(-np.abs(effects[tested]), kind="stable")]
    passed = set(tested[(p_values <= level) & (np.abs(effects[tested]) >= least_effect)].tolist())
    by_size = np.argsort(column, kind="stable")
    return Name(
        tuple(names[label] for label in strongest_first if label in passed and effects[label] > 0),
        tuple(names[label] for label in strongest_first if label in passed and effects[label] < 0),
        {names[label]: float(effects[label]) for label in strongest_first},
        float(p_values.min()),
        by_size[::-1][:typical],
        by_size[:typical],
    )


def _standard_ranks(columns: FloatArray) -> FloatArray:
    """Ranks of length 1 around 0, so that a product of two columns is their correlation."""
    return _unit(rankdata(columns, axis=0))


def _label_columns(values: FloatArray) -> FloatArray:
    """Labels likewise; quantities by rank. What is not known stands at the middle and counts for nothing."""
    known = ~np.isnan(values)
    ranks = np.where(known, rankdata(np.where(known, values, np.inf), axis=0), np.nan)
    n_known = np.maximum(known.sum(axis=0), 1)
    centred = ranks - np.nansum(ranks, axis=0) / n_known
    return _unit(np.where(known, centred, 0.0))


def _effect_sizes(columns: FloatArray, values: FloatArray, correlation: FloatArray) -> FloatArray:
    """(n, n_labels) rank-biserial where a label is 0 or 1, else the correlation of ranks."""
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
