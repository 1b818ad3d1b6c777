"""Everybody against everybody: all methods, tuned alike on validation, read once on the test.

A world is a data set, a model and a seed. On the first seed every method is tuned; its choice per goal and budget is
kept for the other seeds. Ours are optimal lists put into the users' vectors: what is judged is the plain ranking by the
new vectors. Every finished piece is a file, so a stopped comparison goes on.
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
YARDSTICK = TuningObjective()
GUARDS = ("recall@20", "hit_rate@5")


@dataclass(frozen=True)
class ContestCase:
    """Where methods are compared: a data set, a model on it, and a seed for split and training."""

    dataset: str
    model: str
    seed: int
    split: str = "random"

    @property
    def slug(self) -> str:
        return f"{self.dataset}-{self.model}-{self.split}"


GRID = (("ml-1m", "bprmf"), ("ml-1m", "lightgcn"), ("ml-1m", "als"), ("amazon-cds-2014", "bprmf"))


class Ground:
    """The data, the trained model and the two scenarios of a world; what takes long is kept in the folder."""

    def __init__(self, world: ContestCase, dataset: Dataset, folder: Path, device: str = "auto") -> None:
        self.world, self.dataset, self.device = world, dataset, device
        self.folder = folder / world.slug / f"seed-{world.seed}"

    @cached_property
    def split(self) -> Split:
        return self.dataset.split(self.world.split, seed=self.world.seed)

    @cached_property
    def factors(self) -> Factors:
        path = self.folder / "factors.safetensors"
        if not (path.exists() and path.with_suffix(".json").exists()):
            model = make_model(self.world.model)
            model.fit(self.split, seed=self.world.seed, device=self.device).save(path)
        return Factors.load(path)

    @cached_property
    def on_test(self) -> Scenario:
        return self.scenario("test")

    def scenario(self, part: Part) -> Scenario:
        subtopics = self.dataset.subtopics
        assert subtopics is not None
        return Scenario(self.factors, self.split, subtopics, part)


def methods() -> Iterator[tuple[str, Method]]:
    """Who competes: every re-ranker, ours for each goal and for all at once, and one number per item for each goal."""
    yield from RIVALS.items()
    for goal in YARDSTICK.goals:
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
    """Run what is missing; ``verdict.table`` reads the outcome.

    executor: where methods are tuned and judged, such as ``recprism.parallel.RayExecutor()``; None for this process.
        Files are written by this process
    """
    say = on_step or (lambda _: None)
    with executor or LocalExecutor() as workers:
        for name, model in grid:
            dataset = load(name)
            first = Ground(ContestCase(name, model, 0, split), dataset, folder, device)
            picks = _picks(first, say, workers)
            for seed in range(seeds):
                ground = first if seed == 0 else Ground(ContestCase(name, model, seed, split), dataset, folder, device)
                _judge_all(ground, list(_entrants(ground, picks)), say, workers)


Make = Callable[[Scenario], dict[str, Lists]]


def _entrants(ground: Ground, picks: Mapping[str, Mapping[str, Trial]]) -> Iterator[tuple[str, Make]]:
    """Who is judged on the test, and how their lists are made there; ours before and after they are vectors."""
    yield "base", lambda scenario: {"": scenario.base_lists}
    yield POPULARITY, _popular
    for name, chosen in picks.items():
        yield name, partial(_lists_of, name, chosen)
        if name.startswith(OURS):
            yield f"{name}:baked", partial(_baked, name, chosen)
    yield "cmb", partial(_paper_rows, ground)


def _popular(scenario: Scenario) -> dict[str, Lists]:
    items, _ = popularity(scenario.split).rank(scenario.k, exclude=scenario.seen)
    return {"": np.asarray(items, np.int64)}


def pieces_left(grid: tuple[tuple[str, str], ...], folder: Path, *, seeds: int = 5, split: str = "random") -> int:
    """How many methods ``compare`` has still to tune or to judge."""
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
    """The cell of a goal and a budget, as files name it."""
    return f"{goal}|{budget:g}"


def _picks(ground: Ground, say: Callable[[str], None], executor: Executor) -> dict[str, dict[str, Trial]]:
    """method -> cell -> what was best on validation; tuned once, on the first seed."""
    paths = {name: ground.folder / "tuned" / f"{_file(name)}.json" for name, _ in methods()}
    missing = {name: method for name, method in methods() if not paths[name].exists()}
    if missing:
        tuned = executor.map(_tuned, ground.scenario("validation"), list(missing.values()))
        for name in missing:
            say(f"{ground.world.slug}: tuning {name}")
            rows = [{**asdict(it), "choice": dict(it.choice)} for it in next(tuned)]
            write_text(paths[name], json.dumps(rows))
    picks = {}
    for name, path in paths.items():
        trials = [Trial(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
        found = {key(g, b): best_within(trials, b, g) for g in YARDSTICK.goals for b in BUDGETS}
        picks[name] = {cell: it for cell, it in found.items() if it is not None}
    return picks


def _lists_of(name: str, chosen: Mapping[str, Trial], scenario: Scenario) -> dict[str, Lists]:
    """cell -> lists; a setting that serves several cells is run once. Ours serve the cells of their own goal."""
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
    """The lists as the new user vectors give them back: in the wanted order as far as a vector can hold it."""
    return {cell: served_by_vectors(scenario, lists)[0] for cell, lists in _lists_of(name, chosen, scenario).items()}


def served_by_vectors(scenario: Scenario, lists: Lists) -> tuple[Lists, Any]:
    """Plain ranking with the user vectors that hold ``lists``, and what baking has to say."""
    found = lists_to_vectors(scenario.factors, lists, "user", exclude=scenario.seen, order=True)
    served, _ = found.perturbation.applied_to(scenario.factors).rank(scenario.k, exclude=scenario.seen)
    return np.asarray(served, np.int64), found


def _paper_rows(ground: Ground, scenario: Scenario) -> dict[str, Lists]:
    """The paper's CMB (reward on validation), its values shuffled, and noise: one row each, whatever the budget."""
    model = CMB.preset(
        "paper", diversity="subtopic_coverage", accuracy="recall", reward_on="validation", seed=ground.world.seed
    )
    model.fit(ground.factors, ground.split, ground.dataset.subtopics)
    found = {
        "learned": model.delta_,
        **control_perturbations(model.base_, model.delta_, model.max_step, ground.world.seed),
    }
    return {
        name: np.asarray(it.applied_to(ground.factors).rank(scenario.k, exclude=scenario.seen)[0], np.int64)
        for name, it in found.items()
    }


def _tuned(validation: Scenario, method: Method) -> list[Trial]:
    # A scenario of its own: what one method's trials keep there would be in the way of the others.
    return tune(method, validation.on(validation.part), BUDGETS)


def _judge_all(
    ground: Ground, entrants: Sequence[tuple[str, Make]], say: Callable[[str], None], executor: Executor
) -> None:
    """Judge every method's lists on the test, once, and keep the values of every user."""
    paths = {name: ground.folder / "test" / f"{_file(name)}.npz" for name, _ in entrants}
    missing = [(name, make) for name, make in entrants if not paths[name].exists()]
    if not missing:
        return
    found = executor.map(_judged, ground.on_test, [make for _, make in missing])
    for name, _ in missing:
        say(f"{ground.world.slug}, seed {ground.world.seed}: {name}")
        arrays = next(found)
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(paths[name]) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


def _judged(scenario: Scenario, make: Make) -> dict[str, NDArray[Any]]:
    """cell/metric -> the values of every user."""
    arrays: dict[str, NDArray[Any]] = {}
    for cell, lists in make(scenario).items():
        values = scenario.judge(lists, (*YARDSTICK.names, *GUARDS))
        arrays |= {f"{cell}/{metric}": value.astype(np.float32) for metric, value in values.items()}
    return arrays


def read_judged(folder: Path, world: ContestCase, name: str) -> dict[str, NDArray[np.float32]]:
    """cell/metric -> values, as kept by ``compare``."""
    path = folder / world.slug / f"seed-{world.seed}" / "test" / f"{_file(name)}.npz"
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _file(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
