"""Kernels that find the cheapest named weights of each user: score = base score + weights . properties.

There is a row for each pair of a wanted item and another item. The wanted item must win by the margin, plus
``rounding`` for each unit of L1 distance of the properties, at every scale of the weights. A row is linear in the
scale, so the smallest and the largest scale are enough. Of other items with equal properties only the best one matters.
Each round adds the most violated row, until no item of the catalogue violates one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_inside, compiled_loosely
from recprism.forms.dials.kernels.active_set import ADDED, add_scaled, dot, meet
from recprism.forms.dials.kernels.tableau import (
    add_to_row,
    add_variable,
    clear,
    clear_row,
    entering,
    exchange,
    most_negative,
)
from recprism.forms.dials.kernels.weights_state import EXCUSES, new_state

SOLVED, IMPOSSIBLE, LOST = 0, 1, 2
TOLERANCE = 1e-11  # in units of the user's spread
FREE = 1e-9  # a column with a price below it can change without cost
COST_OF_WEIGHTS = 1e-4  # against a unit of violation, where no weights hold a list


@compiled
def find_weights(first: int, last: int, rows: Any, users: Any, least: bool, found: Any) -> None:
    """Find the weights of users ``first`` to ``last - 1``.

    Args:
        first: First user.
        last: User after the last one.
        rows: What is the same for all users.
        users: The users; the scores of wanted items are overwritten.
        least: Whether to return the least-L2 point of the cheapest weights, or any vertex.
        found: Receives the result.
    """
    state = new_state(rows, users.lists.shape[1])
    for user in range(first, last):
        places = _start(rows, users, state, user)
        _find(rows, users.cost[user], users.spread[user], state, user, places, least, found)


@compiled_inside
def _find(rows: Any, cost: Any, spread: float, state: Any, user: int, places: int, least: bool, found: Any) -> None:
    """Find the weights of the user in ``state``."""
    found.same[user] = _count_same(rows, state, places)
    tableau = state.tableau
    _set_costs(tableau, cost, 1.0)
    outcome = _solve(rows, state, tableau, places)
    found.status[user] = outcome
    if outcome == SOLVED:
        if least:
            _move_to_least(rows, state, places)
    else:
        tableau = state.excusing
        _set_costs(tableau, cost, COST_OF_WEIGHTS)
        _solve(rows, state, tableau, places)
        _forget_excuses(state, rows.properties.shape[0])
    for j in range(rows.properties.shape[0]):
        weight = tableau.x[j]
        found.weights[user, j] = weight * spread if weight > TOLERANCE else 0.0


@compiled_inside
def _start(rows: Any, users: Any, state: Any, user: int) -> int:
    """Read the scores of a user; return the number of wanted items."""
    scores, unit, places = users.scores[user], 1.0 / users.spread[user], 0
    for place in range(users.lists.shape[1]):
        item = users.lists[user, place]
        if item >= 0:
            state.group[places] = rows.group[item]
            state.score[places] = scores[item] * unit
            scores[item] = -np.inf
            places += 1
    state.best[:] = -np.inf
    for item in range(len(scores)):
        group = rows.group[item]
        state.best[group] = max(state.best[group], scores[item])
    for group in range(len(state.best)):
        state.best[group] *= unit
    return places


@compiled_inside
def _count_same(rows: Any, state: Any, places: int) -> int:
    """Count the wanted items whose base score is not enough against the best item with equal properties."""
    count = 0
    for place in range(places):
        if state.score[place] - state.best[state.group[place]] < rows.margin - TOLERANCE:
            count += 1
    return count


@compiled_inside
def _set_costs(tableau: Any, cost: Any, factor: float) -> None:
    clear(tableau)
    for j in range(len(cost)):
        add_variable(tableau, factor * cost[j])


@compiled_inside
def _solve(rows: Any, state: Any, tableau: Any, places: int) -> int:
    """Add violated rows until none is left.

    Whether violations have a price is read from the size of the tableau. As an argument, the constants True and False
    would compile this function twice.
    """
    m = rows.properties.shape[0]
    excusing = len(tableau.x) > m
    patience = 40 * (m + places) + 400
    for turn in range(patience):
        variable = most_negative(tableau, TOLERANCE)
        clear_row(tableau)
        if variable >= 0:
            value = tableau.x[variable]
            add_to_row(tableau, variable, 1.0)
        else:
            if _most_violated(rows, state, tableau.x, places) <= TOLERANCE:
                return SOLVED
            above, below = state.found[0], state.found[1]
            value = _slack(rows, state, tableau.x, above, below)
            if excusing and state.excuse[above, below] < 0:
                if tableau.size[0] == m + EXCUSES:
                    return LOST
                state.excuse[above, below] = add_variable(tableau, 1.0)
                tableau.row[tableau.size[0] - 1] = 0.0
            _express(rows, state, tableau, above, below)
        column = entering(tableau, turn > patience // 2)
        if column < 0:
            return IMPOSSIBLE
        exchange(tableau, column, variable, value)
    return LOST


@compiled_inside
def _express(rows: Any, state: Any, tableau: Any, place: int, rival: int) -> None:
    """Write the row of a pair in terms of the columns."""
    above, below = rows.of_group[state.group[place]], rows.of_group[_group_of(rows, state, rival)]
    for j in range(len(above)):
        difference = above[j] - below[j]
        if difference != 0.0:
            add_to_row(tableau, j, difference)
    if state.excuse[place, rival] >= 0:
        add_to_row(tableau, state.excuse[place, rival], 1.0)


@compiled_inside
def _group_of(rows: Any, state: Any, rival: int) -> int:
    n_groups = rows.properties.shape[1]
    group: int = rival if rival < n_groups else state.group[rival - n_groups]
    return group


@compiled_inside
def _most_violated(  # noqa: PLR0912 - in one piece: a call in the inner loop would count references to all arrays
    rows: Any, state: Any, x: Any, places: int
) -> float:
    """Return the largest violation of a pair at any scale; ``state.found`` receives the pair."""
    added, best, group, found = state.added, state.best, state.group, state.found
    distance, of_group, excuse = rows.distance, rows.of_group, state.excuse
    margin, rounding, own, n_groups = rows.margin, rows.rounding, state.own, len(state.best)
    far, tabled = rows.rounding * rows.reach, len(rows.distance) > 0
    excusing = len(x) > rows.properties.shape[0]
    _add_weights(rows.properties, x, added)
    worst = 0.0
    for scale in rows.scales:
        lowest = np.inf
        for place in range(places):
            own[place] = state.score[place] + scale * added[group[place]]
            lowest = min(lowest, own[place])
        for rival in range(n_groups + (places if rows.ordered else 0)):
            if rival < n_groups:
                score, first, last, of_rival = best[rival] + scale * added[rival], 0, places, rival
                if score <= lowest - margin - far + worst:
                    continue
            else:  # a wanted item must stay below the one before it
                first, last = rival - n_groups - 1, rival - n_groups
                score, of_rival = own[last], group[last]
            for place in range(max(first, 0), last):
                violation = score - own[place] + margin
                if violation + far <= worst:
                    continue
                if tabled:
                    violation += rounding * distance[group[place], of_rival]
                elif rounding > 0.0:
                    violation += rounding * _l1(of_group[group[place]], of_group[of_rival])
                if excusing:
                    if group[place] == of_rival:  # no weights change this violation
                        continue
                    if excuse[place, rival] >= 0:
                        violation -= scale * x[excuse[place, rival]]
                if violation > worst:
                    worst = violation
                    found[0], found[1] = place, rival
    return worst


@compiled_loosely
def _add_weights(properties: Any, x: Any, added: Any) -> None:
    added[:] = 0.0
    for j in range(properties.shape[0]):
        if x[j] != 0.0:
            for group in range(properties.shape[1]):
                added[group] += x[j] * properties[j, group]


@compiled_inside
def _slack(rows: Any, state: Any, x: Any, place: int, rival: int) -> float:
    """Return weights . difference - requirement / scale, at the scale that requires most."""
    n_groups = len(state.best)
    own, group = state.group[place], _group_of(rows, state, rival)
    score = state.best[rival] if rival < n_groups else state.score[rival - n_groups]
    required = score - state.score[place] + rows.margin
    required += rows.rounding * _l1(rows.of_group[own], rows.of_group[group])
    slack: float = state.added[own] - state.added[group] - required / rows.scales[0 if required > 0.0 else 1]
    if state.excuse[place, rival] >= 0:
        slack += x[state.excuse[place, rival]]
    return slack


@compiled_inside
def _l1(a: Any, b: Any) -> float:
    total = 0.0
    for j in range(len(a)):
        total += abs(a[j] - b[j])
    return total


@compiled_inside
def _forget_excuses(state: Any, m: int) -> None:
    if state.excusing.size[0] > m:
        state.excuse[:] = -1


@compiled_inside
def _move_to_least(rows: Any, state: Any, places: int) -> None:
    """Move to the least-L2 point of the cheapest weights, if they are not unique.

    A column with a price is 0 for all cheapest weights. The others span the face that the weights may move in.
    """
    tableau, active, normal = state.tableau, state.active, state.active.normal
    n = _span_face(state)
    if n == 0:
        return
    m = rows.properties.shape[0]
    x = tableau.x[:m].copy()
    for at in range(n):
        add_scaled(x, state.face[at], -dot(state.face[at], x))
    active.count[0] = 0
    for _ in range(40 * (m + places)):
        variable, low = -1, -TOLERANCE
        for j in range(m):
            if x[j] < low:
                variable, low = j, x[j]
        normal[:] = 0.0
        if variable >= 0:
            violation = -low
            for at in range(n):
                add_scaled(normal, state.face[at], state.face[at, variable])
        else:
            if _most_violated(rows, state, x, places) <= TOLERANCE:
                for j in range(m):
                    tableau.x[j] = x[j]
                return
            violation = -_slack(rows, state, x, state.found[0], state.found[1])
            group = _group_of(rows, state, state.found[1])
            difference = rows.of_group[state.group[state.found[0]]].copy()
            add_scaled(difference, rows.of_group[group], -1.0)
            for at in range(n):
                add_scaled(normal, state.face[at], dot(state.face[at], difference))
        if meet(active, x, 0, 0, 0, violation) != ADDED:
            return  # by rounding errors alone; the vertex is as cheap


@compiled_inside
def _span_face(state: Any) -> int:
    """Fill ``state.face`` with orthonormal directions of the free columns; return their number."""
    tableau, face, n = state.tableau, state.face, 0
    for column in range(tableau.size[0]):
        if tableau.price[column] > FREE:
            continue
        direction = face[n]
        direction[:] = 0.0
        if tableau.variable[column] >= 0:
            direction[tableau.variable[column]] = 1.0
        for at in range(tableau.size[1]):
            direction[tableau.basic[at]] = tableau.table[tableau.basic[at], column]
        for _ in range(2):  # twice, for numerical accuracy
            for at in range(n):
                add_scaled(direction, face[at], -dot(face[at], direction))
        length = np.sqrt(dot(direction, direction))
        for j in range(len(direction)):
            direction[j] /= length
        n += 1
    return n
