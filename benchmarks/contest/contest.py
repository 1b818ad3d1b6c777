"""The contest: every method with every choice of its settings, compared where all lose equally much.

A world is a data set, a base model and a split. On the first seed, each choice of settings is followed along its
trade-off on validation, with the labels of all users. The choices that draws of the bootstrap choose there are followed
along the same trade-offs on the test part, on every seed. ``verdict.table`` reads the outcome.
Every finished piece is a file, so that an interrupted contest can be resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contest.cases import Case
from contest.curves import COST, LEVELS, Curve, curve, joined, load_curves, save_curves
from contest.equal_loss import Curves, Weights, chosen, drawn_curves
from recprism.budget.popularity import POPULARITY
from recprism.budget.problem import Lists, Problem
from recprism.cmb import CMB
from recprism.cmb.controls import control_perturbations
from recprism.common.executor import Executor
from recprism.common.files import write_text
from recprism.contest.methods import GREEDY, RIVALS, TOGETHER, Choice, Method, greedy, history_fit, ours, possible
from recprism.models.popularity import popularity
from recprism.rule.goal import term_named

GOALS = ("subtopic_coverage@10", "alpha_ndcg_relevant@10", "ilad_subtopics@10", "shown_often@10", "gini@10")
OFTEN = 0.02
"""Share of draws that must choose the same settings before they are read on the test part."""
PAPER_ROWS = ("learned", "permuted", "noise")
CONTROLLED = "bprmf"  # the model with the paper's rows
BASE, PAPER = "base", "cmb"
CHOICES = "choices.json"

Say = Callable[[str], None]


def is_exposure(goal: str) -> bool:
    """Whether a metric is of all lists together."""
    return term_named(goal.partition("@")[0]).is_exposure


@dataclass(frozen=True)
class Entrant:
    """A method with the goals that it is compared for.

    Attributes:
        method: The method, with the choices that are sensible for these goals.
        goals: Metrics.
    """

    method: Method
    goals: tuple[str, ...]


def entrants(problem: Problem) -> dict[str, Entrant]:
    """Return the methods of a world: ours and greedy for each goal, and the rivals for the goals that they aim at."""
    found = {}
    for goal in GOALS:  # first, because their search takes longest: no process waits for it at the end
        for make in (ours, greedy):
            own = possible(make(goal.partition("@")[0]), problem)
            found[own.name] = Entrant(own, (goal,))
    lists, together = (tuple(it for it in GOALS if is_exposure(it) == of) for of in (False, True))
    for name, rival in RIVALS.items():
        found[name] = Entrant(_sensible(possible(rival, problem)), together if name in TOGETHER else lists)
    return found


def _sensible(method: Method) -> Method:
    """Leave out distances between vectors: all goals of one list count categories."""
    space = tuple(it for it in method.space if it.get("similarity") != "vectors")
    return Method(method.name, method.make, space, method.together)


def entrant_of(goal: str, label: str) -> str:
    """Return the name of ours or of greedy for a goal."""
    return f"{label}:{goal.partition('@')[0]}"


def rivals_of(goal: str) -> tuple[str, ...]:
    """Return the rivals for a goal, greedy on our objective first."""
    return (entrant_of(goal, GREEDY), *(name for name in RIVALS if (name in TOGETHER) == is_exposure(goal)))


def curves_of_world(every: Sequence[Case], say: Say, executor: Executor) -> None:
    """Follow all choices on validation, on the first seed, and the chosen ones on the test part of every seed.

    Args:
        every: The cases of the world, the first seed first.
        say: Receives a description of each finished piece. A piece is a file, and is not made again.
        executor: Where lists are made and judged. This process writes the files.
    """
    first = every[0]
    choices = {name: [dict(it) for it in entrant.method.space] for name, entrant in entrants(first.validation).items()}
    write_text(first.folder / CHOICES, json.dumps(choices))
    _judge_once(first, BASE, lambda problem: {"": problem.base_lists}, say, "validation")
    _follow(
        [first], "validation", {name: dict.fromkeys(range(len(own))) for name, own in choices.items()}, say, executor
    )
    for case in every:
        _judge_once(case, BASE, lambda problem: {"": problem.base_lists}, say)
        _judge_once(case, POPULARITY, lambda problem: {"": _of_vectors(popularity(problem.split), problem)}, say)
    _follow(every, "test", _choices_to_read(first, len(every)), say, executor)
    if first.world.model == CONTROLLED:
        _judge_once(first, PAPER, _paper_rows, say)
    for case in every:
        case.forget_problems()


def curve_path(folder: Path, part: str, name: str) -> Path:
    """Return the file of a method's curves."""
    return folder / part / ("".join(letter if letter.isalnum() else "_" for letter in name) + ".npz")


def read_choices(folder: Path) -> dict[str, list[Choice]]:
    """Return method -> its choices of settings, in the order of the numbers in its files."""
    found: dict[str, list[Choice]] = json.loads((folder / CHOICES).read_text(encoding="utf-8"))
    return found


def _follow(
    every: Sequence[Case],
    part: str,
    picks: Mapping[str, Mapping[int, Sequence[float] | None]],
    say: Say,
    executor: Executor,
) -> None:
    """Write the missing curves of a part.

    Args:
        every: The seeds.
        part: "validation" or "test".
        picks: Method -> choice -> its trade-offs; None to place them by their losses.
        say: Receives a description of each step.
        executor: Where lists are made.
    """
    problems = [case.validation if part == "validation" else case.test for case in every]
    for problem in problems:
        problem.once("history fit", partial(history_fit, problem))
    pieces = [
        _Piece(seed, name, at, alone)
        for name, own in picks.items()
        for seed, case in enumerate(every)
        if not curve_path(case.folder, part, name).exists()
        for at, trade_offs in own.items()
        for alone in ([None] if trade_offs is None else [(it,) for it in trade_offs])
    ]
    if not pieces:
        return
    began, found = time.perf_counter(), list[Curve]()
    for place, (piece, curve_of_piece) in enumerate(
        zip(pieces, executor.map(_one_curve, problems, pieces), strict=True), 1
    ):
        found.append(curve_of_piece)
        if place == len(pieces) or pieces[place][:2] != piece[:2]:  # the last one of a method and seed
            case = every[piece.seed]
            choices = [it.choice for it in pieces[place - len(found) : place]]
            own = {at: joined([it for of, it in zip(choices, found, strict=True) if of == at]) for at in set(choices)}
            save_curves(curve_path(case.folder, part, piece.name), own)
            _done(case, f"{part}/{piece.name}", began, say)
            began, found = time.perf_counter(), []


class _Piece(NamedTuple):
    """Work for one process: one choice of a method on one seed, at some trade-offs, or at those that it places."""

    seed: int
    name: str
    choice: int
    trade_offs: tuple[float, ...] | None


def _one_curve(problems: Sequence[Problem], piece: _Piece) -> Curve:
    problem = problems[piece.seed]
    entrant = problem.once("entrants", lambda: entrants(problem))[piece.name]
    return curve(entrant.method, entrant.method.space[piece.choice], problem, entrant.goals, piece.trade_offs)


def _choices_to_read(case: Case, seeds: int) -> dict[str, dict[int, list[float]]]:
    """Return method -> the choices that draws choose for some goal and loss, with their trade-offs."""
    base = read_values(case.folder, "validation", BASE)[""]
    weights = Weights.drawn(case.split.n_users, seeds)
    picks: dict[str, dict[int, list[float]]] = {}
    for name, entrant in entrants(case.validation).items():
        curves = load_curves(curve_path(case.folder, "validation", name))
        own: set[int] = set()
        for goal in entrant.goals:
            drawn = {at: drawn_curves(it, base, goal, weights.users) for at, it in curves.items()}
            for of in subsets(entrant.method.space, drawn):
                for level in LEVELS:
                    made = chosen(of, level)
                    choices, counts = np.unique(made, return_counts=True)
                    own |= {int(made[0]), *choices[counts >= OFTEN * len(made)].tolist()}
        picks[name] = {at: curves[at].trade_offs.tolist() for at in sorted(own)}
    return picks


def subsets(space: Sequence[Choice], drawn: Mapping[int, Curves]) -> Iterator[dict[int, Curves]]:
    """Yield all choices of a method, and those that leave the history out of the relevance."""
    yield dict(drawn)
    yield {at: it for at, it in drawn.items() if not space[at].get("history_weight")}


def read_values(folder: Path, part: str, name: str) -> dict[str, dict[str, Any]]:
    """Return row -> metric -> values, of what was judged once."""
    found: dict[str, dict[str, Any]] = {}
    with np.load(curve_path(folder, part, name), allow_pickle=False) as stored:
        for key in stored.files:
            row, _, metric = key.partition("/")
            found.setdefault(row, {})[metric] = stored[key].astype(np.float64)
    return found


def _judge_once(
    case: Case, name: str, make: Callable[[Problem], dict[str, Lists]], say: Say, part: str = "test"
) -> None:
    """Write the values of lists that have no trade-off, unless they are there."""
    path = curve_path(case.folder, part, name)
    if path.exists():
        return
    began = time.perf_counter()
    problem = case.validation if part == "validation" else case.test
    judged = {row: problem.judge(lists, (COST, *GOALS)) for row, lists in make(problem).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{f"{row}/{metric}": values for row, own in judged.items() for metric, values in own.items()})
    _done(case, f"{part}/{name}", began, say)


def _of_vectors(model: Any, problem: Problem) -> Lists:
    return np.asarray(model.rank(problem.k, exclude=problem.seen)[0], np.int64)


def _paper_rows(problem: Problem, seed: int = 0) -> dict[str, Lists]:
    """Return the lists of the paper's CMB (reward on validation), of its shuffled values, and of noise."""
    base = problem.factors
    model = CMB.preset("paper", diversity="subtopic_coverage", accuracy="recall", reward_on="validation", seed=seed)
    model.fit(base, problem.split, problem.categories)
    controls = control_perturbations(model.base_, model.delta_, model.max_step, seed)
    found = {"learned": model.delta_, **controls}
    return {name: _of_vectors(it.applied_to(base), problem) for name, it in found.items()}


def _done(case: Case, piece: str, began: float, say: Say) -> None:
    """Record the seconds of a piece, and report it."""
    row = {"world": case.world.slug, "seed": case.seed, "piece": piece, "seconds": time.perf_counter() - began}
    with (case.folder.parents[1] / "seconds.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    say(f"{case.world.slug}, seed {case.seed}: {piece}")


def seconds_by_world(folder: Path) -> dict[str, float]:
    """Return world -> the seconds that its pieces took, training included."""
    found: dict[str, float] = {}
    path = folder / "seconds.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        found[row["world"]] = found.get(row["world"], 0.0) + row["seconds"]
    return found
