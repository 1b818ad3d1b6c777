"""Players on categories for segments of users: what do they reach, compared with the rule and with dials?

    python benchmarks/segments.py RUN [--seeds 5] [--segments 3 9 all] [--json]

RUN is a trained run with item categories. A recommender of d + m numbers has the categories of an item as m more
columns, and users start with weights of 0 for them, as with dials. CMB has one player per category and segment of
users, and every user of a segment gets the same weights. Segments are thirds of the users by activity (3); thirds by
activity and by breadth of the history (9); or every user alone (all).

All figures are on the validation part, in percent of the base lists, with a 95 % interval over users. Shared credit
draws random arms, so its figures are means over seeds; marginal credit draws nothing. "rule" and "dials" have the gain
of the rule, and of the named weights compiled from it for every user, at the same loss of NDCG@10: between two points
of the path it is interpolated. "shuffled" has the same weights, shuffled among all players ten times: the range of SC,
then the range of NDCG@10.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism.budget import Problem
from recprism.budget.path import lists_at
from recprism.budget.segments import by_segment, history_breadth
from recprism.cmb import CMB, permuted
from recprism.data.concepts import Concepts
from recprism.forms.dials import lists_to_dials
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.runs import Run

GOAL, COST = "subtopic_coverage@10", "ndcg@10"
SHARED = {"name": "shared", "k": 10, "max_step": 0.1}
MARGINAL = {"name": "default", "max_step": 0.3}
PLAYERS: dict[str, dict[str, Any]] = {
    "shared credit, SC alone": SHARED,
    "shared credit, SC and NDCG": {**SHARED, "accuracy": "ndcg"},
    "marginal credit": MARGINAL,
    "marginal credit, relevance 0.5": {**MARGINAL, "relevance": 0.5},
}
SHUFFLES = 10
PATH = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.21, 0.25, 0.3)
SEGMENTS = {"3": "3, by activity", "9": "9, by activity and breadth", "all": "every user"}
HEADER = ("players", "segments", "NDCG@10", "SC", "seeds", "shuffled", "rule", "dials")

Values = dict[str, NDArray[np.float64]]
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class World:
    """A problem, and its recommender with a column for every category."""

    problem: Problem
    concepts: Concepts
    factors: Factors
    before: Values

    @classmethod
    def of(cls, problem: Problem) -> World:
        concepts, base = Concepts.from_subtopics(problem.subtopics), problem.factors
        weights = np.zeros((base.n_users, len(concepts.names)), np.float32)
        wide = replace(
            base, user=np.hstack([base.user, weights]), item=np.hstack([base.item, concepts.values.astype(np.float32)])
        )
        return cls(problem, concepts, wide, problem.judge(problem.base_lists, (COST, GOAL)))

    def values(self, factors: Factors) -> Values:
        """Return the metrics of every user under other vectors."""
        return self.problem.judge(self.problem.rank(factors)[0], (COST, GOAL))

    def change(self, values: Values, metric: str) -> float:
        """Return the change against the base lists, in percent."""
        return 100 * float(np.nanmean(values[metric]) / np.nanmean(self.before[metric]) - 1)

    def cell(self, values: Values, metric: str) -> str:
        """Return the change with its interval over users."""
        row = by_segment(self.before[metric], values[metric], {})["everyone"]
        return f"{100 * row.relative:+.1f} ({100 * row.low:+.1f} to {100 * row.high:+.1f})"

    def curve(self, points: list[Values]) -> Curve:
        """Return losses of NDCG, rising, and the gain that a path reaches at each of them."""
        losses, gains = (np.array([0.0, *(self.change(it, name) for it in points)]) for name in (COST, GOAL))
        return np.maximum.accumulate(-losses), gains


def segments_of(problem: Problem) -> dict[str, NDArray[np.int64]]:
    """Return (n_users,) numbers of segments, from the training history alone."""
    train = problem.split.train
    activity = thirds(train.row_counts.astype(np.float64))
    breadth = thirds(np.nan_to_num(history_breadth(train, problem.subtopics)))
    return {
        "3": activity,
        "9": 3 * activity + breadth,
        "all": np.arange(train.n_rows),
    }


def thirds(trait: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.searchsorted(np.quantile(trait, [1 / 3, 2 / 3]), trait).astype(np.int64)


def measured(world: World, segments: NDArray[np.int64], settings: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Let players search once per seed, and judge their weights and the same weights shuffled."""
    columns = tuple(range(world.problem.factors.dim, world.factors.dim))
    asked = {**settings, "diversity": "subtopic_coverage", "side": "user", "only": columns, "device": "cpu"}
    found, shuffled, weights = [], [], []
    for seed in range(seeds if settings["name"] == "shared" else 1):
        players = CMB.preset(**asked, seed=seed)
        players.fit(world.factors, world.problem.split, world.problem.subtopics, user_segments=segments)
        assert players.delta_.user is not None
        first = np.unique(segments, return_index=True)[1]
        weights.append(players.delta_.user[first][:, columns[0] :])
        found.append(world.values(players.factors_))
        for draw in range(SHUFFLES):
            mixed = players.delta_.user.clone()
            mixed[:, columns[0] :] = permuted(weights[-1], draw)[segments]
            shuffled.append(world.values(Perturbation(user=mixed).applied_to(world.factors)))
    mean = {name: np.mean([it[name] for it in found], 0) for name in (COST, GOAL)}
    return {
        "values": mean,
        "seeds": [world.change(it, GOAL) for it in found],
        "shuffled": "; ".join(_range([world.change(it, name) for it in shuffled]) for name in (GOAL, COST)),
        "weights": weights[0].numpy(),
    }


def _range(values: list[float]) -> str:
    return f"{min(values):+.1f} to {max(values):+.1f}"


def curves(world: World) -> tuple[Curve, Curve]:
    """Walk the path of the rule, and compile each point into dials."""
    problem = world.problem
    lists = [lists_at(problem, "subtopic_coverage", trade_off) for trade_off in PATH]
    before = {"base_lists": problem.base_lists, "exclude": problem.hidden}
    dials = [lists_to_dials(problem.factors, it, world.concepts, **before) for it in lists]
    by_rule = world.curve([problem.judge(it, (COST, GOAL)) for it in lists])
    return by_rule, world.curve([world.values(it.applied_to(problem.factors)) for it in dials])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("run", type=Path, metavar="RUN", help="a trained run with categories")
    options.add_argument("--seeds", type=int, default=5, help="of shared credit (5)")
    options.add_argument("--segments", nargs="+", choices=SEGMENTS, default=SEGMENTS, help="which segments (3 9 all)")
    given = options.parse_args()
    world = World.of(Run.open(given.run).problem("validation"))
    rule, dials = curves(world)
    table, claims, named = [HEADER], [], {}
    segments = segments_of(world.problem)
    for number, (name, settings) in product(given.segments, PLAYERS.items()):
        scheme = SEGMENTS[number]
        it = measured(world, segments[number], settings, given.seeds)
        loss, gain = -world.change(it["values"], COST), world.change(it["values"], GOAL)
        by_rule, by_dials = (float(np.interp(loss, *curve)) for curve in (rule, dials))
        cells = [world.cell(it["values"], metric) for metric in (COST, GOAL)]
        spread = _range(it["seeds"]) if len(it["seeds"]) > 1 else ""
        table.append((name, scheme, *cells, spread, it["shuffled"], *(f"{at:+.1f}" for at in (by_rule, by_dials))))
        claims.append(Claim(f"{name}, segments: {scheme}: gain of SC in %, bar: the rule", gain, by_rule, "higher"))
        if len(it["weights"]) <= 3:
            rows = it["weights"].tolist()
            named[f"{name}, {scheme}"] = [dict(zip(world.concepts.names, row, strict=True)) for row in rows]
        print(" | ".join(table[-1]), file=sys.stderr, flush=True)
    if not given.json:
        print("\n".join(f"| {' | '.join(row)} |" for row in (HEADER, ["---"] * len(HEADER), *table[1:])), end="\n\n")
    report(claims, as_json=given.json, details={"table": table, "weights": named, "rule": [it.tolist() for it in rule]})


if __name__ == "__main__":
    main()
