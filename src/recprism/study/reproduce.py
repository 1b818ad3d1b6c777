"""Running the paper's tables: every row from runs of its own, kept on disk, so that a stopped reproduction goes on."""

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

from recprism.counterfactual import CMB, Perturbation
from recprism.data.files import write_text
from recprism.data.split import Split
from recprism.metrics import Context, evaluate
from recprism.models import Factors, make_model
from recprism.rerank import Features, reranker
from recprism.study.controls import control_perturbations
from recprism.study.paper import METRICS, PAPER_NAMES, Row, paper_table

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset

DEPTH = 20
CANDIDATES = 100


@dataclass(frozen=True)
class Cell:
    """One number of ours beside the paper's; changes are in percent of the base row of the same table."""

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


class World:
    """Split and base models of one data set and one seed; what takes long is kept in the folder."""

    def __init__(self, dataset: Dataset, seed: int, folder: Path, device: str = "auto") -> None:
        self.dataset, self.seed, self.folder, self.device = dataset, seed, folder, device

    @cached_property
    def split(self) -> Split:
        return self.dataset.split("paper", seed=self.seed)

    def factors(self, base_model: str) -> Factors:
        """Trained once with the paper preset, then read back."""
        path = self.folder / f"{base_model.lower()}.safetensors"
        if not (path.exists() and path.with_suffix(".json").exists()):
            model = make_model(base_model.lower(), "paper")
            model.fit(self.split, seed=self.seed, device=self.device).save(path)
        return Factors.load(path)

    def judge(self, lists: NDArray[Any], vectors: NDArray[Any], ks: tuple[int, int]) -> dict[str, float]:
        """The paper's columns on lists of 20; ILAD is taken on ``vectors``, the perturbed ones."""
        context = Context.from_split(self.split, "test", subtopics=self.dataset.subtopics, vectors=vectors)
        names = {f"{metric}@{k}": f"{column}@{k}" for column, metric in METRICS.items() for k in ks}
        scores = evaluate(lists, context, list(names), bootstrap=0).scores
        return {names[score.name]: score.mean for score in scores}


def run_row(row: Row, world: World) -> dict[str, dict[str, Any]]:
    """The figures of one row and seed: method -> {"metrics": ..., "delta_sha": ...}; controls are methods too."""
    factors = world.factors(row.base_model)
    return RUNNERS[row.kind](row, world, factors)


def _run_base(row: Row, world: World, factors: Factors) -> dict[str, dict[str, Any]]:
    lists, _ = factors.rank(DEPTH, exclude=world.split.train)
    return {row.method: {"metrics": world.judge(lists, factors.item, row.ks), "delta_sha": None}}


def _run_cmb(row: Row, world: World, factors: Factors) -> dict[str, dict[str, Any]]:
    # Every row searches with a seed of its own, so that no two rows are the same run under two names.
    seed = (zlib.crc32(row.slug.encode()) + world.seed) % 2**31
    model = CMB.preset("paper", seed=seed, device=world.device, **row.settings)
    model.fit(factors, world.split, world.dataset.subtopics)
    found = {row.method: model.delta_}
    found |= {f"{row.method}, {name}": it for name, it in control_perturbations(model, seed).items()}
    return {name: _judge_perturbation(delta, row, world, factors) for name, delta in found.items()}


def _judge_perturbation(delta: Perturbation, row: Row, world: World, factors: Factors) -> dict[str, Any]:
    perturbed = delta.applied_to(factors)
    lists, _ = perturbed.rank(DEPTH, exclude=world.split.train)
    digest = hashlib.sha256(np.ascontiguousarray(perturbed.item - factors.item).tobytes()).hexdigest()
    return {"metrics": world.judge(lists, perturbed.item, row.ks), "delta_sha": digest}


def _run_rerank(row: Row, world: World, factors: Factors) -> dict[str, dict[str, Any]]:
    settings = dict(row.settings)
    method = reranker(settings.pop("name"), **settings)
    items, scores = factors.rank(CANDIDATES, exclude=world.split.train)
    lists = method(items, scores, DEPTH, features=Features(vectors=factors.item))
    return {row.method: {"metrics": world.judge(lists, factors.item, row.ks), "delta_sha": None}}


RUNNERS: dict[str, Callable[[Row, World, Factors], dict[str, dict[str, Any]]]] = {
    "base": _run_base,
    "cmb": _run_cmb,
    "rerank": _run_rerank,
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
    """Run what is missing, read what is there, and set ours beside the paper's."""
    rows = tuple(rows)
    for seed in range(runs):
        place = folder / dataset.name.replace(":", "-") / f"seed-{seed}"
        world = World(dataset, seed, place, device)
        for row in rows:
            path = place / f"{row.slug}.json"
            if not path.exists():
                write_text(path, json.dumps(run_row(row, world)))
            if on_row is not None:
                on_row(row, seed)
    return cells(dataset.name, rows, folder, runs)


def cells(dataset: str, rows: Iterable[Row], folder: Path, runs: int) -> list[Cell]:
    """Means and deviations over the seeds, from the files of ``reproduce``."""
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
                    # The single-objective and sweep tables have no base row of their own: the trade-off table has.
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


def _change(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else 100 * (value / base - 1)
