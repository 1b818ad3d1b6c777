"""Reproduction of the paper's tables. Every row is a file, so that an interrupted reproduction can be resumed."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb import CMB
from recprism.cmb.controls import control_perturbations
from recprism.cmb.tables import METRICS, PAPER_NAMES, SINGLE_OBJECTIVES, Row, paper_table, rows_of
from recprism.common.files import write_text
from recprism.data.split import Split
from recprism.metrics import Context, evaluate
from recprism.metrics.registry import with_gini
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.models.registry import make_model
from recprism.rivals import reranker
from recprism.rule import Features

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset

DEPTH = 20
CANDIDATES = 100
TRADE_OFFS = tuple(round(step / 40, 3) for step in range(1, 40))
"""The trade-offs that a tuned re-ranker tries."""


@dataclass(frozen=True)
class Cell:
    """One number of ours and of the paper.

    Attributes:
        table: Name of the table.
        dataset: Name of the data set.
        base_model: Name of the base model.
        method: Name of the method.
        metric: Name of the metric.
        k: Length of the lists.
        ours: Our mean over the seeds.
        ours_std: Our standard deviation over the seeds; None for one seed.
        paper: The number of the paper; None if it has none.
        ours_change: Our change in percent of the base row of the same table.
        paper_change: The same for the paper.
        run: File of the row.
        delta_sha: Hash of the perturbation.
    """

    table: str
    dataset: str
    base_model: str
    method: str
    metric: str
    k: int
    ours: float
    ours_std: float | None
    paper: float | None
    ours_change: float | None
    paper_change: float | None
    run: str
    delta_sha: str | None


class PaperCase:
    """Split and base models of one data set and one seed; models are kept in the folder."""

    def __init__(self, dataset: Dataset, seed: int, folder: Path, device: str = "auto") -> None:
        self.dataset, self.seed, self.folder, self.device = dataset, seed, folder, device

    @cached_property
    def split(self) -> Split:
        """The split of the paper's protocol."""
        return self.dataset.split("paper", seed=self.seed)

    @cached_property
    def tuning_split(self) -> Split:
        """The split with a validation part from training data, on which rivals are tuned."""
        return self.split.carve_validation(seed=self.seed)

    def factors(self, base_model: str) -> Factors:
        """Return a base model; it is trained once with the paper preset, then read."""
        return self._trained(base_model, self.split, "")

    def tuning_factors(self, base_model: str) -> Factors:
        """Return a base model that was trained without the validation part."""
        return self._trained(base_model, self.tuning_split, "-tuning")

    def _trained(self, base_model: str, split: Split, suffix: str) -> Factors:
        path = self.folder / f"{base_model.lower()}{suffix}.safetensors"
        if not (path.exists() and path.with_suffix(".json").exists()):
            model = make_model(base_model.lower(), "paper")
            model.fit(split, seed=self.seed, device=self.device).save(path)
        return Factors.load(path)

    def judge(self, lists: NDArray[Any], vectors: NDArray[Any], ks: tuple[int, int]) -> dict[str, float]:
        """Evaluate the paper's columns.

        Args:
            lists: (n_users, 20) item numbers.
            vectors: (n_items, d) vectors for ILAD: the perturbed ones.
            ks: Lengths of the lists.
        """
        context = Context.from_split(self.split, "test", categories=self.dataset.categories, vectors=vectors)
        names = {f"{metric}@{k}": f"{column}@{k}" for column, metric in METRICS.items() for k in ks}
        scores = evaluate(lists, context, list(names), bootstrap=0).scores
        return {names[score.name]: score.mean for score in scores}


def run_row(row: Row, case: PaperCase) -> dict[str, dict[str, Any]]:
    """Compute one row for one seed: method -> {"metrics": ..., "delta_sha": ...}; controls are methods as well."""
    factors = case.factors(row.base_model)
    return RUNNERS[row.kind](row, case, factors)


def _run_base(row: Row, case: PaperCase, factors: Factors) -> dict[str, dict[str, Any]]:
    lists, _ = factors.rank(DEPTH, exclude=case.split.train)
    return {row.method: {"metrics": case.judge(lists, factors.item, row.ks), "delta_sha": None}}


def _run_cmb(row: Row, case: PaperCase, factors: Factors) -> dict[str, dict[str, Any]]:
    # Every row has its own seed, so that no two rows are the same search under two names.
    seed = (zlib.crc32(row.slug.encode()) + case.seed) % 2**31
    model = CMB.preset("paper", seed=seed, device=case.device, **row.settings)
    model.fit(factors, case.split, case.dataset.categories)
    found = {row.method: model.delta_}
    found |= {
        f"{row.method}, {name}": it
        for name, it in control_perturbations(model.base_, model.delta_, model.max_step, seed).items()
    }
    return {name: _judge_perturbation(delta, row, case, factors) for name, delta in found.items()}


def _judge_perturbation(delta: Perturbation, row: Row, case: PaperCase, factors: Factors) -> dict[str, Any]:
    perturbed = delta.applied_to(factors)
    lists, _ = perturbed.rank(DEPTH, exclude=case.split.train)
    digest = hashlib.sha256(np.ascontiguousarray(perturbed.item - factors.item).tobytes()).hexdigest()
    return {"metrics": case.judge(lists, perturbed.item, row.ks), "delta_sha": digest}


def _run_rerank(row: Row, case: PaperCase, factors: Factors) -> dict[str, dict[str, Any]]:
    settings = dict(row.settings)
    lists = _reranked(factors, case.split, settings.pop("name"), **settings)
    return {row.method: {"metrics": case.judge(lists, factors.item, row.ks), "delta_sha": None}}


def _reranked(factors: Factors, split: Split, name: str, **settings: Any) -> NDArray[Any]:
    items, scores = factors.rank(CANDIDATES, exclude=split.train)
    return reranker(name, **settings)(items, scores, DEPTH, features=Features(vectors=factors.item))


def _run_tuned(row: Row, case: PaperCase, factors: Factors) -> dict[str, dict[str, Any]]:
    """Tune a re-ranker: the largest trade-off whose loss of NDCG@10 on validation is within the budget."""
    name, budget = row.settings["name"], row.settings["budget"]
    split, tuning = case.tuning_split, case.tuning_factors(row.base_model)
    context = Context.from_split(split, "validation")

    def accuracy(trade_off: float) -> float:
        lists = _reranked(tuning, split, name, trade_off=trade_off)
        return evaluate(lists, context, ["ndcg@10"], bootstrap=0)["ndcg@10"].mean

    floor = (1 - budget) * accuracy(0.0)
    allowed = [trade_off for trade_off in TRADE_OFFS if accuracy(trade_off) >= floor]
    lists = _reranked(factors, case.split, name, trade_off=max(allowed, default=0.0))
    made = {"metrics": case.judge(lists, factors.item, row.ks), "delta_sha": None}
    return {row.method: {**made, "trade_off": max(allowed, default=0.0)}}


RUNNERS: dict[str, Callable[[Row, PaperCase, Factors], dict[str, dict[str, Any]]]] = {
    "base": _run_base,
    "cmb": _run_cmb,
    "rerank": _run_rerank,
    "tuned": _run_tuned,
}


def reproduce(
    dataset: Dataset,
    rows: Iterable[Row],
    folder: Path,
    *,
    runs: int = 1,
    device: str = "auto",
    on_row: Callable[[Row, int], None] | None = None,
) -> list[Cell]:
    """Compute the missing rows, and compare all rows with the paper.

    Args:
        dataset: The data set.
        rows: The rows.
        folder: Folder of the results.
        runs: Number of seeds.
        device: Device of the training.
        on_row: Receives each row and seed.
    """
    rows = tuple(rows)
    for seed in range(runs):
        place = folder / dataset.name.replace(":", "-") / f"seed-{seed}"
        case = PaperCase(dataset, seed, place, device)
        for row in rows:
            path = place / f"{row.slug}.json"
            if not path.exists():
                write_text(path, json.dumps(run_row(row, case)))
            if on_row is not None:
                on_row(row, seed)
    return cells(dataset.name, rows, folder, runs)


def cells(dataset: str, rows: Iterable[Row], folder: Path, runs: int) -> list[Cell]:
    """Read means and standard deviations over the seeds from the files of ``reproduce``."""
    rows = tuple(rows)
    place = folder / dataset.replace(":", "-")
    paper = {
        (entry["table"], entry["base_model"], entry["method"], entry["metric"], entry["k"]): entry["value"]
        for entry in paper_table().filter(paper_table()["dataset"] == PAPER_NAMES.get(dataset, "")).to_dicts()
    }
    bases: dict[tuple[str, str, int], tuple[float, float | None]] = {}
    made = []
    for row in rows:
        files = [place / f"seed-{seed}" / f"{row.slug}.json" for seed in range(runs)]
        found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        for method in found[0]:
            for name in found[0][method]["metrics"]:
                metric, _, k = name.partition("@")
                values = np.array([entry[method]["metrics"][name] for entry in found])
                theirs = paper.get((row.table, row.base_model, method, metric, int(k)))
                if row.kind == "base":
                    # The single-objective and sweep tables have no base row; the trade-off table has one.
                    theirs = theirs or paper.get(
                        (f"tradeoff_{row.base_model.lower()}", row.base_model, method, metric, int(k))
                    )
                    bases[row.table, metric, int(k)] = (float(values.mean()), theirs)
                base, paper_base = bases.get((row.table, metric, int(k)), (None, None))
                made.append(
                    Cell(
                        row.table,
                        dataset,
                        row.base_model,
                        method,
                        metric,
                        int(k),
                        float(values.mean()),
                        float(values.std(ddof=1)) if runs > 1 else None,
                        theirs,
                        _change(float(values.mean()), base),
                        _change(theirs, paper_base),
                        str(files[0].relative_to(folder))
                        if runs == 1
                        else str(place.relative_to(folder) / f"seed-*/{row.slug}.json"),
                        found[0][method]["delta_sha"],
                    )
                )
    return made


@dataclass(frozen=True)
class AgainstRandom:
    """A single-objective row and random arms on the metric that it optimises, in percentage points."""

    method: str
    metric: str
    k: int
    learned: float
    random: float
    difference: float
    low: float | None
    high: float | None


def against_random(dataset: str, folder: Path, runs: int) -> list[AgainstRandom]:
    """Compare the bandit with random arms, paired by seed; the 95 % t interval needs two seeds."""
    place, rows = folder / dataset.replace(":", "-"), {row.method: row for row in rows_of("single_objective")}

    def changes(method: str, name: str) -> NDArray[np.float64] | None:
        """Return the changes in percent, by seed; None for Gini in the files of an earlier version."""
        values = [
            [
                json.loads((place / f"seed-{seed}" / f"{rows[it].slug}.json").read_text(encoding="utf-8"))[it]
                for seed in range(runs)
            ]
            for it in (method, "BPRMF")
        ]
        if not all(name in entry["metrics"] for entries in values for entry in entries):
            return None
        ours, base = (np.array([entry["metrics"][name] for entry in entries]) for entries in values)
        change: NDArray[np.float64] = 100 * (ours / base - 1)
        return change

    made = []
    for method, metric in SINGLE_OBJECTIVES.items():
        for name in with_gini(f"{metric}@{k}" for k in rows[method].ks):
            learned, random = changes(method, name), changes("CMB-Random", name)
            if learned is None or random is None:
                continue
            means = (float(learned.mean()), float(random.mean()), float((learned - random).mean()))
            column, _, k = name.partition("@")
            made.append(AgainstRandom(method, column, int(k), *means, *_t_interval(learned - random)))
    return made


def _t_interval(values: NDArray[np.float64]) -> tuple[float, float] | tuple[None, None]:
    from scipy import stats

    if len(values) < 2:
        return None, None
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def _change(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else 100 * (value / base - 1)
