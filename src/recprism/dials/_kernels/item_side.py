"""Kernels of the item side: all users pull at the same item vectors, one row of the lists after the other.

A row is satisfied if there is a threshold t such that all items of its list score at least t + h, and all outsiders
(items outside the list) at most t - h; h is half the margin. The nearest vectors that satisfy one row move item i by
pull[i] * p along the user's vector p. Pulls of list items are at least 0, pulls of outsiders at most 0, and they add up
to 0.

A sweep satisfies one row after the other. Before a row is visited again, its earlier pulls are removed. This is
Dykstra's method, a block coordinate ascent on the dual problem. It converges to the smallest change that satisfies all
rows. No pull may exceed a cap, so where the rows conflict it converges to the best balance of size and hinge loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism._compile import compiled, compiled_loosely

# The last column of ``user`` and ``item`` holds the item bias, which does not move.
FIXED_COLUMNS = 1
STEPS = 60  # of Newton's method for a threshold; about five are usual


class Rows(NamedTuple):
    """The rows of the lists and their pulls.

    Attributes:
        user: Each user's vector divided by the spread of their scores, (n_rows, d + 1) float64; the last column is for
            the bias.
        item: (n_items, d + 1) float64; the first d columns move, the last is the bias.
        strength: |user|^2 over the columns that move, (n_rows,) float64.
        length: Number of items on the list, (n_rows,) int64.
        watched: The items of the list, then outsiders, (n_rows, width) int64.
        count: How many items are watched, (n_rows,) int64.
        pull: (n_rows, width) float64, in the order of ``watched``.
        cap: Largest |pull|, (n_rows, width) float64.
        busy: Places of ``watched`` that short sweeps visit, (n_rows, width) int64.
        n_busy: How many places are busy, (n_rows,) int64.
    """

    user: Any
    item: Any
    strength: Any
    length: Any
    watched: Any
    count: Any
    pull: Any
    cap: Any
    busy: Any
    n_busy: Any


@compiled
def sweep(rows: Any, order: Any, half: float, near: float, whole: bool) -> float:
    """Satisfy the rows in the given order.

    Args:
        rows: The rows; changed in place.
        order: Row numbers, (n_rows,).
        half: Half the margin.
        near: Distance to the threshold below which a place is busy.
        whole: Visit all watched places, and mark as busy those with a pull or near the threshold. Otherwise visit the
            busy places only.

    Returns:
        The sum of squares of all moves.
    """
    score, cap = np.empty(rows.watched.shape[1]), np.empty(rows.watched.shape[1])
    moved = 0.0
    for r in order:
        if whole:
            for place in range(rows.count[r]):
                rows.busy[r, place] = place
            rows.n_busy[r] = rows.count[r]
        n, on_list = rows.n_busy[r], 0
        for at in range(n):
            place = rows.busy[r, at]
            on_list += place < rows.length[r]
            score[at] = _score(rows, r, place) - rows.pull[r, place] * rows.strength[r]
            cap[at] = rows.cap[r, place]
        if rows.strength[r] <= 0.0 or on_list in (0, n):
            continue
        threshold = _threshold(score, cap, on_list, n, half, rows.strength[r])
        moved += _grant(rows, r, score, on_list, threshold, half)
        if whole:
            _note_busy(rows, r, score, threshold, near)
    return moved


@compiled_loosely
def _score(rows: Any, r: int, place: int) -> float:
    i, total = rows.watched[r, place], 0.0
    for factor in range(rows.user.shape[1]):
        total += rows.user[r, factor] * rows.item[i, factor]
    return total


@compiled
def _threshold(score: Any, cap: Any, on_list: int, n: int, half: float, strength: float) -> float:
    """Find where upward and downward pulls balance, by Newton's method on a piecewise linear function."""
    low, high = np.inf, -np.inf
    for at in range(n):
        if at < on_list:
            low = min(low, score[at] - half)
        else:
            high = max(high, score[at] + half)
    middle = 0.5 * (low + high)
    if low >= high:
        return middle
    for _ in range(STEPS):
        balance, slope = 0.0, 0.0
        for at in range(n):
            side = 1.0 if at < on_list else -1.0
            pull = (half + side * (middle - score[at])) / strength
            if pull > 0.0:
                balance += side * min(pull, cap[at])
                slope += pull < cap[at]
        if abs(balance) * strength <= 1e-10 * (high - low):
            break
        if balance > 0.0:
            high = middle
        else:
            low = middle
        guess = middle - balance * strength / slope if slope > 0.0 else 0.5 * (low + high)
        middle = guess if low < guess < high else 0.5 * (low + high)
    return middle


@compiled_loosely
def _grant(rows: Any, r: int, score: Any, on_list: int, threshold: float, half: float) -> float:
    moved, strength = 0.0, rows.strength[r]
    free = rows.user.shape[1] - FIXED_COLUMNS
    for at in range(rows.n_busy[r]):
        place = rows.busy[r, at]
        side = 1.0 if at < on_list else -1.0
        pull = side * min(rows.cap[r, place], max(0.0, (half + side * (threshold - score[at])) / strength))
        change = pull - rows.pull[r, place]
        if change != 0.0:
            rows.pull[r, place] = pull
            moved += change * change * strength
            i = rows.watched[r, place]
            for factor in range(free):
                rows.item[i, factor] += change * rows.user[r, factor]
    return moved


@compiled
def _note_busy(rows: Any, r: int, score: Any, threshold: float, near: float) -> None:
    n = 0
    for place in range(rows.count[r]):
        side = 1.0 if place < rows.length[r] else -1.0
        ahead = side * (score[place] + rows.pull[r, place] * rows.strength[r] - threshold)
        if rows.pull[r, place] != 0.0 or ahead < near:
            rows.busy[r, n] = place
            n += 1
    rows.n_busy[r] = n


@compiled
def watch(first: int, last: int, rows: Any, best: Any) -> None:
    """Choose the outsiders to watch: those with a pull stay, and the highest-ranked others fill the rest.

    Args:
        first: First row.
        last: Row after the last one.
        rows: The rows; changed in place.
        best: The items that rank highest now, (n_rows, depth) int64; -1 in empty places.
    """
    for r in range(first, last):
        n = rows.length[r]
        for place in range(rows.length[r], rows.count[r]):
            if rows.pull[r, place] != 0.0:
                rows.watched[r, n], rows.pull[r, n] = rows.watched[r, place], rows.pull[r, place]
                n += 1
        held = n
        for i in best[r]:
            if n == rows.watched.shape[1] or i < 0:
                break
            if not _is_among(rows.watched[r], held, i):
                rows.watched[r, n], rows.pull[r, n] = i, 0.0
                n += 1
        rows.count[r] = n


@compiled
def _is_among(items: Any, n: int, wanted: int) -> bool:
    for place in range(n):  # noqa: SIM110 - numba compiles no generators
        if items[place] == wanted:
            return True
    return False


@compiled
def set_caps(first: int, last: int, rows: Any, most: float, width: float) -> None:
    """Set the largest pull of each watched item to most / (1 + distance / width)^2.

    The distance is how far the item is on the wrong side of the cut, and 0 on the right side. Items that cannot reach
    their side therefore soon stop affecting the others.
    """
    score = np.empty(rows.watched.shape[1])
    for r in range(first, last):
        n = rows.count[r]
        for place in range(n):
            score[place] = _score(rows, r, place)
        ranked = np.sort(score[:n])
        length = rows.length[r]
        cut = 0.5 * (ranked[n - length] + ranked[n - length - 1]) if 0 < length < n else 0.0
        for place in range(n):
            off = max(0.0, cut - score[place] if place < length else score[place] - cut)
            share = 1.0 + off / width
            rows.cap[r, place] = most / (share * share)
