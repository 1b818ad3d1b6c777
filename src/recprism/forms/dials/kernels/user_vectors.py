"""Kernels of user vectors: one convex problem per user, solved exactly (see active_set.py).

A user has one or more rows; each is a list and a set of excluded items. An outsider is an item that is neither on the
list nor excluded. There is one constraint per pair of list item and outsider, too many to store. The most violated one
is the pair of the lowest-scoring list item and the highest-scoring outsider. The search looks at a few outsiders (the
pool). When all of these score low enough, one pass over the catalogue finds the next ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_loosely
from recprism.forms.dials.kernels.active_set import ADDED, IMPOSSIBLE, dot, no_constraints, take_in
from recprism.forms.dials.kernels.user_state import AT_ONCE, new_state

SOLVED, LOST = 0, 2
PATIENCE = 100  # added constraints per factor after which the method stops because of rounding errors
OFFERED, LEFT_OUT = 0, 1


@compiled
def solve_users(first: int, last: int, problem: Any, x: Any, status: Any, supports: Any, proofs: Any) -> None:
    """Solve the problems of users ``first`` to ``last - 1``.

    Args:
        first: First user.
        last: User after the last one.
        problem: The data of all users.
        x: Receives the vectors, (n_users, d) float64.
        status: Receives SOLVED, IMPOSSIBLE (with a proof; x is then a best effort) or LOST (without a proof),
            (n_users,) int8.
        supports: Receives the active constraints of the n = last - first users: count (n,), row, above and below
            (n, d + 1) int64, weight (n, d + 1).
        proofs: The same for proofs of infeasibility.
    """
    state, active = new_state(problem, first, last), no_constraints(problem.item.shape[1])
    for user in range(first, last):
        _start(problem, state, user)
        status[user] = SOLVED
        outcome = _solve(problem, state, active, user)
        while outcome != SOLVED:
            if status[user] == SOLVED:
                status[user] = outcome
                if outcome == IMPOSSIBLE:
                    _write(active, active.count[0] + 1, user - first, proofs)
            if not _give_up_something(state, active, problem, user):
                break
            outcome = _solve(problem, state, active, user)
        x[user] = state.x
        if outcome == SOLVED:
            _write(active, active.count[0], user - first, supports)


@compiled
def _start(problem: Any, state: Any, user: int) -> None:
    state.x[:] = problem.user[user]
    base = problem.of_user[user]
    for row in range(problem.of_user[user + 1] - base):
        for place in range(problem.lists.shape[1]):
            state.wanted[row, place] = problem.lists[base + row, place] >= 0
            state.linked[row, place] = problem.order
        state.in_pool[row] = 0
        state.n_freed[row] = 0
    _score_all(problem.item, problem.bias, state.x, state.scores)
    _look_around(problem, state, user)


@compiled
def _solve(problem: Any, state: Any, active: Any, user: int) -> int:
    """Move from the base vector to the nearest one that meets all remaining constraints."""
    state.x[:] = problem.user[user]
    active.count[0] = 0
    base = problem.of_user[user]
    for _ in range(PATIENCE * (len(state.x) + 1)):
        violation = _most_violated(problem, state, user)
        if violation <= problem.tolerance[user]:
            _score_all(problem.item, problem.bias, state.x, state.scores)
            if not _look_around(problem, state, user):
                return SOLVED
            continue
        row, above, below = state.found[0], state.found[1], state.found[2]
        if take_in(active, state.x, problem.item, base + row, above, below, violation) != ADDED:
            return IMPOSSIBLE
    active.weight[active.count[0]] = 0.0  # this place is only used by a proof
    return LOST


@compiled_loosely
def _score_all(item: Any, bias: Any, x: Any, scores: Any) -> None:
    for i in range(item.shape[0]):
        total = bias[i]
        for factor in range(item.shape[1]):
            total += item[i, factor] * x[factor]
        scores[i] = total


@compiled
def _most_violated(problem: Any, state: Any, user: int) -> float:
    """Return the violation of the most violated constraint in the pool; ``state.found`` receives the constraint."""
    base, worst = problem.of_user[user], -np.inf
    for row in range(problem.of_user[user + 1] - base):
        low, lowest = -1, np.inf
        before, before_score = -1, np.inf
        for place in range(problem.lists.shape[1]):
            if not state.wanted[row, place]:
                continue
            i = problem.lists[base + row, place]
            score = problem.bias[i] + dot(problem.item[i], state.x)
            if score < lowest:
                low, lowest = i, score
            missing = problem.margin[user] - (before_score - score)
            if before >= 0 and missing > worst:
                worst = missing
                state.found[0], state.found[1], state.found[2] = row, before, i
            before, before_score = (i, score) if state.linked[row, place] else (-1, np.inf)
        if low < 0:
            continue
        for place in range(state.in_pool[row]):
            i = state.pool[row, place]
            missing = problem.margin[user] - (lowest - problem.bias[i] - dot(problem.item[i], state.x))
            if missing > worst:
                worst = missing
                state.found[0], state.found[1], state.found[2] = row, low, i
    return worst


@compiled
def _look_around(problem: Any, state: Any, user: int) -> bool:
    """Add the best outsiders of each row to its pool; return whether one of them violates a constraint."""
    base, late = problem.of_user[user], False
    for row in range(problem.of_user[user + 1] - base):
        _mark(problem, state, user, row, LEFT_OUT)
        lowest = np.inf
        for place in range(problem.lists.shape[1]):
            if state.wanted[row, place]:
                lowest = min(lowest, state.scores[problem.lists[base + row, place]])
        n = _best_outsiders(state)
        _mark(problem, state, user, row, OFFERED)
        if n and lowest - state.best_score[0] < problem.margin[user] - problem.tolerance[user]:
            late = True
        for i in range(n):
            state.pool[row, state.in_pool[row]] = state.best[i]
            state.in_pool[row] += 1
    return late


@compiled
def _mark(problem: Any, state: Any, user: int, row: int, value: int) -> None:
    """Mark the items that a search for outsiders skips: excluded, listed, freed, or in the pool already."""
    at = problem.of_user[user] + row
    for entry in range(problem.out_ptr[at], problem.out_ptr[at + 1]):
        state.marks[problem.out[entry]] = value
    for place in range(problem.lists.shape[1]):
        if problem.lists[at, place] >= 0:
            state.marks[problem.lists[at, place]] = value
    for place in range(state.n_freed[row]):
        state.marks[state.freed[row, place]] = value
    for place in range(state.in_pool[row]):
        state.marks[state.pool[row, place]] = value


@compiled
def _best_outsiders(state: Any) -> int:
    """Fill ``state.best`` with the AT_ONCE best items that are not marked, best first; return their number."""
    n = 0
    for i in range(len(state.scores)):
        score = state.scores[i]
        if n == AT_ONCE and score <= state.best_score[n - 1]:
            continue
        if state.marks[i] != OFFERED:
            continue
        place = n if n < AT_ONCE else n - 1
        while place > 0 and state.best_score[place - 1] < score:
            if place < AT_ONCE:
                state.best[place], state.best_score[place] = state.best[place - 1], state.best_score[place - 1]
            place -= 1
        state.best[place], state.best_score[place] = i, score
        n = min(n + 1, AT_ONCE)
    return n


@compiled
def _give_up_something(state: Any, active: Any, problem: Any, user: int) -> bool:
    """Drop one requirement from those that the proof in ``active`` shows to be impossible together.

    The first choice is the order of two neighbours, the pair with the largest weight in the proof. Without such a pair,
    the list item with the largest weight is dropped, and the outsider with the largest weight may take its place.

    Returns:
        False if nothing is left to drop.
    """
    n = active.count[0] + 1
    base = problem.of_user[user]
    heaviest, link_row, link_place = 0.0, -1, -1
    for c in range(n):
        row = active.row[c] - base
        place = _place_of(problem, active.row[c], active.below[c])
        if place >= 0 and active.weight[c] > heaviest:
            heaviest, link_row, link_place = active.weight[c], row, _place_of(problem, active.row[c], active.above[c])
    if link_row >= 0:
        state.linked[link_row, link_place] = False
        return True
    top = _heaviest(active, active.above, n, -1)
    if top < 0:
        return False
    row = active.row[top] - base
    state.wanted[row, _place_of(problem, active.row[top], active.above[top])] = False
    below = _heaviest(active, active.below, n, active.row[top])
    outsider = active.below[below]
    state.freed[row, state.n_freed[row]] = outsider
    state.n_freed[row] += 1
    for place in range(state.in_pool[row]):
        if state.pool[row, place] == outsider:
            state.in_pool[row] -= 1
            state.pool[row, place] = state.pool[row, state.in_pool[row]]
            break
    return True


@compiled
def _heaviest(active: Any, items: Any, n: int, row: int) -> int:
    """Find the item (of one row, or of any row if ``row`` is -1) with the largest weight; -1 if all weights are 0."""
    best, heaviest = -1, 0.0
    for c in range(n):
        total = 0.0
        for other in range(n):
            if items[other] == items[c] and active.row[other] == active.row[c]:
                total += active.weight[other]
        if total > heaviest and (row < 0 or active.row[c] == row):
            best, heaviest = c, total
    return best


@compiled
def _place_of(problem: Any, row: int, item: int) -> int:
    for place in range(problem.lists.shape[1]):
        if problem.lists[row, place] == item:
            return place
    return -1


@compiled
def _write(active: Any, n: int, at: int, out: Any) -> None:
    """Write the constraints with a positive weight to row ``at`` of the five arrays of ``out``."""
    count, row, above, below, weight = out
    count[at] = 0
    for c in range(n):
        if active.weight[c] > 0.0:
            place = count[at]
            row[at, place], above[at, place], below[at, place] = active.row[c], active.above[c], active.below[c]
            weight[at, place] = active.weight[c]
            count[at] += 1
