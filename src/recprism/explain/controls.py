"""Controls: what perturbations reach that know nothing of factors. What they reach too, the learned one did not learn.

Three shuffle the learned values: among all entries of a side, within rows (an item keeps how much it moved, not in
which factors) and within factors (a factor keeps how much it moved, not for whom). The fourth is plain promotion: the
best of many changes by one number per item, the same for every user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.explain.change import Change, Matrix, with_bias
from recprism.explain.judge import Judge
from recprism.metrics import evaluate, parse

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]
Told = Callable[[int, int], None]

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
    """The best promotion of items that costs no more accuracy than the learned change.

    source: whose numbers per item: "its own bias part", a candidate of the caller's, or "none" (the base itself, where
        every promotion costs more); scale: what they were multiplied by
    p_value: one-sided, of the paired test over users that the learned change is no better than this
    """

    source: str
    scale: float
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
        empty = {"low": None, "high": None, "p_value": None, "source": None, "scale": None}
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
    judge: Judge,
    objective: str = "sc@10",
    cost: str = "ndcg@10",
    draws: int = 199,
    seed: int = 0,
    on_step: Told | None = None,
    *,
    candidates: Mapping[str, NDArray[Any]] | None = None,
    unseen: bool = False,
) -> Controls:
    """Judge the learned change and its controls.

    candidates: name -> (n_items,) other numbers per item that promotion may use, such as those of a learner that has
        nothing else; each is tried at all scales. The best is chosen on the lists it is compared on: this favours it
    unseen: say so if the judged users took no part in finding the change. On those who did, a change beats every
        control even where factors have nothing to do with the objective, so that nothing is then claimed
    on_step: told (done, total) after every ranking
    """
    if draws < 1:
        raise InputError(f"draws={draws}: at least one draw is needed")
    own = replace(judge, metrics=(objective, cost))
    names = tuple(own.means(change.base))
    trial = _Trial(change, own, names[0], names[-1], 1.0 if upwards(objective) else -1.0)
    sources = {"its own bias part": change.bias, **(candidates or {})}
    total = len(_SHUFFLES) * draws + len(sources) * len(SCALES)
    tick = _ticks(on_step, total)
    shuffled = tuple(_shuffles(trial, within, draws, seed, tick) for within in _SHUFFLES)
    bias = _best_promotion(trial, sources, np.random.default_rng(seed), tick)
    ends = (trial.base, trial.learned, trial.moved)
    return Controls(names[0], names[-1], *ends, shuffled, bias, upwards(objective), unseen)


def upwards(metric: str) -> bool:
    """Is more of it better? Where neither direction is, more counts as better."""
    return parse(metric)[0].higher_is_better is not False


class _Trial:
    """The base and the learned change under the two metrics, ranked once."""

    def __init__(self, change: Change, judge: Judge, objective: str, cost: str, sign: float) -> None:
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
    """Of all sources and scales that cost no more than the learned change; the base itself costs nothing."""
    allowed = max(trial.base[1] - trial.learned[1], LEAST_LOSS * abs(trial.base[1]))
    judged = np.isfinite(
        allowed
    )  # without labels nobody knows what anything costs, and promotion may cost what it will
    lists = trial.judge.lists(trial.change.base)
    best, best_lists = PureBias("none", 0.0, *trial.base, 1.0), lists
    for source, scale, lists in _promotions(trial, sources):
        objective, cost = trial.values(lists)
        if (not judged or trial.base[1] - cost <= allowed) and trial.better(objective, best.objective) > 0:
            best, best_lists = PureBias(source, scale, objective, cost, 1.0), lists
        tick()
    return replace(best, p_value=_swap_test(trial, best_lists, generator))


def _promotions(trial: _Trial, sources: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, float, NDArray[Any]]]:
    base = trial.change.base
    for source, bias in sources.items():
        if np.shape(bias) != (base.n_items,):
            raise InputError(f"candidate {source!r} has shape {np.shape(bias)}; {base.n_items} numbers are needed")
        for scale in SCALES:
            yield source, scale, trial.judge.lists(with_bias(base, scale * np.asarray(bias)))


def _swap_test(trial: _Trial, rival: NDArray[Any], generator: np.random.Generator) -> float:
    """One-sided: were the learned lists no better, each user's two lists could be exchanged.

    It serves any metric; for one with a value per user the exchange is a change of sign.
    """
    name, context = trial.names[0], trial.judge.context
    learned, other = (evaluate(lists, context, [name], bootstrap=0) for lists in (trial.lists, rival))
    observed = trial.better(learned[name].mean, other[name].mean)
    if name in learned.values:
        differences = trial.better(learned.values[name], other.values[name])
        exchanged = _signs_exchanged(differences[~np.isnan(differences)], generator)
    else:
        exchanged = np.array([_exchanged(trial, rival, generator) for _ in range(SWAPS)])
    return float((1 + (exchanged >= observed - 1e-12).sum()) / (1 + SWAPS))


def _signs_exchanged(differences: Array, generator: np.random.Generator) -> Array:
    """(SWAPS,) means with every sign left to chance; one at a time, for there may be many users."""
    signs = (generator.integers(0, 2, len(differences), dtype=np.int8) * 2 - 1 for _ in range(SWAPS))
    return np.array([(sign * differences).sum() for sign in signs]) / max(len(differences), 1)


def _exchanged(trial: _Trial, rival: NDArray[Any], generator: np.random.Generator) -> float:
    swap = generator.integers(0, 2, (len(rival), 1)).astype(bool)
    pair = (np.where(swap, rival, trial.lists), np.where(swap, trial.lists, rival))
    a, b = (evaluate(lists, trial.judge.context, [trial.names[0]], bootstrap=0).scores[0].mean for lists in pair)
    return float(trial.better(a, b))


def _ticks(on_step: Told | None, total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if on_step is not None:
            on_step(done, total)

    return tick
