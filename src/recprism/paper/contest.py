"""The contest: all methods, tuned in the same way on validation and evaluated once on the test part.

A case is a data set, a model and a seed. Every method is tuned on the first seed. Its choice per goal and budget is
used for the other seeds. Ours are optimal lists compiled into the user vectors: the plain ranking by the new vectors is
evaluated. Every finished piece is a file, so that an interrupted contest can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget._popularity import POPULARITY
from recprism.budget.scenario import Lists, Scenario
from recprism.cmb import CMB
from recprism.cmb._executor import Executor, LocalExecutor
from recprism.cmb.controls import control_perturbations
from recprism.data._files import atomic_path, write_text
from recprism.data.split import Part, Split
from recprism.dials.solve import lists_to_vectors
from recprism.metrics.registry import with_gini
from recprism.models import Factors, make_model
from recprism.models._popularity import popularity
from recprism.paper.promotion import promoted
from recprism.paper.tuning import RIVALS, Method, Trial, TuningObjective, best_within, planned, tune

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset

BUDGETS = (0.01, 0.05)
TOGETHER = "subtopic_coverage+ilad_subtopics+catalogue_coverage"
OURS, AT_ONCE, PROMOTION = "ours", "ours, all goals at once", "promotion"
PAPER_ROWS = ("learned", "permuted", "noise")
OBJECTIVE = TuningObjective()
GUARDS = ("recall@20", "hit_rate@5")


@dataclass(frozen=True)
class ContestCase:
    """A data set, a model, and the seed of split and training."""

    dataset: str
    model: str
    seed: int
    split: str = "random"

    @property
    def slug(self) -> str:
        """Name of the folder."""
        return f"{self.dataset}-{self.model}-{self.split}"


GRID = (("ml-1m", "bprmf"), ("ml-1m", "lightgcn"), ("ml-1m", "als"), ("amazon-cds-2014", "bprmf"))


class PreparedCase:
    """The data, the trained model and the scenarios of a case; the model is kept in the folder.

    Args:
        case: The case.
        dataset: Its data set.
        folder: Folder of the contest.
        device: Device of the training.
    """

    def __init__(self, case: ContestCase, dataset: Dataset, folder: Path, device: str = "auto") -> None:
        self.case, self.dataset, self.device = case, dataset, device
        self.folder = folder / case.slug / f"seed-{case.seed}"

    @cached_property
    def split(self) -> Split:
        """The split of the case."""
        return self.dataset.split(self.case.split, seed=self.case.seed)

    @cached_property
    def factors(self) -> Factors:
        """The model, trained once and then read from the folder."""
        path = self.folder / "factors.safetensors"
        if not (path.exists() and path.with_suffix(".json").exists()):
            model = make_model(self.case.model)
            model.fit(self.split, seed=self.case.seed, device=self.device).save(path)
        return Factors.load(path)

    @cached_property
    def on_test(self) -> Scenario:
        """The scenario of the test part."""
        return self.scenario("test")

    def scenario(self, part: Part) -> Scenario:
        """Return the scenario of a part."""
        subtopics = self.dataset.subtopics
        assert subtopics is not None
        return Scenario(self.factors, self.split, subtopics, part)


def methods() -> Iterator[tuple[str, Method]]:
    """Yield all methods: every re-ranker, ours for each goal and for all at once, and promotion for each goal."""
    yield from RIVALS.items()
    for goal in OBJECTIVE.goals:
        name = goal.partition("@")[0]
        yield f"{OURS}:{name}", planned(name)
        yield f"{PROMOTION}:{name}", promoted(name)
    yield AT_ONCE, planned(TOGETHER)


def compare(
    grid: tuple[tuple[str, str], ...],
    load: Callable[[str], Dataset],
    folder: Path,
    *,
    seeds: int = 5,
    split: str = "random",
    device: str = "auto",
    on_step: Callable[[str], None] | None = None,
    executor: Executor | None = None,
) -> None:
    """Run the missing pieces of a contest; ``verdict.table`` reads the outcome.

    Args:
        grid: Pairs of data set and model.
        load: Loads a data set by name.
        folder: Folder of the contest.
        seeds: Number of seeds.
        split: Method of the split.
        device: Device of the training.
        on_step: Receives a description of each step.
        executor: Where methods are tuned and judged, such as ``recprism.parallel.RayExecutor()``; this process by
            default. This process writes the files.

    Stability: experimental.
    """
    say = on_step or (lambda _: None)
    with executor or LocalExecutor() as workers:
        for name, model in grid:
            dataset = load(name)
            first = PreparedCase(ContestCase(name, model, 0, split), dataset, folder, device)
            picks = _picks(first, say, workers)
            for seed in range(seeds):
                prepared = (
                    first if seed == 0 else PreparedCase(ContestCase(name, model, seed, split), dataset, folder, device)
                )
                _judge_all(prepared, list(_entrants(prepared, picks)), say, workers)


Make = Callable[[Scenario], dict[str, Lists]]


def _entrants(prepared: PreparedCase, picks: Mapping[str, Mapping[str, Trial]]) -> Iterator[tuple[str, Make]]:
    """Yield what is evaluated on the test part, and how its lists are made; ours both as lists and as vectors."""
    yield "base", lambda scenario: {"": scenario.base_lists}
    yield POPULARITY, _popular
    for name, chosen in picks.items():
        yield name, partial(_lists_of, name, chosen)
        if name.startswith(OURS):
            yield f"{name}:baked", partial(_baked, name, chosen)
    yield "cmb", partial(_paper_rows, prepared)


def _popular(scenario: Scenario) -> dict[str, Lists]:
    items, _ = popularity(scenario.split).rank(scenario.k, exclude=scenario.seen)
    return {"": np.asarray(items, np.int64)}


def pieces_left(grid: tuple[tuple[str, str], ...], folder: Path, *, seeds: int = 5, split: str = "random") -> int:
    """Count the methods that ``compare`` still has to tune or to evaluate."""
    names = [name for name, _ in methods()]
    judged = ["base", POPULARITY, *names, *(f"{name}:baked" for name in names if name.startswith(OURS)), "cmb"]
    left = 0
    for name, model in grid:
        for seed in range(seeds):
            at = folder / ContestCase(name, model, seed, split).slug / f"seed-{seed}"
            left += sum(not (at / "test" / f"{_file(it)}.npz").exists() for it in judged)
            left += sum(not (at / "tuned" / f"{_file(it)}.json").exists() for it in names) if seed == 0 else 0
    return left


def key(goal: str, budget: float) -> str:
    """Return the name of the cell of a goal and a budget in files."""
    return f"{goal}|{budget:g}"


def _picks(prepared: PreparedCase, say: Callable[[str], None], executor: Executor) -> dict[str, dict[str, Trial]]:
    """Return method -> cell -> the best trial on validation; tuned once, on the first seed."""
    paths = {name: prepared.folder / "tuned" / f"{_file(name)}.json" for name, _ in methods()}
    missing = {name: method for name, method in methods() if not paths[name].exists()}
    if missing:
        tuned = executor.map(_tuned, prepared.scenario("validation"), list(missing.values()))
        for name in missing:
            say(f"{prepared.case.slug}: tuning {name}")
            rows = [{**asdict(it), "choice": dict(it.choice)} for it in next(tuned)]
            write_text(paths[name], json.dumps(rows))
    picks = {}
    for name, path in paths.items():
        trials = [Trial(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
        found = {key(g, b): best_within(trials, b, g) for g in OBJECTIVE.goals for b in BUDGETS}
        picks[name] = {cell: it for cell, it in found.items() if it is not None}
    return picks


def _lists_of(name: str, chosen: Mapping[str, Trial], scenario: Scenario) -> dict[str, Lists]:
    """Return cell -> lists. A setting of several cells is run once; ours serve the cells of their own goal."""
    method = dict(methods())[name]
    made: dict[str, Lists] = {}
    lists: dict[str, Lists] = {}
    for cell, it in _own_cells(name, chosen).items():
        setting = json.dumps([it.trade_off, dict(it.choice)], sort_keys=True)
        if setting not in made:
            made[setting] = method(scenario, it.trade_off, it.choice)
        lists[cell] = made[setting]
    return lists


def _own_cells(name: str, chosen: Mapping[str, Trial]) -> dict[str, Trial]:
    label = name.partition(":")[2]
    return {cell: it for cell, it in chosen.items() if not label or cell.startswith(f"{label}@")}


def _baked(name: str, chosen: Mapping[str, Trial], scenario: Scenario) -> dict[str, Lists]:
    """Return the lists that the new user vectors serve, in the wanted order as far as a vector can hold it."""
    return {cell: served_by_vectors(scenario, lists)[0] for cell, lists in _lists_of(name, chosen, scenario).items()}


def served_by_vectors(scenario: Scenario, lists: Lists) -> tuple[Lists, Any]:
    """Compile lists into user vectors; returns the lists that these serve, and the result of the compilation."""
    found = lists_to_vectors(scenario.factors, lists, "user", exclude=scenario.seen, order=True)
    served, _ = found.perturbation.applied_to(scenario.factors).rank(scenario.k, exclude=scenario.seen)
    return np.asarray(served, np.int64), found


def _paper_rows(prepared: PreparedCase, scenario: Scenario) -> dict[str, Lists]:
    """Return the lists of the paper's CMB (reward on validation), of its shuffled values, and of noise."""
    model = CMB.preset(
        "paper", diversity="subtopic_coverage", accuracy="recall", reward_on="validation", seed=prepared.case.seed
    )
    model.fit(prepared.factors, prepared.split, prepared.dataset.subtopics)
    found = {
        "learned": model.delta_,
        **control_perturbations(model.base_, model.delta_, model.max_step, prepared.case.seed),
    }
    return {
        name: np.asarray(it.applied_to(prepared.factors).rank(scenario.k, exclude=scenario.seen)[0], np.int64)
        for name, it in found.items()
    }


def _tuned(validation: Scenario, method: Method) -> list[Trial]:
    # A new scenario, because the trials of a method fill its cache.
    return tune(method, validation.on(validation.part), BUDGETS)


def _judge_all(
    prepared: PreparedCase, entrants: Sequence[tuple[str, Make]], say: Callable[[str], None], executor: Executor
) -> None:
    """Evaluate every method's lists on the test part, once, and keep the values of every user."""
    paths = {name: prepared.folder / "test" / f"{_file(name)}.npz" for name, _ in entrants}
    missing = [(name, make) for name, make in entrants if not paths[name].exists()]
    if not missing:
        return
    found = executor.map(_judged, prepared.on_test, [make for _, make in missing])
    for name, _ in missing:
        say(f"{prepared.case.slug}, seed {prepared.case.seed}: {name}")
        arrays = next(found)
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(paths[name]) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


def _judged(scenario: Scenario, make: Make) -> dict[str, NDArray[Any]]:
    """Return cell/metric -> values of every user."""
    arrays: dict[str, NDArray[Any]] = {}
    for cell, lists in make(scenario).items():
        values = scenario.judge(lists, with_gini((*OBJECTIVE.names, *GUARDS)))
        arrays |= {f"{cell}/{metric}": value.astype(np.float32) for metric, value in values.items()}
    return arrays


def read_judged(folder: Path, case: ContestCase, name: str) -> dict[str, NDArray[np.float32]]:
    """Return cell/metric -> values, as kept by ``compare``."""
    path = folder / case.slug / f"seed-{case.seed}" / "test" / f"{_file(name)}.npz"
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _file(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
