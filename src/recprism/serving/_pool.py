"""The candidates of one request: numbered, ranked, and scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.ids import Id, canonical_text
from recprism.serving._inputs import as_ids, as_scores, check_candidates
from recprism.serving._prepared import PreparedRule


@dataclass(frozen=True, eq=False)
class Pool:
    """The candidates of one request, the best first.

    Attributes:
        given: Ids as they were given.
        order: Position of each candidate among the given ones.
        numbers: Item numbers, (n,).
        scores: Scores as given, (n,).
        own: The same with dials, (n,).
        relevance: Scores with boosts and dials, scaled to 0 .. 1, (n,).
        ranks: Ranks by relevance alone, without boosts, among all candidates, (n,), from 1.
        unknown: Ids that the export does not know.
        rest: Id and score of the candidates that the rule does not look at, the best first.
        boost: What its boost adds to the relevance of each, (n,); None without boosts.
    """

    given: list[Id]
    order: list[int]
    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    own: NDArray[np.float64]
    relevance: NDArray[np.float64]
    ranks: NDArray[np.int64]
    unknown: tuple[Id, ...]
    rest: list[tuple[Id, float]]
    boost: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.order)

    @property
    def span(self) -> float:
        """The range of the scores as given."""
        return float(self.scores.max() - self.scores.min()) if len(self.scores) else 0.0

    def id_at(self, position: int) -> Id:
        """Return the id of a candidate; most are never asked for, so there is no list of all."""
        return self.given[self.order[position]]

    @property
    def ids(self) -> list[Id]:
        """Ids in ranked order."""
        return [self.given[at] for at in self.order]

    def without(self, pinned: set[str]) -> Pool:
        """Return the candidates that are not pinned, with relevance scaled again."""
        if not pinned:
            return self
        stay = np.array([canonical_text(one) not in pinned for one in self.ids], np.bool_)
        if stay.all():
            return self
        order, relevance = np.array(self.order)[stay].tolist(), _scaled(self.relevance[stay])
        arrays = (self.numbers[stay], self.scores[stay], self.own[stay], relevance, self.ranks[stay])
        boost = None if self.boost is None else self.boost[stay] / _span(self.relevance[stay])
        return Pool(self.given, order, *arrays, self.unknown, self.rest, boost)


def make_pool(
    rule: PreparedRule,
    candidates: Any,
    scores: ArrayLike,
    *,
    depth: int,
    k: int,
    out: set[str],
    dials: Mapping[int, float],
    boosted: bool = True,
    spared: int = -1,
) -> Pool:
    """Rank candidates.

    Args:
        rule: The rule.
        candidates: Ids, (n,).
        scores: One score per candidate, (n,).
        depth: How many of the best the rule looks at.
        k: Length of the list.
        out: Ids that are not shown, as text.
        dials: Column -> share of the score range.
        boosted: Whether boosts of items count.
        spared: Number of an item whose boost does not count.

    Raises:
        InputError: If scores and candidates do not fit together, or a candidate occurs twice.
    """
    all_known = candidates is rule.ids
    ids: list[Id] = candidates if all_known else as_ids(candidates, "candidates")
    score, (numbers, unknown) = as_scores(scores), rule.look_up(ids)
    all_shown = check_candidates(ids, numbers, unknown, score, distinct=all_known) and not out
    raised = own = score + _dialled(rule, numbers, score, dials) if dials else score
    if boosted and rule.boosts is not None:
        raised = own + np.where(numbers == spared, 0.0, rule.boosts[numbers])
    order = np.argsort(-raised, kind="stable")
    if not all_shown:
        shown = np.array([canonical_text(one) not in out for one in ids], np.bool_) & (score > -np.inf)
        order = order[shown[order]]
    ranks, boost = np.arange(1, len(order) + 1), None
    if raised is not own:
        ranks = np.argsort(np.argsort(-own[order], kind="stable"), kind="stable") + 1
        boost = (raised - own)[order]
    left: list[tuple[Id, float]] = []
    if len(order) > max(depth, k):
        order, rest = order[: max(depth, k)], order[max(depth, k) :]
        left = [(ids[at], float(score[at])) for at in rest.tolist()]
    ranked = score[order]
    dialled = ranked if own is score else own[order]
    relevance = _scaled(dialled if raised is own else raised[order])
    if boost is not None:
        boost = boost[: len(order)] / _span(raised[order])
    arrays = (numbers[order], ranked, dialled, relevance, ranks[: len(order)])
    return Pool(ids, order.tolist(), *arrays, unknown, left, boost)


def _dialled(
    rule: PreparedRule, numbers: NDArray[np.int64], score: NDArray[np.float64], dials: Mapping[int, float]
) -> NDArray[np.float64]:
    """Return what dials add to the score of each candidate, (n,)."""
    real = score[score > -np.inf]
    span = float(real.max() - real.min()) if len(real) else 0.0
    added = np.zeros(len(numbers))
    for column, value in dials.items():
        added += span * value * rule.has(column)[numbers]
    return added


def _scaled(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale ranked scores to 0 .. 1; equal ones become 0."""
    if not len(score):
        return score
    return np.asarray((score - float(score[-1])) / _span(score))


def _span(score: NDArray[np.float64]) -> float:
    """Return the range of ranked scores; 1 if they are equal."""
    return float(score[0]) - float(score[-1]) or 1.0 if len(score) else 1.0
