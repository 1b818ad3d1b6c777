"""Two one-thread workers of a Ray cluster against one, on the shape of ML-10M (51,692 users x 7,135 items, d = 50).

    python benchmarks/scale.py [--json] [--quick]

Factors, interactions and subtopics are synthetic, as in benchmarks/cmb.py. In an iteration of the paper's search every
worker replays the players, ranks its users and returns sums of SC and Recall (k = 20, 61 arms). In an iteration of the
learner every worker ranks its users and returns the spread of worths. It then gets the spread over all users and
returns the rewards of item players (110 candidates). Pools of one and of two workers take turns in one run. The
benchmark also times an iteration without work on users: with two users in all, and with workers that answer at once.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from cmb import ARMS, EPSILON, LAMBDA1, SHAPES, K, World, make
from harness import Claim, interleaved, parser, report
from instant_worker import InstantWorker
from recprism.cmb import MarginalCredit
from recprism.cmb._marginal_players import DualAveragingSettings, MarginalPlayers, MarginalWorker
from recprism.cmb._shards import sharded
from recprism.cmb.credit.marginal import joint_deviation
from recprism.cmb.objective import Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Play, SearchSettings
from recprism.cmb.players.policies import EpsilonGreedy
from recprism.cmb.search_loop import SearchWorker
from recprism.cmb.space import FactorSpace
from recprism.metrics import Context
from recprism.parallel._ray_workers import RayWorkerPool

ITERATIONS = 200
BAR = 1.7


class Search:
    """The paper's search on a worker pool, one iteration per call."""

    def __init__(self, world: World, ray: Any, workers: int, users: int | None = None, instant: bool = False) -> None:
        self.space, context = space_of(world, users), context_of(world, users)
        self.objective = Objective("subtopic_coverage", "recall", LAMBDA1, 0.9, "sum")
        metrics = [metric for _, metric in self.objective.metrics]
        settings = SearchSettings(ITERATIONS, K, "first", "last")
        play = partial(Play, self.space.n_players, EpsilonGreedy(EPSILON), Arms(0.3, ARMS), settings, 0, "cpu")
        make_worker = InstantWorker if instant else partial(SearchWorker, play, K)
        self.judge = InstantWorker.judge if instant else SearchWorker.judge
        self.pool = RayWorkerPool(ray, make_worker, sharded(self.space, context, metrics, False, workers))
        self.rewards: list[float] = []

    def __call__(self) -> None:
        answers = self.pool.call(self.judge, self.rewards)
        psi = self.objective.psi_of([answer.parts for answer in answers])
        self.rewards.append(float(self.objective.reward(psi, answers[0].size, self.space.n_players)))


class Learner:
    """The learner on a worker pool, one iteration per call: item side, SC."""

    def __init__(self, world: World, ray: Any, workers: int) -> None:
        self.space, context = space_of(world), context_of(world)
        self.objective, self.arms, self.settings = (
            Objective("subtopic_coverage"),
            Arms(0.05, 2001),
            DualAveragingSettings(40, K),
        )
        credit = MarginalCredit(self.objective.goals, 0.7, 90, 0.5)
        shards = sharded(self.space, context, [metric for _, metric in self.objective.metrics], False, workers)
        self.pool = RayWorkerPool(ray, partial(MarginalWorker, credit, self.arms, self.settings), shards)
        self.pool.set_states([None] * workers)
        nothing = torch.zeros(self.space.n_players)
        self.players, self.number = MarginalPlayers(nothing, nothing), 0

    def __call__(self) -> None:
        values = self.pool.post(self.players.best_arms(self.arms, self.settings))
        looks = self.pool.advance(MarginalWorker.look, self.number, values, None)
        self.objective.psi_of([look.parts for look in looks])
        spreads = [joint_deviation(of_goal) for of_goal in zip(*(look.spreads for look in looks), strict=True)]
        pays = self.pool.advance(MarginalWorker.credit, self.number, values, None, spreads, True)
        total = torch.stack([pay.to_items for pay in pays if pay.to_items is not None]).sum(0)
        self.players = replace(self.players, reward=total).after(total.abs().mean())
        self.number += 1


def space_of(world: World, users: int | None = None) -> FactorSpace:
    space = FactorSpace(world.factors, world.split.train)
    return space if users is None else space.of_users(torch.arange(users).numpy())


def context_of(world: World, users: int | None = None) -> Context:
    context = Context.from_split(world.split, "test", subtopics=world.subtopics, vectors=world.factors.item)
    return context if users is None else context.of_users(torch.arange(users).numpy())


def measure(world: World, ray: Any, quick: bool) -> tuple[list[Claim], dict[str, float]]:
    repeats = 3 if quick else 12
    one, two = Search(world, ray, 1), Search(world, ray, 2)
    seconds = interleaved({"one worker": one, "two workers": two}, repeats)
    sent, back = (len(ray.cloudpickle.dumps(it)) for it in ([0.1] * ITERATIONS, InstantWorker([]).judge([])))
    one.pool.close()
    two.pool.close()
    for name, instant in (("two users", False), ("answered at once", True)):
        without = Search(world, ray, 2, 2, instant)
        seconds |= interleaved({name: without}, repeats)
        without.pool.close()
    claims = [
        Claim("search: two workers over one", seconds["one worker"] / seconds["two workers"], BAR, "higher"),
        Claim("search: ms of an iteration, one worker", 1e3 * seconds["one worker"], None),
        Claim("search: ms of an iteration, two workers", 1e3 * seconds["two workers"], None),
        Claim("search: ms of an iteration without users: messages, players", 1e3 * seconds["two users"], None),
        Claim("search: ms of it for messages alone", 1e3 * seconds["answered at once"], None),
        Claim("search: bytes to a worker in iteration 200", sent, None),
        Claim("search: bytes from a worker", back, None),
    ]
    return claims, seconds


def measure_learner(world: World, ray: Any, quick: bool) -> tuple[list[Claim], dict[str, float]]:
    one, two = Learner(world, ray, 1), Learner(world, ray, 2)
    seconds = interleaved({"learner, one worker": one, "learner, two workers": two}, 1 if quick else 5, 1)
    for pool in (one.pool, two.pool):
        pool.close()
    ratio = seconds["learner, one worker"] / seconds["learner, two workers"]
    values = len(ray.cloudpickle.dumps(torch.zeros(one.space.n_players)))
    return [
        Claim("learner: two workers over one", ratio, BAR, "higher"),
        Claim("learner: s of an iteration, one worker", seconds["learner, one worker"], None),
        Claim("learner: s of an iteration, two workers", seconds["learner, two workers"], None),
        Claim("learner: bytes to all workers, and from each", values, None),
    ], seconds


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="ML-1M's shape, few repeats")
    words = options.parse_args()
    world = make(SHAPES[0 if words.quick else 1])
    ray = importlib.import_module("ray")
    # Pools of one and of two workers exist at the same time; one or two of the three workers are busy.
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="error")
    found = [task(world, ray, words.quick) for task in (measure, measure_learner)]
    ray.shutdown()
    claims = [claim for some, _ in found for claim in some]
    report(claims, as_json=words.json, packages=("ray",), details={**found[0][1], **found[1][1]})


if __name__ == "__main__":
    main()
