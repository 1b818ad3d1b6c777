"""Controls: perturbations that ignore factors. A gain that controls also reach is not due to factors.

Three controls shuffle the learned values. "all" shuffles all entries of a side. "rows" shuffles within rows: an item
keeps the size of its move, but not its factors. "factors" shuffles within factors: a factor keeps the size of its move,
but not its items. The fourth control is plain promotion: one number per item, the same for every user.

Promotion may cost as much accuracy as the learned change. The best single promotion below that limit depends on which
grid points lie just below it: a change in the last digits moved its gain by a fifth. Two promotions are therefore
mixed, one below the limit and one above it, so that the mixture costs as much as the learned change. The best mixture
lies on the concave hull of all promotions, which is as stable as the measured values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change, Matrix, with_bias
from recprism.cmb.factors.evaluator import Evaluator
from recprism.common.checks import random_generator
from recprism.common.progress import ProgressCallback, count_steps
from recprism.errors import InputError
from recprism.metrics import evaluate
from recprism.metrics.registry import parse

Array = NDArray[np.float64]

SCALES = tuple(2.0 ** (step / 4) for step in range(-8, 13))  # 0.25 to 8; coarse steps would weaken the control
LEAST_LOSS = 1e-3  # of the base's accuracy: a loss that promotion may always have
SWAPS = 999


@dataclass(frozen=True, eq=False)
class Shuffled:
    """A control that shuffles the learned values.

    Attributes:
        within: "all", "rows" or "factors".
        title: The same in words.
        objective: (draws,) values of the objective.
        cost: (draws,) values of the metric of accuracy.
        p_value: Share of draws that are at least as good as the learned change, which counts as one of the draws.
    """

    within: str
    title: str
    objective: Array
    cost: Array
    p_value: float


@dataclass(frozen=True)
class PureBias:
    """The best mixture of two promotions of items that costs no more accuracy than the learned change.

    Each user's list comes from the second promotion with probability ``share``, otherwise from the first.

    Attributes:
        sources: Origin of the numbers per item: "its own bias part", a candidate of the caller, or "none" for the base.
        scales: Factors by which the numbers are multiplied.
        share: Probability of the second promotion.
        objective: Expected value of the objective; the value of one draw if the objective has no value per user.
        cost: Expected value of the metric of accuracy.
        p_value: One-sided p-value of the paired test over users that the learned change is no better.
    """

    sources: tuple[str, str]
    scales: tuple[float, float]
    share: float
    objective: float
    cost: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Controls:
    """The learned change and its controls, under one objective and one metric of accuracy.

    Attributes:
        objective: Name of the objective.
        cost: Name of the metric of accuracy.
        base: (objective, cost) values before the change.
        learned: (objective, cost) values under the learned change.
        moved: Share of the evaluated lists that changed in items or order.
        shuffled: The controls that shuffle.
        bias: The control that promotes items.
        higher_is_better: Direction of the objective.
        unseen: Whether the evaluated users were held out when the change was found.
    """

    objective: str
    cost: str
    base: tuple[float, float]
    learned: tuple[float, float]
    moved: float
    shuffled: tuple[Shuffled, ...]
    bias: PureBias
    higher_is_better: bool = field(default=True)
    unseen: bool = field(default=False)

    @property
    def draws(self) -> int:
        """Number of draws of each shuffle."""
        return len(self.shuffled[0].objective)

    def __getitem__(self, within: str) -> Shuffled:
        found = {control.within: control for control in self.shuffled}
        if within not in found:
            raise InputError(f"no control shuffles within {within!r}; there are {', '.join(found)}")
        return found[within]

    def gain(self, value: float) -> float:
        """Return by how much a value of the objective is better than the base."""
        return value - self.base[0] if self.higher_is_better else self.base[0] - value

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for the learned change and one per control: means, range of 95 % of the draws, p-value."""
        learned = {"control": "learned", "objective": self.learned[0], "cost": self.learned[1]}
        drawn = [
            {
                "control": control.title,
                "objective": float(control.objective.mean()),
                "cost": float(control.cost.mean()),
                "low": float(np.quantile(control.objective, 0.025)),
                "high": float(np.quantile(control.objective, 0.975)),
                "p_value": control.p_value,
            }
            for control in self.shuffled
        ]
        bias = {"control": "promotion of items", **asdict(self.bias)}
        empty = {"low": None, "high": None, "p_value": None, "sources": None, "scales": None, "share": None}
        ordered = ("control", "objective", "cost", *empty)
        return [{name: {**empty, **row}[name] for name in ordered} for row in (learned, *drawn, bias)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "cost": self.cost,
            "base": {"objective": self.base[0], "cost": self.base[1]},
            "moved": self.moved,
            "unseen": self.unseen,
            "rows": self.rows(),
        }


def run_controls(
    change: Change,
    evaluator: Evaluator,
    objective: str = "subtopic_coverage@10",
    cost: str = "ndcg@10",
    draws: int = 199,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
    *,
    candidates: Mapping[str, NDArray[Any]] | None = None,
    unseen: bool = False,
) -> Controls:
    """Evaluate the learned change and its controls.

    Args:
        change: The change of the vectors.
        evaluator: Ranks and evaluates; its metrics are replaced by the objective and the cost.
        objective: The metric whose gain is examined.
        cost: The metric of accuracy.
        draws: Draws of each shuffle.
        seed: Seed of the draws.
        on_step: Receives the progress after every ranking.
        candidates: Name -> (n_items,) further numbers per item for promotion, for example those of a learner that has
            nothing else. Each is tried at all scales. The best mixture is chosen on the lists on which it is compared,
            which favours it.
        unseen: Whether the evaluated users were held out when the change was found. On other users a change beats every
            control even if factors are unrelated to the objective, so that no claim is made.

    Raises:
        InputError: If ``draws`` is less than 1, or a candidate has the wrong shape.
    """
    if draws < 1:
        raise InputError(f"draws={draws}: at least one draw is needed")
    own = replace(evaluator, metrics=(objective, cost))
    names = tuple(own.means(change.base))
    trial = _Trial(change, own, names[0], names[-1], 1.0 if upwards(objective) else -1.0)
    sources = {"its own bias part": change.bias, **(candidates or {})}
    total = len(_SHUFFLES) * draws + len(sources) * len(SCALES)
    tick = count_steps(on_step, "controls", total)
    shuffled = tuple(_shuffles(trial, within, draws, seed, tick) for within in _SHUFFLES)
    bias = _best_promotion(trial, sources, random_generator(seed), tick)
    ends = (trial.base, trial.learned, trial.moved)
    return Controls(names[0], names[-1], *ends, shuffled, bias, upwards(objective), unseen)


def upwards(metric: str) -> bool:
    """Whether higher values of a metric are better; also true if neither direction is."""
    return parse(metric)[0].higher_is_better is not False


class _Trial:
    """The base and the learned change under the two metrics, ranked once."""

    def __init__(self, change: Change, evaluator: Evaluator, objective: str, cost: str, sign: float) -> None:
        self.change, self.evaluator, self.sign = change, evaluator, sign
        self.names = (objective, cost)
        before, self.lists = evaluator.lists(change.base), evaluator.lists(change.after)
        self.base, self.learned = self.values(before), self.values(self.lists)
        self.moved = float((before != self.lists).any(axis=1).mean())

    def values(self, lists: NDArray[Any]) -> tuple[float, float]:
        found = evaluate(lists, self.evaluator.context, self.evaluator.metrics, bootstrap=0)
        return found[self.names[0]].mean, found[self.names[1]].mean

    def better(self, a: Any, b: Any) -> Any:
        """Return by how much ``a`` is better than ``b`` in the objective."""
        return self.sign * (a - b)


def _shuffles(trial: _Trial, within: str, draws: int, seed: int, tick: Callable[[], None]) -> Shuffled:
    generator = random_generator(seed, list(_SHUFFLES).index(within))
    found = []
    for _ in range(draws):
        sides = {name: _SHUFFLES[within](side, generator) for name, side in trial.change.sides.items()}
        found.append(trial.values(trial.evaluator.lists(trial.change.replaced(**sides).after)))
        tick()
    objective, cost = np.array(found).T
    as_good = int((trial.better(objective, trial.learned[0]) >= -1e-12).sum())
    return Shuffled(within, _title(within, trial.change), objective, cost, (1 + as_good) / (1 + draws))


_SHUFFLES: dict[str, Callable[[Matrix, np.random.Generator], Matrix]] = {
    "all": lambda side, generator: generator.permutation(side.ravel()).reshape(side.shape),
    "rows": lambda side, generator: generator.permuted(side, axis=1),
    "factors": lambda side, generator: generator.permuted(side, axis=0),
}


def _title(within: str, change: Change) -> str:
    rows = "rows" if len(change.sides) > 1 else f"{next(iter(change.sides))}s"
    return {"all": "shuffled among all", "rows": f"shuffled within {rows}", "factors": "shuffled within factors"}[
        within
    ]


def _best_promotion(
    trial: _Trial, sources: Mapping[str, NDArray[Any]], generator: np.random.Generator, tick: Callable[[], None]
) -> PureBias:
    tried: list[tuple[str, float]] = [("none", 0.0)]
    values = [trial.base]
    for source, scale, lists in _promotions(trial, sources):
        tried.append((source, scale))
        values.append(trial.values(lists))
        tick()
    objective, cost = np.array(values).T
    # Without labels the cost is unknown, so promotion has no limit.
    loss = np.nan_to_num(trial.base[1] - cost)
    allowed = max(np.nan_to_num(trial.base[1] - trial.learned[1]), LEAST_LOSS * abs(np.nan_to_num(trial.base[1])))
    first, second, share = best_mixture(loss, np.nan_to_num(trial.better(objective, trial.base[0])), allowed)
    pair = [_promoted(trial, sources, *tried[at]) for at in (first, second)]
    reached, p_value = _compare(trial, pair, share, generator)
    (one, at_one), (other, at_other) = tried[first], tried[second]
    mixed_cost = float(cost[first] + share * (cost[second] - cost[first]))
    return PureBias((one, other), (at_one, at_other), share, reached, mixed_cost, p_value)


def best_mixture(loss: Array, gain: Array, allowed: float) -> tuple[int, int, float]:
    """Find the two promotions whose mixture gains most within the allowed loss.

    Args:
        loss: (n,) losses of accuracy; at least one is within ``allowed``.
        gain: (n,) gains in the objective.
        allowed: The largest loss of a mixture.

    Returns:
        The index of a promotion within the allowed loss, the index of the other, and the share of the other. If a
        single promotion is best, both indices are the same and the share is 0.
    """
    within, beyond = np.flatnonzero(loss <= allowed), np.flatnonzero(loss > allowed)
    best = int(within[np.argmax(gain[within])])
    if not len(beyond):
        return best, best, 0.0
    share = (allowed - loss[within, None]) / (loss[beyond] - loss[within, None])
    mixed = gain[within, None] + share * (gain[beyond] - gain[within, None])
    row, column = np.unravel_index(int(np.argmax(mixed)), mixed.shape)
    if mixed[row, column] <= gain[best]:
        return best, best, 0.0
    return int(within[row]), int(beyond[column]), float(share[row, column])


def _promotions(trial: _Trial, sources: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, float, NDArray[Any]]]:
    base = trial.change.base
    for source, bias in sources.items():
        if np.shape(bias) != (base.n_items,):
            raise InputError(f"candidate {source!r} has shape {np.shape(bias)}; {base.n_items} numbers are needed")
        for scale in SCALES:
            yield source, scale, _promoted(trial, sources, source, scale)


def _promoted(trial: _Trial, sources: Mapping[str, NDArray[Any]], source: str, scale: float) -> NDArray[Any]:
    base = trial.change.base
    return trial.evaluator.lists(base if source == "none" else with_bias(base, scale * np.asarray(sources[source])))


def _compare(
    trial: _Trial, pair: list[NDArray[Any]], share: float, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the value of a mixture of two sets of lists, and the one-sided p-value against the learned lists.

    Under the null hypothesis the two lists of each user are exchangeable. For a metric with a value per user, an
    exchange is a change of sign.
    """
    name, context = trial.names[0], trial.evaluator.context
    learned, one, other = (evaluate(lists, context, [name], bootstrap=0) for lists in (trial.lists, *pair))
    if name in learned.values:
        reached = one[name].mean + share * (other[name].mean - one[name].mean)
        mixed = one.values[name] + share * (other.values[name] - one.values[name])
        differences = trial.better(learned.values[name], mixed)
        exchanged = _signs_exchanged(differences[~np.isnan(differences)], generator)
    else:
        drawn = np.where(generator.random((len(trial.lists), 1)) < share, pair[1], pair[0])
        reached = evaluate(drawn, context, [name], bootstrap=0)[name].mean
        exchanged = np.array([_exchanged(trial, drawn, generator) for _ in range(SWAPS)])
    observed = trial.better(learned[name].mean, reached)
    return reached, float((1 + (exchanged >= observed - 1e-12).sum()) / (1 + SWAPS))


def _signs_exchanged(differences: Array, generator: np.random.Generator) -> Array:
    """(SWAPS,) means with random signs; one draw at a time to save memory."""
    signs = (generator.integers(0, 2, len(differences), dtype=np.int8) * 2 - 1 for _ in range(SWAPS))
    return np.array([(sign * differences).sum() for sign in signs]) / max(len(differences), 1)


def _exchanged(trial: _Trial, rival: NDArray[Any], generator: np.random.Generator) -> float:
    swap = generator.integers(0, 2, (len(rival), 1)).astype(bool)
    pair = (np.where(swap, rival, trial.lists), np.where(swap, trial.lists, rival))
    a, b = (evaluate(lists, trial.evaluator.context, [trial.names[0]], bootstrap=0).scores[0].mean for lists in pair)
    return float(trial.better(a, b))
