"""Controls: what perturbations reach that know nothing of factors. What they reach too, the learned one did not learn.

Three shuffle the learned values: among all entries of a side, within rows (an item keeps how much it moved, not in
which factors) and within factors (a factor keeps how much it moved, not for whom). The fourth is plain promotion:
changes by one number per item, the same for every user.

Promotion costs accuracy, and may cost as much as the learned change does. Of a grid of promotions, the best one below
that bar depends on which of them happen to lie just below it: a change in the last digits moved its gain by a fifth.
So two of them are mixed, one below the bar and one above it, such that the mixture costs what the learned change costs.
The best mixture lies on the concave hull of all promotions, which moves no more than the measured values do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.progress import ProgressCallback, count_steps
from recprism.errors import InputError
from recprism.explain.change import Change, Matrix, with_bias
from recprism.explain.evaluator import Evaluator
from recprism.metrics import evaluate, parse

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]

SCALES = tuple(2.0 ** (step / 4) for step in range(-8, 13))  # 0.25 to 8; coarse steps would make the rival too weak
LEAST_LOSS = 1e-3  # of the base's accuracy: what promotion may always cost
SWAPS = 999


@dataclass(frozen=True, eq=False)
class Shuffled:
    """One way of shuffling.

    within: all, rows or factors; title: the same in words
    objective, cost: (draws,) values of the two metrics
    p_value: how often a shuffled change is at least as good as the learned one, which counts as one of the draws
    """

    within: str
    title: str
    objective: Array
    cost: Array
    p_value: float


@dataclass(frozen=True)
class PureBias:
    """The best mixture of two promotions of items that costs no more accuracy than the learned change.

    Each user's list comes from the second with probability ``share``, else from the first.

    sources: whose numbers per item: "its own bias part", a candidate of the caller's, or "none", which is the base
    scales: what they were multiplied by
    objective, cost: expected values; for an objective without a value per user, that of one draw
    p_value: one-sided, of the paired test over users that the learned change is no better than this
    """

    sources: tuple[str, str]
    scales: tuple[float, float]
    share: float
    objective: float
    cost: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Controls:
    """The learned change beside its controls, under one objective and one metric of accuracy.

    base, learned: (objective, cost)
    moved: share of the judged lists that hold other items than before, or the same in another order
    unseen: the judged users took no part in finding the change
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
        return len(self.shuffled[0].objective)

    def __getitem__(self, within: str) -> Shuffled:
        found = {control.within: control for control in self.shuffled}
        if within not in found:
            raise InputError(f"no control shuffles within {within!r}; there are {', '.join(found)}")
        return found[within]

    def gain(self, value: float) -> float:
        """How much better than the base a value of the objective is."""
        return value - self.base[0] if self.higher_is_better else self.base[0] - value

    def rows(self) -> list[dict[str, Any]]:
        """The learned change and every control: means, the range of 95 % of the draws, p-value."""
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

    def to_frame(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)


def run_controls(
    change: Change,
    judge: Evaluator,
    objective: str = "subtopic_coverage@10",
    cost: str = "ndcg@10",
    draws: int = 199,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
    *,
    candidates: Mapping[str, NDArray[Any]] | None = None,
    unseen: bool = False,
) -> Controls:
    """Judge the learned change and its controls.

    candidates: name -> (n_items,) other numbers per item that promotion may use, such as those of a learner that has
        nothing else; each is tried at all scales. The best mixture is chosen on the lists it is compared on: this
        favours it
    unseen: say so if the judged users took no part in finding the change. On those who did, a change beats every
        control even where factors have nothing to do with the objective, so that nothing is then claimed
    on_step: called with "controls" after every ranking
    """
    if draws < 1:
        raise InputError(f"draws={draws}: at least one draw is needed")
    own = replace(judge, metrics=(objective, cost))
    names = tuple(own.means(change.base))
    trial = _Trial(change, own, names[0], names[-1], 1.0 if upwards(objective) else -1.0)
    sources = {"its own bias part": change.bias, **(candidates or {})}
    total = len(_SHUFFLES) * draws + len(sources) * len(SCALES)
    tick = count_steps(on_step, "controls", total)
    shuffled = tuple(_shuffles(trial, within, draws, seed, tick) for within in _SHUFFLES)
    bias = _best_promotion(trial, sources, np.random.default_rng(seed), tick)
    ends = (trial.base, trial.learned, trial.moved)
    return Controls(names[0], names[-1], *ends, shuffled, bias, upwards(objective), unseen)


def upwards(metric: str) -> bool:
    """Is more of it better? Where neither direction is, more counts as better."""
    return parse(metric)[0].higher_is_better is not False


class _Trial:
    """The base and the learned change under the two metrics, ranked once."""

    def __init__(self, change: Change, judge: Evaluator, objective: str, cost: str, sign: float) -> None:
        self.change, self.judge, self.sign = change, judge, sign
        self.names = (objective, cost)
        before, self.lists = judge.lists(change.base), judge.lists(change.after)
        self.base, self.learned = self.values(before), self.values(self.lists)
        self.moved = float((before != self.lists).any(axis=1).mean())

    def values(self, lists: NDArray[Any]) -> tuple[float, float]:
        found = evaluate(lists, self.judge.context, self.judge.metrics, bootstrap=0)
        return found[self.names[0]].mean, found[self.names[1]].mean

    def better(self, a: Any, b: Any) -> Any:
        """By how much a is the better value of the objective."""
        return self.sign * (a - b)


def _shuffles(trial: _Trial, within: str, draws: int, seed: int, tick: Callable[[], None]) -> Shuffled:
    generator = np.random.default_rng([seed, list(_SHUFFLES).index(within)])
    found = []
    for _ in range(draws):
        sides = {name: _SHUFFLES[within](side, generator) for name, side in trial.change.sides.items()}
        found.append(trial.values(trial.judge.lists(trial.change.replaced(**sides).after)))
        tick()
    objective, cost = np.array(found).T
    as_good = int((trial.better(objective, trial.learned[0]) >= -1e-12).sum())
    return Shuffled(within, _title(within, trial.change), objective, cost, (1 + as_good) / (1 + draws))


def _all(side: Matrix, generator: np.random.Generator) -> Matrix:
    return generator.permutation(side.ravel()).reshape(side.shape)


def _in_rows(side: Matrix, generator: np.random.Generator) -> Matrix:
    return generator.permuted(side, axis=1)


def _in_columns(side: Matrix, generator: np.random.Generator) -> Matrix:
    return generator.permuted(side, axis=0)


_SHUFFLES: dict[str, Callable[[Matrix, np.random.Generator], Matrix]] = {
    "all": _all,
    "rows": _in_rows,
    "factors": _in_columns,
}


def _title(within: str, change: Change) -> str:
    rows = "rows" if len(change.sides) > 1 else f"{next(iter(change.sides))}s"
    return {
        "all": "shuffled among all",
        "rows": f"shuffled within {rows}",
        "factors": "shuffled within factors",
    }[within]


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
    # Without labels nobody knows what anything costs: promotion may then cost what it will.
    loss = np.nan_to_num(trial.base[1] - cost)
    allowed = max(np.nan_to_num(trial.base[1] - trial.learned[1]), LEAST_LOSS * abs(np.nan_to_num(trial.base[1])))
    first, second, share = best_mixture(loss, np.nan_to_num(trial.better(objective, trial.base[0])), allowed)
    pair = [_promoted(trial, sources, *tried[at]) for at in (first, second)]
    reached, p_value = _compare(trial, pair, share, generator)
    (one, at_one), (other, at_other) = tried[first], tried[second]
    mixed_cost = float(cost[first] + share * (cost[second] - cost[first]))
    return PureBias((one, other), (at_one, at_other), share, reached, mixed_cost, p_value)


def best_mixture(loss: Array, gain: Array, allowed: float) -> tuple[int, int, float]:
    """The two promotions whose mixture gains most among those that lose as much as is allowed, or less.

    Args:
        loss: (n,) of accuracy; at least one is allowed.
        gain: (n,) in the objective.
        allowed: The largest loss of a mixture.

    Returns:
        The place of one that loses no more than is allowed, the place of the other, and the share of the other. The two
        are the same, and the share is 0, where a single one is best.
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
    return trial.judge.lists(base if source == "none" else with_bias(base, scale * np.asarray(sources[source])))


def _compare(
    trial: _Trial, pair: list[NDArray[Any]], share: float, generator: np.random.Generator
) -> tuple[float, float]:
    """What the mixture of two sets of lists reaches, and the p-value of a one-sided test against the learned lists.

    Were the learned lists no better, each user's two lists could be exchanged. For a metric with a value per user, the
    exchange is a change of sign.
    """
    name, context = trial.names[0], trial.judge.context
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
    """(SWAPS,) means with every sign left to chance; one at a time, for there may be many users."""
    signs = (generator.integers(0, 2, len(differences), dtype=np.int8) * 2 - 1 for _ in range(SWAPS))
    return np.array([(sign * differences).sum() for sign in signs]) / max(len(differences), 1)


def _exchanged(trial: _Trial, rival: NDArray[Any], generator: np.random.Generator) -> float:
    swap = generator.integers(0, 2, (len(rival), 1)).astype(bool)
    pair = (np.where(swap, rival, trial.lists), np.where(swap, trial.lists, rival))
    a, b = (evaluate(lists, trial.judge.context, [trial.names[0]], bootstrap=0).scores[0].mean for lists in pair)
    return float(trial.better(a, b))
