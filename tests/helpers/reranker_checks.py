"""The conformance suite of re-rankers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from candidates import CandidateWorld, make_candidates
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.rule import Reranker

TRADE_OFFS = (0.0, 0.01, 0.2, 0.5, 0.77, 1.0)
LENGTH = 5
Items = NDArray[np.int64]


def check_reranker(
    make: Callable[..., Reranker], *, users_are_independent: bool = True, seeds: Iterable[int] = range(30)
) -> None:
    """Check that a re-ranker chooses as every re-ranker must, in small random worlds.

    A trade-off of 0 must give the base lists. Every list must hold as many distinct candidates as there are places, and
    empty places at its end. ``sort_back`` must change the order alone. The lists must not depend on the numbers of
    items, the scale of scores, the order of candidates or empty places among them.

    Args:
        make: Gives the re-ranker when called with ``trade_off`` and ``sort_back``, as a class does.
        users_are_independent: Whether a user's list is the same without the other users. Pass False for methods that
            share exposure among users.
        seeds: One random world each.

    Raises:
        AssertionError: The re-ranker does not conform; the message names the property.
    """
    for seed in seeds:
        generator = random_generator(seed)
        world = _random_world(generator, coarse=bool(generator.integers(2)))
        case = _Case(make, world, float(generator.choice(TRADE_OFFS)), int(generator.integers(1, 15)))
        _check_base_list(case)
        _check_candidates(case, sort_back=bool(generator.integers(2)))
        _check_sort_back(case)
        _check_numbers(case, generator)
        if users_are_independent:
            _check_alone(case)
        # Equal scores may be separated by rounding, and they keep the order in which they are given.
        without_ties = replace(case, world=_random_world(generator, coarse=False))
        _check_scale(without_ties, generator)
        _check_order(without_ties, generator)


@dataclass(frozen=True, eq=False)
class _Case:
    make: Callable[..., Reranker]
    world: CandidateWorld
    trade_off: float
    k: int

    def lists(self, world: CandidateWorld | None = None, k: int = LENGTH, **settings: Any) -> Items:
        world = world or self.world
        method = self.make(**{"trade_off": self.trade_off, **settings})
        chosen: Items = method(world.candidates, world.scores, k, features=world.features)
        return chosen


def _random_world(generator: np.random.Generator, *, coarse: bool) -> CandidateWorld:
    return make_candidates(
        int(generator.integers(2**32)),
        n_users=int(generator.integers(1, 7)),
        n_candidates=int(generator.integers(1, 13)),
        n_items=int(generator.integers(12, 26)),
        dim=int(generator.integers(1, 7)),
        n_categories=int(generator.integers(1, 6)),
        coarse=coarse,
        padded=bool(generator.integers(2)),
    )


def _check_base_list(case: _Case) -> None:
    best = np.pad(case.world.candidates, ((0, 0), (0, case.k)), constant_values=-1)[:, : case.k]
    _require_equal(case.lists(k=case.k, trade_off=0), best, "trade_off=0 is not the base list")


def _check_candidates(case: _Case, *, sort_back: bool) -> None:
    lists = case.lists(k=case.k, sort_back=sort_back)
    _require(lists.shape == (len(case.world.candidates), case.k), f"the lists have shape {lists.shape}")
    _require(lists.dtype == np.int64, f"the lists hold {lists.dtype}, not int64")
    for chosen, candidates in zip(lists.tolist(), case.world.candidates.tolist(), strict=True):
        real = [item for item in chosen if item >= 0]
        available = {item for item in candidates if item >= 0}
        _require(set(real) <= available, "a list holds an item that is not a candidate")
        _require(len(set(real)) == len(real), "a list holds an item twice")
        _require(len(real) == min(case.k, len(available)), "a list leaves candidates out though it has empty places")
        _require(chosen == real + [-1] * (case.k - len(real)), "an empty place is not at the end of its list")


def _check_sort_back(case: _Case) -> None:
    plain, back = case.lists(), case.lists(sort_back=True)
    _require_equal(np.sort(plain, 1), np.sort(back, 1), "sort_back changes the choice")
    for chosen, candidates in zip(back.tolist(), case.world.candidates.tolist(), strict=True):
        ranks = [candidates.index(item) for item in chosen if item >= 0]
        _require(ranks == sorted(ranks), "sort_back does not restore the order of scores")


def _check_numbers(case: _Case, generator: np.random.Generator) -> None:
    world, before = case.world, case.lists()
    old_number = generator.permutation(len(world.vectors))
    number = np.append(np.argsort(old_number), -1)  # the last is for empty places
    tables = {name: getattr(world, name)[old_number] for name in ("vectors", "categories", "shown")}
    renumbered = replace(world, candidates=number[world.candidates], **tables)
    _require_equal(case.lists(renumbered), number[before], "the lists depend on the numbers of items")


def _check_alone(case: _Case) -> None:
    world = case.world
    tables = {name: getattr(world, name)[-1:] for name in ("candidates", "scores", "user_categories")}
    _require_equal(case.lists(replace(world, **tables)), case.lists()[-1:], "a user alone gets another list")


def _check_scale(case: _Case, generator: np.random.Generator) -> None:
    factor, shift = 10 ** generator.uniform(-3, 3), generator.uniform(-50, 50)
    scaled = replace(case.world, scores=case.world.scores.astype(np.float64) * factor + shift)
    _require_equal(case.lists(scaled), case.lists(), "the lists depend on the scale of scores")


def _check_order(case: _Case, generator: np.random.Generator) -> None:
    world, empty = case.world, ((0, 0), (0, 3))
    order = generator.permutation(world.candidates.shape[1] + 3)
    candidates = np.pad(world.candidates, empty, constant_values=-1)[:, order]
    scores = np.pad(world.scores, empty, constant_values=-np.inf)[:, order]
    shuffled = replace(world, candidates=candidates, scores=scores)
    _require_equal(case.lists(shuffled), case.lists(), "the lists depend on the order of candidates")


def _require_equal(found: Items, expected: Items, problem: str) -> None:
    _require(np.array_equal(found, expected), problem)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)
