"""What a method's lists are worth along its trade-off: the values of every user, for one choice of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.files import atomic_path
from recprism.contest.methods import Choice, Method

COST = "ndcg@10"
LEVELS = (0.01, 0.02, 0.05)
"""Losses of NDCG@10 at which methods are compared."""
STARTS = (0.0, 0.03, 0.1, 0.25, 0.5, 0.8, 1.0)
"""Trade-offs that are tried first."""
PLACED = 4
"""Trade-offs that are placed after them, where the loss on validation crosses a level."""
ENOUGH = 0.1  # a larger trade-off than one with this loss is not tried: no level lies there
ENDS = 8.0  # log-odds that stand for the trade-offs 0 and 1
INNER = 0.2, 0.8  # part of an interval in which a placed trade-off lies


@dataclass(frozen=True)
class Curve:
    """One choice of settings of a method, along its trade-off.

    Attributes:
        trade_offs: In rising order, (n,).
        values: Metric -> values of the users, (n, n_users), NaN for users who cannot be judged; (n, 1) for a metric of
            all lists together.
    """

    trade_offs: NDArray[np.float64]
    values: Mapping[str, NDArray[np.float32]]


def curve(
    method: Method, choice: Choice, problem: Problem, metrics: Sequence[str], trade_offs: Sequence[float] | None = None
) -> Curve:
    """Make the lists of one choice of settings, and judge them.

    Args:
        method: The method.
        choice: One of its choices.
        problem: Judges the lists.
        metrics: The metrics of the goals.
        trade_offs: Where to look; without them, they are chosen by the losses on this problem.
    """
    names = (COST, *metrics)
    base = problem.once(COST, lambda: float(np.nanmean(problem.judge(problem.base_lists, (COST,))[COST])))
    found: dict[float, dict[str, NDArray[np.float64]]] = {}
    losses: dict[float, float] = {}

    def look(trade_off: float) -> None:
        found[trade_off] = problem.judge(method(problem, trade_off, choice), names)
        losses[trade_off] = 1 - float(np.nanmean(found[trade_off][COST])) / base

    for trade_off in STARTS if trade_offs is None else trade_offs:
        look(trade_off)
        if trade_offs is None and losses[trade_off] > ENOUGH:
            break
    for at in range(PLACED if trade_offs is None else 0):
        placed = next_trade_off(losses, LEVELS[at % len(LEVELS)])
        if placed is not None:
            look(placed)
    ordered = sorted(found)
    values = {name: np.stack([found[it][name] for it in ordered]).astype(np.float32) for name in names}
    return Curve(np.array(ordered), values)


def joined(curves: Sequence[Curve]) -> Curve:
    """Return one curve of several, whose trade-offs follow each other."""
    values = {name: np.concatenate([it.values[name] for it in curves]) for name in curves[0].values}
    return Curve(np.concatenate([it.trade_offs for it in curves]), values)


def next_trade_off(losses: Mapping[float, float], level: float) -> float | None:
    """Return a trade-off between those around the first loss above a level; None if there is no such pair.

    The loss is interpolated over the log-odds of the trade-off.

    >>> round(next_trade_off({0.0: 0.0, 0.2: 0.01, 0.8: 0.03}, 0.02), 3)
    0.5
    >>> next_trade_off({0.0: 0.0, 0.2: 0.01}, 0.02)
    """
    ordered = sorted(losses)
    above = next((place for place, it in enumerate(ordered) if losses[it] > level), 0)
    if not above:
        return None
    low, high = ordered[above - 1], ordered[above]
    share = (level - losses[low]) / (losses[high] - losses[low])
    ends = [_log_odds(low), _log_odds(high)]
    x = ends[0] + min(max(share, INNER[0]), INNER[1]) * (ends[1] - ends[0])
    return 1 / (1 + math.exp(-x))


def _log_odds(trade_off: float) -> float:
    if not 0 < trade_off < 1:
        return math.copysign(ENDS, trade_off - 0.5)
    return math.log(trade_off / (1 - trade_off))


def save_curves(path: Path, curves: Mapping[int, Curve]) -> None:
    """Write the curves of one method; keys are numbers of choices."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"{at}/{name}": values for at, it in curves.items() for name, values in it.values.items()}
    arrays |= {f"{at}/": it.trade_offs for at, it in curves.items()}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_curves(path: Path) -> dict[int, Curve]:
    """Read the file of :func:`save_curves`."""
    with np.load(path, allow_pickle=False) as stored:
        values: dict[int, dict[str, NDArray[np.float32]]] = {}
        for key in stored.files:
            at, _, name = key.partition("/")
            values.setdefault(int(at), {})[name] = stored[key]
    return {at: Curve(np.asarray(it.pop(""), np.float64), it) for at, it in values.items()}
