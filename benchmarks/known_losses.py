"""Lists with a known true loss, for attacks on the certificate: diverse lists, mixtures of them, and drawn values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recprism.data.categories import Categories
from recprism.errors import InputError
from recprism.testing.synthetic import FloatArray, IntArray, World, normaliser_of, parsed, place_weights


def diversified(scores: FloatArray, categories: Categories, strength: float, k: int = 20, pool: int = 60) -> IntArray:
    """Make lists: the next item has the best score minus ``strength`` for each earlier item of its categories.

    Args:
        scores: ``(n_users, n_items)``.
        categories: Categories of the items.
        strength: 0 gives the k items with the best scores.
        k: Length of the lists.
        pool: Number of candidates: the items with the best scores.

    Returns:
        ``(n_users, k)`` item numbers.
    """
    pool = min(pool, scores.shape[1])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :pool]
    worth = np.take_along_axis(scores, best, axis=1)
    has = categories.items.dense()[best].astype(np.float32)  # (n_users, pool, n_categories)
    rows, chosen = np.arange(len(best)), np.empty((len(best), k), np.int64)
    shown = np.zeros((len(best), len(categories)), np.float32)
    for place in range(k):
        at = np.argmax(worth - strength * (has @ shown[:, :, None])[:, :, 0], axis=1)
        chosen[:, place] = best[rows, at]
        shown += has[rows, at]
        worth[rows, at] = -np.inf
    return chosen


def with_loss(
    world: World, ladder: Sequence[IntArray], metric: str, loss: float, generator: np.random.Generator
) -> IntArray:
    """Mix lists so that their true relative loss of a metric is ``loss``, or more by less than one user's share.

    Args:
        world: The world.
        ladder: Lists of increasing loss, the base first. Some users get those of one step, the others those of the
            next.
        metric: Such as "ndcg@10".
        loss: The relative loss.
        generator: Chooses the users.

    Returns:
        ``(n_users, k)`` item numbers.

    Raises:
        InputError: No step of the ladder loses so much.
    """
    values = np.stack([world.expected(metric, lists) for lists in ladder])
    wanted = (1 - loss) * values[0].sum()
    totals = values.sum(axis=1)
    beyond = np.flatnonzero(totals[1:] <= wanted)
    if not len(beyond):
        raise InputError(
            f"no rung loses {loss:.2%} of {metric}, the last {1 - totals[-1] / totals[0]:.2%}; make the ladder longer"
        )
    rung = int(beyond[0])
    order = generator.permutation(world.n_users)
    totals_on_the_way = totals[rung] + np.cumsum((values[rung + 1] - values[rung])[order])
    closest = int(np.argmax(np.where(totals_on_the_way <= wanted, totals_on_the_way, -np.inf)))
    moved = order[: closest + 1]
    mixed = ladder[rung].copy()
    mixed[moved] = ladder[rung + 1][moved]
    return mixed


def draw_values(
    world: World, points: Sequence[IntArray], metrics: Sequence[str], n_users: int, generator: np.random.Generator
) -> list[dict[str, FloatArray]]:
    """Draw new users with new labels; return for each set of lists the ``(n_users,)`` values of each metric."""
    users = generator.integers(0, world.n_users, n_users)
    labels = world.labels(users, generator)
    return [measured(lists[users], labels, metrics) for lists in points]


def measured(lists: IntArray, labels: NDArray[np.bool_], metrics: Sequence[str]) -> dict[str, FloatArray]:
    """Return metric -> ``(n,)`` values of lists on ``(n, n_items)`` labels; NaN for users without labels."""
    counts = labels.sum(axis=1)
    hits = np.take_along_axis(labels, lists, axis=1)
    return {metric: np.where(counts > 0, _value(metric, hits, counts), np.nan) for metric in metrics}


def _value(metric: str, hits: NDArray[np.bool_], counts: IntArray) -> FloatArray:
    name, k = parsed(metric)
    if name == "hit_rate":
        return np.asarray(hits[:, :k].any(axis=1), np.float64)
    value: FloatArray = hits[:, :k] @ place_weights(name, k) / normaliser_of(name, k, np.maximum(counts, 1))
    return value
