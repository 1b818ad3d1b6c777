"""Tests on held-out users which points of a path keep a budget.

Users are the sample. A point keeps budget b of a metric if E[new - (1 - b) base] >= 0; the test is one-sided. A point
must keep the budgets of all its metrics, so its p-value is the largest of theirs, without a correction
(intersection-union). Over the points, the family-wise error is controlled: the chance that any certified point really
exceeds a budget is at most 1 - confidence (learn then test: Angelopoulos et al., 2021). The labels must be new: used
neither to fit the model nor to make the path. docs/certificate.md says what is promised, and how it was attacked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.budget.certificate import SAME_LISTS, Certificate, Check, Point
from recprism.budget.evidence import METHODS, ROUNDING, Array, PValue, upper_bound, users_needed
from recprism.common.checks import random_generator
from recprism.common.ids import as_id_array
from recprism.common.shares import CONFIDENCE, Share, share, shares
from recprism.errors import InputError
from recprism.rule.limits import limit_of, needing

Values = Mapping[str, ArrayLike]
FEWEST = 2  # clusters


def certify(
    base: Values,
    points: Sequence[Values],
    budgets: Mapping[str, Share],
    *,
    possible: Sequence[Values] | None = None,
    clusters: ArrayLike | None = None,
    confidence: Share = 0.95,
    method: Literal["betting", "t"] = "betting",
    seed: int = 0,
    part: str | None = None,
) -> Certificate:
    """Test every point of a path against all budgets.

    Args:
        base: Metric -> ``(n_users,)`` values between 0 and 1 on held-out labels. NaN users are left out of that metric.
        points: The same of each point, nearest to the base first. The order must be fixed before these labels are
            seen. If a point is the object ``base`` itself, its lists are the same: it loses nothing and needs no test.
        budgets: Metric -> the relative loss allowed, above 0 and below 1.
        possible: For each point, metric -> ``(n_users,)`` the largest loss that the lists of each user allow
            (:func:`possible_losses`), of users without labels, too. The limit of a point is the next hundredth above
            the largest of them. The certificate holds if lists of new users that could lose more are replaced by their
            base lists. Without it, any user may lose everything.
        clusters: ``(n_users,)`` a number or name for each user; users of one cluster, such as a household, are not
            independent. Without it, users are taken to be independent.
        confidence: That no certified point exceeds a budget.
        method: "betting", which holds for any number of users, or "t", the paired t test, which is approximate: a few
            users who lose much may be missing in the sample.
        seed: Of the order in which "betting" takes the users.
        part: The part of the labels, which the verdict names.

    Raises:
        InputError: If values are missing, of different users, or outside 0 to 1, or if a setting is unknown.

    >>> base = {"recall@10": np.tile([0.2, 0.4, 0.6], 400)}
    >>> point = {"recall@10": base["recall@10"] + np.tile([0.05, -0.05, 0.0, 0.0], 300)}
    >>> certify(base, [base, point], {"recall@10": 0.01}).last
    1
    """
    asked = Question(base, points, budgets, possible, clusters=clusters)
    return certify_together([asked], confidence=confidence, method=method, seed=seed, part=part)[0]


def certify_until_refused(
    base: Values,
    points: Iterable[tuple[Values, Values | None]],
    budgets: Mapping[str, Share],
    *,
    clusters: ArrayLike | None = None,
    confidence: Share = 0.95,
    method: Literal["betting", "t"] = "betting",
    part: str | None = None,
) -> Certificate:
    """Test the points of a path in order, and end at the first that fails; later points are not made.

    Each point is tested at the full level: a test in a fixed sequence. The answer is that of :func:`certify`.

    Args:
        base: As in :func:`certify`.
        points: Values and possible losses of each point, nearest to the base first; None if any user may lose all.
        budgets: As in :func:`certify`.
        clusters: As in :func:`certify`.
        confidence: As in :func:`certify`.
        method: As in :func:`certify`.
        part: As in :func:`certify`.
    """
    found: list[Certificate] = []
    for values, possible in points:
        question = Question(base, [values], budgets, None if possible is None else [possible], clusters=clusters)
        found += certify_together([question], confidence=confidence, method=method, part=part)
        if found[-1].last is None:
            break
    return replace(found[0], points=tuple(it.points[0] for it in found))


@dataclass(frozen=True, eq=False)
class Question:
    """One path and the budgets that it is tested against; see :func:`certify`.

    Attributes:
        base: Metric -> ``(n_users,)`` values.
        points: The same of each point, nearest to the base first.
        budgets: Metric -> the relative loss allowed.
        possible: For each point, metric -> ``(n_users,)`` the largest loss that the lists of each user allow.
        weight: Its share of the error that all questions may make, relative to the weights of the others.
        clusters: ``(n_users,)`` the cluster of each user; None if users are independent.
    """

    base: Values
    points: Sequence[Values]
    budgets: Mapping[str, Share]
    possible: Sequence[Values] | None = None
    weight: float = 1.0
    clusters: ArrayLike | None = None


def certify_together(
    questions: Sequence[Question],
    *,
    confidence: Share = 0.95,
    method: Literal["betting", "t"] = "betting",
    seed: int = 0,
    part: str | None = None,
    tests: Tests | None = None,
) -> list[Certificate]:
    """Answer several questions on the same labels: with one confidence, no certified point of any exceeds a budget.

    The allowed error is split over the questions by their weights. A question whose whole path is certified passes its
    share on to the others (Bretz et al., 2009; Holm's procedure if each path has one point).

    Args:
        questions: What is asked; at least one.
        confidence: Of all answers together.
        method: As in :func:`certify`.
        seed: Of the order in which "betting" takes the users.
        part: The part of the labels.
        tests: What is known of the same points, by the same method and seed.
    """
    _require_known(method, METHODS, "method")
    confidence = share(confidence, "confidence", *CONFIDENCE)
    total = sum(it.weight for it in questions)
    levels = [(1 - confidence) * it.weight / total for it in questions]
    tests = tests or Tests(method, seed)
    checks = [_checks_of(it, level, tests) for it, level in zip(questions, levels, strict=True)]
    p_values = [np.array([max(it.p_value for it in of_point) for of_point in of]) for of in checks]
    certified = _passed_on(p_values, levels)
    return [
        Certificate(tuple(map(Point, of, kept.tolist())), confidence, method, part, len(questions))
        for of, kept in zip(checks, certified, strict=True)
    ]


def is_refused(question: Question, level: float, most: float, tests: Tests) -> bool:
    """Whether a point of a question fails in a fixed sequence, so that no later one can be certified.

    Args:
        question: The points and the budgets.
        level: The level that the question begins with; bets are sized for it.
        most: The largest level that it can have when other questions pass theirs on.
        tests: Remembers the tests, so that :func:`certify_together` need not make them again.
    """
    checks = _checks_of(question, level, tests)
    return any(check.p_value > most for of_point in checks for check in of_point)


def smallest_budgets(question: Question, metric: str, *, confidence: float = 0.95) -> tuple[list[float], list[float]]:
    """Return the measured loss of each point, and the smallest budget that certifies it and all points before it.

    A budget counts as the only question: who tries several has asked several.

    Args:
        question: The path; its budgets are not used.
        metric: The metric of the budget.
        confidence: That no certified point exceeds the budget.
    """
    tests, alpha, reached = Tests("betting", 0), 1 - confidence, 0.0
    losses, budgets = [], []
    for at in range(len(question.points)):
        sample = tests.of(question, at, metric, alpha)
        reached = max(reached, upper_bound(sample.p_value, alpha) if sample.largest_loss else 0.0)
        losses.append(1 - sample.means[1] / sample.means[0])
        budgets.append(reached)
    return losses, budgets


def _passed_on(p_values: Sequence[Array], levels: Sequence[float]) -> list[NDArray[np.bool_]]:
    """Return which points pass; a question whose points all pass shares its level among those that are left."""
    levels, open_questions = list(levels), list(range(len(levels)))
    found = [fixed_sequence(p, level) for p, level in zip(p_values, levels, strict=True)]
    while True:
        done = next((at for at in open_questions if found[at].all()), None)
        if done is None:
            return found
        open_questions.remove(done)
        weight = sum(levels[at] for at in open_questions)
        for at in open_questions:
            levels[at] += levels[done] * levels[at] / weight
            found[at] = fixed_sequence(p_values[at], levels[at])


@dataclass(frozen=True, eq=False)
class _Sample:
    """What one metric of one point is tested on.

    Attributes:
        users: How many users are judged.
        clusters: How many clusters these are; None if users are independent.
        means: Of the base and of the point, over users.
        base: ``(n,)`` values of the users, or of the clusters, that take part in the test.
        new: ``(n,)`` their values at the point.
        largest_loss: The largest loss that any list allows; 0 if all lists are the same.
        p_value: Of "the true loss exceeds the budget", for any budget.
    """

    users: int
    clusters: int | None
    means: tuple[float, float]
    base: Array
    new: Array
    largest_loss: float
    p_value: PValue


class Tests:
    """The tests of points, remembered: several budgets of one path share them.

    Args:
        method: As in :func:`certify`.
        seed: As in :func:`certify`.
    """

    def __init__(self, method: str, seed: int = 0) -> None:
        self.method, self.seed = method, seed
        self._known: dict[Any, tuple[Any, _Sample]] = {}

    def of(self, question: Question, at: int, metric: str, alpha: float) -> _Sample:
        base, point = question.base, question.points[at]
        key = (id(base), id(point), id(question.clusters), metric, alpha)
        if key not in self._known:  # the objects are kept with it, so that no other object takes their ids
            self._known[key] = (base, point, question.clusters), self._made(question, at, metric, alpha)
        return self._known[key][1]

    def _made(self, question: Question, at: int, metric: str, alpha: float) -> _Sample:
        base, point, possible = question.base, question.points[at], question.possible
        before, after, judged = _paired(base, point, metric, at)
        users, means = int(judged.sum()), (float(before[judged].mean()), float(after[judged].mean()))
        limit = None if possible is None else _limits(possible[at], metric, at, before - after)
        clusters = None
        if question.clusters is not None:
            before, after, judged, limit = by_cluster(question.clusters, before, after, judged, limit, metric)
            clusters = int(judged.sum())
        old, new, largest = before[judged], after[judged], 1.0
        if limit is not None:
            largest = limit_of(limit)
            # The limit depends on who is in the sample. One of the users who need it, drawn by lot, counts with a loss
            # only, so that more of them than usual cannot make the sample look better than it is.
            order = random_generator(self.seed).permutation(len(limit))
            sets = judged & (np.arange(len(limit)) == order[np.argmax(needing(limit)[order])])
            lost = np.maximum(before - after, 0.0)
            old, new = (np.where(sets, it, of)[judged] for it, of in ((lost, before), (0.0, after)))
        if point is base or largest <= ROUNDING:
            return _Sample(users, clusters, means, old, new, 0.0, lambda _: 0.0)
        test = METHODS[self.method](old, new, largest, alpha, self.seed)
        return _Sample(users, clusters, means, old, new, largest, test)


def by_cluster(
    clusters: ArrayLike, before: Array, after: Array, judged: NDArray[np.bool_], limit: Array | None, metric: str
) -> tuple[Array, Array, NDArray[np.bool_], Array | None]:
    """Return the same about clusters, which are independent: sums over their users, scaled to stay below 1.

    The mean over users is at least 0 if and only if the mean of these sums is. A cluster can lose as much as the user
    of it who can lose most, with labels or without, if no cluster is larger than those here.

    Args:
        clusters: ``(n_users,)`` a number or name for each user.
        before: ``(n_users,)`` values of the base.
        after: ``(n_users,)`` values of the point.
        judged: ``(n_users,)`` who is judged.
        limit: ``(n_users,)`` the largest loss that lists allow; None without lists.
        metric: Whose values these are.

    Raises:
        InputError: If a cluster is missing, or fewer than two of them are judged.
    """
    names = as_id_array(clusters, "cluster", distinct=False)
    _, rows, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if len(rows) != len(before):
        raise InputError(f"{metric} has {len(before)} users, and clusters are given for {len(rows)}")
    old, new = (np.bincount(rows, np.where(judged, it, 0.0)) / sizes.max() for it in (before, after))
    if limit is not None:
        largest = np.zeros(len(sizes))
        np.maximum.at(largest, rows, limit)
        limit = largest
    has_judge = np.bincount(rows, judged) > 0
    if has_judge.sum() < FEWEST:
        raise InputError(f"all users whom {metric} judges are in one cluster; a test needs at least {FEWEST} clusters")
    return old, new, has_judge, limit


def _checks_of(question: Question, alpha: float, tests: Tests) -> list[tuple[Check, ...]]:
    points, possible = question.points, question.possible
    if not points or not question.budgets:
        raise InputError(
            f"{len(points)} points and {len(question.budgets)} budgets; a certificate needs at least one of each"
        )
    if possible is not None and len(possible) != len(points):
        raise InputError(f"{len(points)} points and possible losses of {len(possible)}; give them for every point")
    budgets = shares(question.budgets, "budget", ends=False)
    return [
        tuple(
            _checked(tests.of(question, at, metric, alpha), metric, budget, alpha, tests.method)
            for metric, budget in budgets.items()
        )
        for at in range(len(points))
    ]


def _checked(sample: _Sample, metric: str, budget: float, alpha: float, method: str) -> Check:
    loss, p = 1 - sample.means[1] / sample.means[0], sample.p_value(budget)
    about, clusters = (metric, budget, sample.users, *sample.means, loss), sample.clusters
    if not sample.largest_loss:
        return Check(*about, None, 0.0, True, SAME_LISTS, None, 0.0, clusters)
    if p <= alpha:
        return Check(*about, None, p, True, method, None, sample.largest_loss, clusters)
    upper = max(budget, upper_bound(sample.p_value, alpha))
    needed = users_needed(sample.base, sample.new, budget, alpha, method, sample.largest_loss)
    if needed is not None and clusters is not None:
        needed = math.ceil(needed * sample.users / clusters)
    return Check(*about, upper, p, False, method, needed, sample.largest_loss, clusters)


def _limits(limits: Values, metric: str, at: int, losses: Array) -> Array:
    """Return the largest possible losses of a metric, after a check against the measured ones."""
    found = _column(limits, metric, f"the possible losses of point {at}")
    if found.shape != losses.shape:
        raise InputError(f"{metric} has {len(losses)} users and possible losses of {len(found)}; give the same users")
    beyond = np.flatnonzero(losses > found + 1e-6)
    if len(beyond):
        raise InputError(
            f"user row {beyond[0]} loses {losses[beyond[0]]:g} of {metric} at point {at}, more than the possible "
            f"{found[beyond[0]]:g}; compute possible losses from the same lists"
        )
    return found


def fixed_sequence(p_values: Array, alpha: float) -> NDArray[np.bool_]:
    """Test in the given order, each at the full level, until the first failure.

    >>> fixed_sequence(np.array([0.01, 0.04, 0.2, 0.001]), 0.05).tolist()
    [True, True, False, False]
    """
    return np.logical_and.accumulate(p_values <= alpha)


def _paired(base: Values, point: Values, metric: str, at: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return the values of all users, and who is judged in both."""
    before, after = _column(base, metric, "the base"), _column(point, metric, f"point {at}")
    if before.shape != after.shape:
        raise InputError(
            f"{metric} has {len(before)} users in the base and {len(after)} in point {at}; give the same users"
        )
    judged = ~np.isnan(before - after)
    if not judged.any():
        raise InputError(f"{metric}: no user is judged in both the base and point {at}; all values are NaN or missing")
    if before[judged].mean() <= ROUNDING:
        raise InputError(f"{metric} of the base is 0 for every user; a relative loss needs a base above 0")
    return before, after, judged


def _column(values: Values, metric: str, where: str) -> Array:
    if metric not in values:
        raise InputError(f"{where} has no {metric}, which has a budget; there are {', '.join(values) or 'none'}")
    column = np.asarray(values[metric], np.float64)
    if column.ndim != 1:
        raise InputError(f"{metric} of {where} has shape {column.shape}; one value per user is needed")
    outside = np.flatnonzero((column < 0) | (column > 1 + 1e-9))
    if len(outside):
        raise InputError(
            f"{metric} of {where} is {column[outside[0]]:g} for user row {outside[0]}; values must lie between 0 and 1"
        )
    return column


def _require_known(name: str, known: Mapping[str, Any], what: str) -> None:
    if name not in known:
        raise InputError(f"unknown {what} {name!r}; choose one of {', '.join(known)}")
