"""Loops over the players of a search: choose an arm, explore, learn.

The bits are those of the torch code in ``cmb/players/_memory.py``, on any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_loosely

# The constants of SplitMix64; cmb/players/_draws.py has the same function on torch integers.
GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GOLDEN = np.uint64(GOLDEN)
_FIRST, _SECOND = np.uint64(FIRST), np.uint64(SECOND)
_LOW = np.uint64(0xFFFFFFFF)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@compiled
def _draw(key: Any, player: int) -> Any:
    word = np.uint64(player + 1) * _GOLDEN + key
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@compiled_loosely
def _highest(scores: Any, player: int) -> Any:
    top = scores[player, 0]
    for arm in range(1, scores.shape[1]):
        if scores[player, arm] > top:  # noqa: PLR1730 - max() would keep LLVM from using vector registers
            top = scores[player, arm]
    return top


@compiled_loosely
def _first_place(scores: Any, row: int, top: Any, place_of: Any) -> Any:
    """The lowest place among the arms that reach the top; without an early exit, the loop runs in vector registers."""
    best = np.int32(scores.shape[1])
    for arm in range(scores.shape[1]):
        place = place_of[arm] if scores[row, arm] == top else np.int32(scores.shape[1])
        if place < best:  # noqa: PLR1730 - as above
            best = place
    return best


@compiled
def _any_arm(scores: Any, row: int, top: Any, word: Any) -> Any:
    """One of the arms that reach the top, drawn with a random word."""
    equals = 0
    for arm in range(scores.shape[1]):
        equals += scores[row, arm] == top
    wanted: Any = np.int64(((word & _LOW) * np.uint64(equals)) >> _S32)
    for arm in range(scores.shape[1]):
        if scores[row, arm] == top:
            if wanted == 0:
                return arm
            wanted -= 1
    return 0  # never: one of them is the highest


@compiled
def _pick(scores: Any, row: int, places: Any, key: Any, player: int, random_ties: bool) -> Any:
    """The best arm in a row of scores: of equals the first in ``by_place``, or any."""
    place_of, by_place = places
    top = _highest(scores, row)
    if random_ties:
        return _any_arm(scores, row, top, _draw(key, player))
    return by_place[_first_place(scores, row, top, place_of)]


@compiled
def greedy(first: int, last: int, values: Any, places: Any, key: Any, random_ties: bool, chosen: Any) -> None:
    """Write each player's arm with the highest average to ``chosen``."""
    for player in range(first, last):
        chosen[player] = _pick(values, player, places, key, player, random_ties)


@compiled
def optimistic(
    first: int, last: int, values: Any, counts: Any, places: Any, width: Any, key: Any, random_ties: bool, chosen: Any
) -> None:
    """Write each player's arm with the highest average + width / sqrt(count) to ``chosen``; untried arms come first."""
    bound = np.empty((1, values.shape[1]), np.float32)
    for player in range(first, last):
        for arm in range(values.shape[1]):
            n = np.float32(counts[player, arm])
            bound[0, arm] = values[player, arm] + width / np.sqrt(n) if n > 0 else np.float32(np.inf)
        chosen[player] = _pick(bound, 0, places, key, player, random_ties)


@compiled
def explore(first: int, last: int, chosen: Any, limit: Any, n_arms: Any, key: Any, changed: Any) -> None:
    """Write ``chosen`` to ``changed``, with the arm of some players replaced by a random one."""
    for player in range(first, last):
        word = _draw(key, player)
        explores = (word >> _S32) < limit
        changed[player] = np.int64(((word & _LOW) * n_arms) >> _S32) if explores else chosen[player]


@compiled
def _take(values: Any, counts: Any, player: int, arm: int, reward: Any) -> None:
    counts[player, arm] += 1
    average = values[player, arm]
    values[player, arm] = average + (reward - average) / np.float32(counts[player, arm])


@compiled
def learn(first: int, last: int, values: Any, counts: Any, chosen: Any, reward: Any) -> None:
    """Add the reward to the average of each player's chosen arm."""
    for player in range(first, last):
        _take(values, counts, player, chosen[player], reward)


@compiled
def _next_equal(values: Any, player: int, arm: int, value: Any, place_of: Any, by_place: Any) -> Any:
    """The first arm after ``arm`` in ``by_place`` that has this value, or -1."""
    for place in range(place_of[arm] + 1, len(by_place)):
        if values[player, by_place[place]] == value:
            return by_place[place]
    return -1


@compiled
def learn_and_follow(
    first: int, last: int, values: Any, counts: Any, chosen: Any, reward: Any, places: Any, best: Any
) -> None:
    """Learn, and update ``best``, each player's arm with the highest average."""
    place_of, by_place = places
    for player in range(first, last):
        arm, leader = chosen[player], best[player]
        before, bar = values[player, arm], values[player, leader]
        _take(values, counts, player, arm, reward)
        now = values[player, arm]
        if arm != leader:
            if now > bar or (now == bar and place_of[arm] < place_of[leader]):
                best[player] = arm
        elif now < before:
            # An arm equal to the leader comes after it and leads now. Untried arms, all at 0, are nearly always equal
            # and others hardly ever: only for them is it worth looking there first.
            leader = _next_equal(values, player, arm, before, place_of, by_place) if before == 0 else -1
            if leader < 0:
                leader = by_place[_first_place(values, player, _highest(values, player), place_of)]
            best[player] = leader
