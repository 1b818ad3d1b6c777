"""The contest: all methods, tuned by the same number of trials on validation and evaluated once on the test part.

A world is a data set, a base model and a split. Every method is tuned on the first seed. Its choice per goal and budget
is used for all seeds. What is judged is what ships: the lists of the rule; next to them, what dials and boosts serve.
Boosts rank the whole catalogue, so they are tuned by themselves; dials serve the lists of the rule's choice.
Every finished piece is a file, so that an interrupted contest can be resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contest.cases import Case, World, cases
from contest.ceilings import ceilings
from contest.certificates import certificate_outcomes
from contest.promotion import PROMOTION, promoted
from contest.reweighted import STRENGTHS
from recprism.budget.popularity import POPULARITY
from recprism.budget.problem import Lists, Problem
from recprism.cmb import CMB
from recprism.cmb.controls import control_perturbations
from recprism.common.files import atomic_path, write_text
from recprism.contest.flow import solver
from recprism.contest.methods import DEPTHS, OURS, RIVALS, Method, boost_search, greedy, ours
from recprism.contest.tuning import (
    TRIALS,
    Trial,
    TuningObjective,
    TuningUsers,
    best_within,
    relative_gain,
    tune,
)
from recprism.forms.dials.named import lists_to_dials
from recprism.models.popularity import popularity
from recprism.rule.boosts import boosted
from recprism.rule.goal import term_named

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset

BUDGETS = (0.01, 0.05)
REWEIGHTED = "reweighted_bpr"
PAPER_ROWS = ("learned", "permuted", "noise")
OBJECTIVE = TuningObjective()
GUARDS = ("recall@20", "hit_rate@5")
SERVED = "served"  # what dials or boosts serve
CONTROLLED = "bprmf"  # the model with the controls and the rival that train
FIRST_SEED = (PROMOTION, "cmb")  # controls that are trained in every problem, so that only the first seed has them
CERTIFIED_SEEDS = 1  # seeds whose certificates are read on the test
CEILINGS, CERTIFICATES = "ceilings", "certificates"

Say = Callable[[str], None]
Picks = dict[str, dict[str, Trial]]
Make = Callable[[Problem], dict[str, Lists]]


def methods(case: Case) -> dict[str, Method]:
    """Return the methods that are tuned by trials: rivals, greedy and ours for each goal, and promotion."""
    found = dict(RIVALS)
    for metric in OBJECTIVE.goals:
        found |= {it.name: it for it in (greedy(_goal_of(metric)), ours(_goal_of(metric)))}
        if case.has_vectors and term_named(_goal_of(metric)).is_exposure:
            found[served_name(metric)] = boosts_in_vectors(metric, served_name(metric))
    return found | ({PROMOTION: promoted()} if case.world.model == CONTROLLED else {})


def boosts_in_vectors(metric: str, name: str) -> Method:
    """Return the boosts as they are served without a re-ranker: in the item vectors, over the whole catalogue."""
    return Method(
        name, _boosted_vectors, tuple({"goal": _goal_of(metric), "depth": it} for it in DEPTHS), together=True
    )


def _boosted_vectors(problem: Problem, trade_off: float, *, goal: str, depth: int) -> Lists:
    boost = boost_search(problem, goal, depth).at(trade_off).boost
    return np.asarray(boosted(problem.factors, boost).rank(problem.k, exclude=problem.seen)[0], np.int64)


def served_name(metric: str) -> str:
    """Return the name under which the form without a re-ranker is kept: dials, or boosts in the item vectors."""
    return f"{OURS}:{_goal_of(metric)}:{SERVED}"


def _goal_of(metric: str) -> str:
    return metric.partition("@")[0]


def compare(
    grid: Sequence[World],
    load: Callable[[str], Dataset],
    folder: Path,
    *,
    seeds: int = 5,
    trials: int = TRIALS,
    device: str = "auto",
    on_step: Say = print,
) -> None:
    """Run the missing pieces of a contest; ``verdict.table`` reads the outcome.

    Args:
        grid: The worlds.
        load: Loads a data set by name.
        folder: Folder of the contest.
        seeds: Number of seeds.
        trials: Number of trials of a method for each budget.
        device: Device of the training.
        on_step: Receives a description of each step.
    """
    if "flow" in RIVALS:
        solver()  # refuses to start without OR-tools
    for world in grid:
        every = list(cases(world, seeds, load(world.dataset), folder, device))
        picks = _picks(every[0], on_step, trials)
        _keep(every[0], CEILINGS, on_step, lambda case: ceilings(case.validation))
        for case in every:
            _judge_all(case, dict(_entrants(case, picks)), on_step)
            if case.seed < CERTIFIED_SEEDS:
                _keep(case, CERTIFICATES, on_step, _certificates)
            case.forget_problems()


def key(goal: str, budget: float) -> str:
    """Return the name of the cell of a goal and a budget in files."""
    return f"{goal}|{budget:g}"


def _picks(case: Case, say: Say, trials: int = TRIALS) -> Picks:
    """Return method -> cell -> the best trial on validation; tuned once, on the first seed."""
    tuned = methods(case)
    names = [*tuned, *([REWEIGHTED] if case.world.model == CONTROLLED else [])]
    paths = {name: case.folder / "tuned" / f"{_file(name)}.json" for name in names}
    missing = [name for name in tuned if not paths[name].exists()]
    users = TuningUsers(case.validation)
    for name in [*missing, *(it for it in names if it == REWEIGHTED and not paths[it].exists())]:
        began = time.perf_counter()
        if name == REWEIGHTED:
            tried = _reweighted_trials(case, users)
        else:
            tried = tune(tuned[name], users, BUDGETS, OBJECTIVE, trials)
        rows = [{**asdict(it), "choice": dict(it.choice)} for it in tried]
        write_text(paths[name], json.dumps(rows))
        _done(case, f"tuned/{name}", began, say)
    picks: Picks = {}
    for name, path in paths.items():
        tried = [Trial(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
        best = {key(goal, budget): best_within(tried, budget, goal) for goal in OBJECTIVE.goals for budget in BUDGETS}
        picks[name] = _own_cells(name, {cell: it for cell, it in best.items() if it is not None})
    return picks


def _own_cells(name: str, found: dict[str, Trial]) -> dict[str, Trial]:
    """Leave the cells of a method's own goal; a rival serves all goals."""
    _, *goal = name.split(":")
    return {cell: it for cell, it in found.items() if not goal or cell.startswith(f"{goal[0]}@")}


def _reweighted_trials(case: Case, users: TuningUsers) -> list[Trial]:
    """Return one trial per strength and budget: eight trainings, not 40 trials."""
    problem = users.alone
    base = OBJECTIVE.means(problem, problem.base_lists)
    trials = []
    for strength in STRENGTHS:
        means = OBJECTIVE.means(problem, _of_vectors(case.reweighted(strength).of_users(users.rows), problem))
        gains = {name: relative_gain(name, means[name], base[name]) for name in OBJECTIVE.goals}
        loss = 1 - means[OBJECTIVE.cost] / base[OBJECTIVE.cost]
        trials += [Trial(REWEIGHTED, budget, strength, {}, loss, gains) for budget in BUDGETS]
    return trials


def _of_vectors(model: Any, problem: Problem) -> Lists:
    return np.asarray(model.rank(problem.k, exclude=problem.seen)[0], np.int64)


def _entrants(case: Case, picks: Picks) -> Iterator[tuple[str, Make]]:
    """Yield what is evaluated on the test part, and how its lists are made."""
    yield "base", lambda problem: {"": problem.base_lists}
    yield POPULARITY, lambda problem: {"": _of_vectors(popularity(problem.split), problem)}
    tuned = methods(case)
    for name, chosen in picks.items():
        if name == PROMOTION and case.seed:
            continue
        if name == REWEIGHTED:
            yield name, partial(_reweighted, case, chosen)
            continue
        yield name, partial(_lists_of, tuned[name], chosen)
    if case.has_vectors:
        for metric in OBJECTIVE.goals:
            if served_name(metric) not in tuned:
                rule = f"{OURS}:{_goal_of(metric)}"
                yield served_name(metric), partial(_dials, tuned[rule], picks[rule])
    if case.world.model == CONTROLLED and not case.seed:
        yield "cmb", partial(_paper_rows, case)


def _lists_of(method: Method, chosen: Mapping[str, Trial], problem: Problem) -> dict[str, Lists]:
    """Return cell -> lists. A setting of several cells is run once."""
    made: dict[str, Lists] = {}
    lists: dict[str, Lists] = {}
    for cell, it in chosen.items():
        setting = json.dumps([it.trade_off, dict(it.choice)], sort_keys=True)
        if setting not in made:
            made[setting] = method(problem, it.trade_off, it.choice)
        lists[cell] = made[setting]
    return lists


def _reweighted(case: Case, chosen: Mapping[str, Trial], problem: Problem) -> dict[str, Lists]:
    return {cell: _of_vectors(case.reweighted(it.trade_off), problem) for cell, it in chosen.items()}


def _dials(method: Method, chosen: Mapping[str, Trial], problem: Problem) -> dict[str, Lists]:
    """Return cell -> what dials serve that were fitted to the lists of the rule."""
    lists = _lists_of(method, chosen, problem)
    return {cell: _of_dials(problem, it, lists[cell]) for cell, it in chosen.items()}


def _of_dials(problem: Problem, trial: Trial, lists: Lists) -> Lists:
    dials = lists_to_dials(
        problem.factors,
        lists,
        problem.categories,
        base_lists=problem.base_lists,
        exclude=problem.hidden,
        ordered=trial.choice["goal"].startswith("alpha_ndcg"),
        demote=True,
    )
    return _of_vectors(dials.applied_to(problem.factors), problem)


def _paper_rows(case: Case, problem: Problem) -> dict[str, Lists]:
    """Return the lists of the paper's CMB (reward on validation), of its shuffled values, and of noise."""
    base = problem.factors
    model = CMB.preset(
        "paper", diversity="subtopic_coverage", accuracy="recall", reward_on="validation", seed=case.seed
    )
    model.fit(base, case.split, case.dataset.categories)
    controls = control_perturbations(model.base_, model.delta_, model.max_step, case.seed)
    found = {"learned": model.delta_, **controls}
    return {name: _of_vectors(it.applied_to(base), problem) for name, it in found.items()}


def _judge_all(case: Case, entrants: Mapping[str, Make], say: Say) -> None:
    """Evaluate every method's lists on the test part, once, and keep the values of every user."""
    paths = {name: case.folder / "test" / f"{_file(name)}.npz" for name in entrants}
    for name, make in entrants.items():
        if paths[name].exists():
            continue
        began = time.perf_counter()
        arrays = _judged(case.test, make)
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(paths[name]) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        _done(case, f"test/{name}", began, say)


def _judged(problem: Problem, make: Make) -> dict[str, NDArray[Any]]:
    """Return cell/metric -> values of every user."""
    arrays: dict[str, NDArray[Any]] = {}
    for cell, lists in make(problem).items():
        values = problem.judge(lists, (*OBJECTIVE.names, *GUARDS))
        arrays |= {f"{cell}/{metric}": value.astype(np.float32) for metric, value in values.items()}
    return arrays


def _certificates(case: Case) -> list[dict[str, Any]]:
    return certificate_outcomes(case.validation, case.test, OBJECTIVE.goals)


def _keep(case: Case, name: str, say: Say, compute: Callable[[Case], Any]) -> None:
    """Write what ``compute`` returns to a file of the case, unless it is there."""
    path = case.folder / f"{name}.json"
    if not path.exists():
        began = time.perf_counter()
        write_text(path, json.dumps(compute(case)))
        _done(case, name, began, say)


def _done(case: Case, piece: str, began: float, say: Say) -> None:
    """Record the seconds of a piece, and report it."""
    row = {"world": case.world.slug, "seed": case.seed, "piece": piece, "seconds": time.perf_counter() - began}
    with (case.folder.parents[1] / "seconds.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    say(f"{case.world.slug}, seed {case.seed}: {piece}")


def read_judged(folder: Path, world: World, seed: int, name: str) -> dict[str, NDArray[np.float32]] | None:
    """Return cell/metric -> values, as kept by ``compare``; None if the method was not judged in this world."""
    path = folder / world.slug / f"seed-{seed}" / "test" / f"{_file(name)}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def read_rows(folder: Path, world: World, seed: int, name: str) -> list[dict[str, Any]]:
    """Return the rows of a kept file, such as "certificates"; empty if there is none."""
    path = folder / world.slug / f"seed-{seed}" / f"{name}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def seconds_by_world(folder: Path) -> dict[str, float]:
    """Return world -> the seconds that its pieces took, training included."""
    found: dict[str, float] = {}
    path = folder / "seconds.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        found[row["world"]] = found.get(row["world"], 0.0) + row["seconds"]
    return found


def _file(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
