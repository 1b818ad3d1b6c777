"""Evaluation of lists by metrics with names such as "ndcg@10"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.common.checks import random_generator
from recprism.common.ids import show
from recprism.errors import InputError
from recprism.metrics.context import HOW_TO_GIVE, Context
from recprism.metrics.evaluation import Evaluation, Score
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric
from recprism.metrics.registry import parse
from recprism.metrics.statistics import bootstrap_means, percentile_interval

DEFAULT_METRICS = tuple(
    f"{name}@10"
    for name in (
        *("recall", "ndcg", "alpha_ndcg", "subtopic_coverage", "subtopic_coverage_shared", "subtopic_entropy", "ilad"),
        *("catalogue_coverage", "gini", "tail_share", "novelty", "personalisation"),
    )
)
"""What ``evaluate`` computes by default, as far as the context allows."""

PAPER_METRICS = tuple(
    f"{name}@{k}"
    for k in (10, 20)
    for name in ("recall", "ndcg", "alpha_ndcg_paper", "subtopic_coverage", "catalogue_coverage", "ilad_paper")
)
"""The columns of the paper's tables, computed as its tables were; lists need 20 places."""


class Request(NamedTuple):
    metric: Metric
    k: int

    @property
    def name(self) -> str:
        return f"{self.metric.name}@{self.k}"

    @property
    def places(self) -> int:
        """The length that lists must have."""
        return max(self.k, self.metric.min_places)


def deepest_cut(metrics: Iterable[str | tuple[Metric, int]] | None = None, default: int = 10) -> int:
    """Return the length that lists must have for all of the metrics.

    Args:
        metrics: Names ("ndcg@10"), or pairs of a metric and a cut; None for the default metrics.
        default: The cut of names without one.

    >>> deepest_cut(["ndcg@5", "recall"]), deepest_cut(["alpha_ndcg_paper@10"])
    (10, 20)
    """
    requests = _requests(DEFAULT_METRICS if metrics is None else metrics, default)
    return max((request.places for request in requests), default=default)


def evaluate(
    lists: Lists | ArrayLike | Tensor,
    context: Context | None = None,
    metrics: Iterable[str | tuple[Metric, int]] | None = None,
    *,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator | None = 0,
    missing: Literal["raise", "skip"] = "raise",
    users: ArrayLike | None = None,
) -> Evaluation:
    """Evaluate lists by any number of metrics.

    Args:
        lists: A :class:`Lists`, or ``(n_users, k)`` item numbers with -1 in empty places.
        context: What lists are evaluated against; not needed for a :class:`Lists`.
        metrics: Names ("ndcg@10"; without a cut the whole list counts), or pairs of a metric and a cut. None computes
            the default metrics that the context allows.
        bootstrap: Resamples of users for the intervals of means; 0 for none. Metrics of all lists together have no
            interval.
        level: Coverage of the intervals.
        seed: Seed of the resamples.
        missing: If a metric needs something that the context lacks: "raise" an error, or "skip" the metric and note it.
        users: ``(n_users,)`` ids of the rows.

    Returns:
        A row per metric, and the values of every user.

    Raises:
        InputError: A metric is unknown, or the lists or the context do not fit it.

    >>> context = Context(relevant=[[1, 0, 1, 0], [0, 1, 0, 0]], categories=[[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> names = ["recall@2", "subtopic_coverage@2", "catalogue_coverage@2"]
    >>> result = evaluate([[0, 3], [2, 1]], context, names, bootstrap=0)
    >>> [(score.name, score.mean) for score in result.scores]
    [('recall@2', 0.75), ('subtopic_coverage@2', 1.0), ('catalogue_coverage@2', 1.0)]
    >>> result.values["recall@2"].tolist()
    [0.5, 1.0]
    """
    if not isinstance(lists, Lists):
        if context is None:
            raise InputError("lists alone cannot be judged; pass a Context as well")
        lists = Lists(lists, context)
    _require_sensible(bootstrap, level)
    ids = _user_ids(users, lists.n_users)
    if metrics is None:
        metrics, missing = [name for name in DEFAULT_METRICS if deepest_cut([name]) <= lists.depth], "skip"
    requests = _requests(metrics, lists.depth)
    _require_places(requests, lists.depth)
    skipped = _skipped(requests, lists.context, missing)
    requests = [request for request in requests if request.name not in skipped]
    single, per_user = _computed(requests, lists)
    _require_no_infinity(single, per_user, None if users is None else ids)
    intervals = _intervals(per_user, bootstrap, level, random_generator(seed))
    scores = tuple(_score(request, lists.n_users, single, per_user, intervals) for request in requests)
    return Evaluation(scores, per_user, ids, _notes(requests, scores, skipped), bootstrap, level)


def require_context(metrics: Iterable[str], context: Context) -> None:
    """Refuse metrics that need something that a context lacks."""
    _skipped(_requests(metrics, 1), context, "raise")


def _requests(metrics: Iterable[str | tuple[Metric, int]], depth: int) -> list[Request]:
    """Return the distinct requests, in order."""
    asked = [parse(entry) if isinstance(entry, str) else entry for entry in metrics]
    requests = [Request(metric, depth if k is None else k) for metric, k in asked]
    return list({request.name: request for request in requests}.values())


def _require_places(requests: Iterable[Request], depth: int) -> None:
    for request in requests:
        if request.k < 1 or request.places > depth:
            raise InputError(f"{request.name} needs lists of at least {request.places} places; these have {depth}")


def _skipped(requests: Sequence[Request], context: Context, missing: str) -> dict[str, str]:
    skipped = {}
    for request in requests:
        lacking = [HOW_TO_GIVE[need] for need in context.missing(request.metric.needs)]
        if lacking:
            skipped[request.name] = f"it needs {' and '.join(lacking)}"
            if missing == "raise":
                raise InputError(f"{request.name} cannot be computed: {skipped[request.name]}")
        elif missing == "skip" and "relevant" in request.metric.needs and context.is_unlabelled:
            skipped[request.name] = "there are no held-out interactions"
    return skipped


def _computed(requests: Sequence[Request], lists: Lists) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """Return by name the values of all lists together, and the ``(n_users,)`` values per user."""
    cuts = {k: lists.at(k) for k in {request.k for request in requests}}
    single = {r.name: _value(r, cuts[r.k], ()) for r in requests if not r.metric.per_user}
    per_user = {r.name: _value(r, cuts[r.k], (lists.n_users,)) for r in requests if r.metric.per_user}
    # Every metric is queued before the first value is waited for.
    return (
        {name: float(value) for name, value in single.items()},
        {name: value.cpu().numpy() for name, value in per_user.items()},
    )


def _require_no_infinity(
    single: dict[str, float], per_user: dict[str, NDArray[np.float64]], ids: NDArray[Any] | None
) -> None:
    """Raise an error for infinite values. NaN means that a user cannot be evaluated; infinity is a wrong function.

    Args:
        single: Values of all lists together.
        per_user: Values per user.
        ids: Ids of the users, None if the caller gave none.
    """
    rule = "a metric gives finite numbers, and NaN for a user it cannot judge"
    for name, value in single.items():
        if math.isinf(value):
            raise InputError(f"{name} gave infinity for all lists together; {rule}")
    for name, values in per_user.items():
        bad = np.flatnonzero(np.isinf(values))
        if len(bad):
            user = f"row {bad[0]} (" if ids is None else f"{show(ids[bad[0]])} (row {bad[0]}; "
            raise InputError(f"{name} gave infinity for user {user}{len(bad)} users in all); {rule}")


def _value(request: Request, lists: Lists, shape: tuple[int, ...]) -> Tensor:
    value = torch.as_tensor(request.metric(lists), dtype=torch.float64, device=lists.context.device)
    if tuple(value.shape) != shape:
        kind = "one value per user" if shape else "one value for all lists"
        raise InputError(f"{request.name} must give {kind}, shape {shape}; its function gave {tuple(value.shape)}")
    return value


def _intervals(
    per_user: dict[str, NDArray[np.float64]], bootstrap: int, level: float, generator: np.random.Generator
) -> dict[str, tuple[float, float]]:
    if not (bootstrap and per_user):
        return {}
    resampled = bootstrap_means(np.stack(list(per_user.values()), axis=1), bootstrap, generator)
    low, high = percentile_interval(resampled, level)
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return {name: pair for name, pair in zip(per_user, ends, strict=True) if not np.isnan(pair).any()}


def _score(
    request: Request,
    n_users: int,
    single: dict[str, float],
    per_user: dict[str, NDArray[np.float64]],
    intervals: dict[str, tuple[float, float]],
) -> Score:
    metric, name = request.metric, request.name
    low, high = intervals.get(name, (None, None))
    if name in single:
        return Score(metric.name, request.k, single[name], low, high, n_users, 0, metric.higher_is_better)
    mean, judged = _mean_of_judged(per_user[name])
    return Score(metric.name, request.k, mean, low, high, judged, n_users - judged, metric.higher_is_better)


def _mean_of_judged(values: NDArray[np.float64]) -> tuple[float, int]:
    """Return the mean over users with a value, and the number of these users."""
    judged = values[~np.isnan(values)]
    return (float(judged.mean()) if len(judged) else math.nan), len(judged)


def _notes(requests: Sequence[Request], scores: Sequence[Score], skipped: dict[str, str]) -> tuple[str, ...]:
    left_out = [
        f"{score.name}: {score.left_out} of {score.left_out + score.n_users} users left out. {request.metric.empties}"
        for request, score in zip(requests, scores, strict=True)
        if score.left_out
    ]
    return (*left_out, *(f"{name} skipped: {why}" for name, why in skipped.items()))


def _user_ids(users: ArrayLike | None, n_users: int) -> NDArray[Any]:
    ids = np.arange(n_users) if users is None else np.asarray(users)
    if ids.shape != (n_users,):
        raise InputError(f"users must name each of the {n_users} lists, got shape {ids.shape}")
    return ids


def _require_sensible(bootstrap: int, level: float) -> None:
    if bootstrap < 0:
        raise InputError(f"bootstrap is a number of resamples, 0 for none; got {bootstrap}")
    if not 0 < level < 1:
        raise InputError(f"level is the coverage of the intervals, above 0 and below 1 such as 0.95; got {level}")
