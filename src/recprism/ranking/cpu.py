"""Top-k on the CPU, compiled: scores are made in registers, and only those above a user's bar are looked at again.

Users come in groups of GROUP, items in panels of PANEL. A tile, one group against one panel, is GROUP x PANEL sums that
fit the vector registers; a panel and the vectors of a block of users fit the first cache. An item that scores above the
user's bar is held as one int64 key; when a user's keys fill their room the worst are dropped and the bar rises. Where
many users are ranked their bars start at a guess; whoever is left with fewer than k items is ranked again without one.
A score is one chain of multiply-adds over the factors: its bits depend on neither the threads nor the users beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.incidence import Incidence
from recprism.ranking.registers import GROUP, PANEL, bits_of, float_of, lowest_bit, score_tile

USERS_PER_BLOCK = 64
BLOCKS_PER_TASK = 4
SAMPLE = 128  # users whose lists show where the bars of the others may start
SAMPLE_PAYS_FROM = 16  # in samples: with fewer users it costs more than it saves
ITEMS_TO_LEARN_FROM = 2048
LISTS_MISSED = 0.005  # share of the sample whose lists a bar may cut short; such users are ranked once more
SPARE_ROOM = 32  # keys a user may gather beyond 2 k before the worst are dropped
NO_KEY = np.iinfo(np.int64).min
LOW_HALF = 0xFFFFFFFF
# Numba takes every signed index for one that may count from the end; unsigned ones cost no check.
ONE = np.uint64(1)

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]
Masks = NDArray[np.uint64]
Function = TypeVar("Function", bound=Callable[..., Any])
_njit: Any = numba.njit


def rank(user: Tensor, item: Tensor, k: int, exclude: Incidence | None, block: int | None) -> tuple[Tensor, Tensor]:
    """Items (n_users, k) int64 and scores (n_users, k) float32; -1 and -inf where a user has no item left."""
    users, factors = user.numpy(), item.numpy()
    n_users, n_items = len(users), len(factors)
    seen = Incidence.empty((n_users, n_items)) if exclude is None else exclude
    keys_of = partial(_sorted_keys, panels=_panels(factors), n_items=n_items, k=k, block=block or USERS_PER_BLOCK)
    if n_users < SAMPLE * SAMPLE_PAYS_FROM:
        keys = keys_of(users, seen, _no_bars)
    else:
        sample = np.arange(SAMPLE) * (n_users // SAMPLE)
        keys = keys_of(users[sample], seen.take_rows(sample), _no_bars)
        keys = keys_of(users, seen, _learn_bars(factors, users[sample], _decode(keys)[1][:, -1]))
        short = np.flatnonzero(keys[:, 0] == NO_KEY)  # the bar was too high, or there are not k items left
        if len(short):
            keys[short] = keys_of(users[short], seen.take_rows(short), _no_bars)
    items, scores = _decode(keys)
    return torch.from_numpy(items), torch.from_numpy(scores)


def _no_bars(user: Floats) -> Floats:
    return np.full(len(user), -np.inf, np.float32)


@dataclass(frozen=True)
class _LikelyBars:
    """Bars that should lie a little below each user's list: so many spreads above the mean of the user's scores."""

    centre: Floats  # (d,) mean of the item vectors
    covariance: Floats  # (d, d) of the item vectors
    height: float

    def __call__(self, user: Floats) -> Floats:
        """(n_users, d) -> (n_users,); -inf where nothing can be said."""
        mean, spread = _mean_and_spread(user, self.centre, self.covariance)
        with np.errstate(all="ignore"):
            bars = mean + np.float32(self.height) * spread
        return np.where(np.isfinite(bars) & (spread > 0), bars, np.float32(-np.inf))


def _learn_bars(item: Floats, sample: Floats, last_scores: Floats) -> _LikelyBars:
    """From the vectors of some users, and the last scores of their lists."""
    some = item[:: -(-len(item) // ITEMS_TO_LEARN_FROM)]
    centre = some.mean(axis=0)
    with np.errstate(all="ignore"):
        covariance = _second_moments(some) / len(some) - np.outer(centre, centre)
        mean, spread = _mean_and_spread(sample, centre, covariance)
        heights = (last_scores - mean) / spread
    heights = heights[np.isfinite(heights)]
    return _LikelyBars(centre, covariance, float(np.quantile(heights, LISTS_MISSED)) if len(heights) else -np.inf)


def _sorted_keys(
    user: Floats,
    seen: Incidence,
    bars_of: Callable[[Floats], Floats],
    *,
    panels: Floats,
    n_items: int,
    k: int,
    block: int,
) -> Longs:
    """(n_users, k) keys of the best items above the users' bars, rising; NO_KEY first where there are fewer than k."""
    keys = np.empty((len(user), k), np.int64)
    seen_from, seen_items = np.ascontiguousarray(seen.indptr), np.ascontiguousarray(seen.indices)
    rows = -(-min(block, len(user)) // GROUP) * GROUP
    per_task = rows * BLOCKS_PER_TASK

    def fill_from(start: int) -> None:
        part = slice(start, start + per_task)
        starts = seen_from[start : start + per_task + 1]
        _best_keys(user[part], panels, n_items, starts, seen_items, bars_of(user[part]), rows, keys[part])
        keys[part].sort(axis=1)

    _run(fill_from, range(0, len(user), per_task))
    return keys


def _run(task: Callable[[int], None], starts: range) -> None:
    """Do the tasks on as many threads as torch may use; compiled code lets them run at the same time."""
    threads = min(torch.get_num_threads(), len(starts))
    if threads == 1:
        for start in starts:
            task(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(task, starts):
            pass


def _panels(item: Floats) -> Floats:
    """(n_items, d) -> (n_panels, d, PANEL), zeros behind the last item."""
    n_items, dim = item.shape
    panels = np.zeros((-(-n_items // PANEL), dim, PANEL), np.float32)
    _fill_panels(item, panels)
    return panels


def _compiled(function: Function) -> Function:
    try:
        compiled: Function = _njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder for the cache can be written to
        compiled = _njit(nogil=True, error_model="numpy")(function)
    return compiled


@_compiled
def _second_moments(item: Floats) -> Floats:
    """(n_items, d) -> (d, d), the sum of the outer products."""
    dim = item.shape[1]
    moments = np.zeros((dim, dim), np.float32)
    for row in range(item.shape[0]):
        for one in range(dim):
            for other in range(dim):
                moments[one, other] += item[row, one] * item[row, other]
    return moments


@_compiled
def _mean_and_spread(user: Floats, centre: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Of each user's scores: (n_users,) and (n_users,)."""
    n_users, dim = user.shape
    means, spreads = np.empty(n_users, np.float32), np.empty(n_users, np.float32)
    image = np.empty(dim, np.float32)
    for row in range(n_users):
        image[:] = 0
        for one in range(dim):
            for other in range(dim):
                image[other] += user[row, one] * covariance[one, other]
        mean = variance = np.float32(0)
        for one in range(dim):
            mean += user[row, one] * centre[one]
            variance += user[row, one] * image[one]
        means[row], spreads[row] = mean, np.sqrt(variance)
    return means, spreads


@_compiled
def _fill_panels(item: Floats, panels: Floats) -> None:
    for row in range(item.shape[0]):
        for factor in range(item.shape[1]):
            panels[row // PANEL, factor, row % PANEL] = item[row, factor]


@_compiled
def _fill_groups(user: Floats, vectors: Floats) -> None:
    """(n_users, d) -> (n_groups, d, GROUP)."""
    for slot in range(user.shape[0]):
        for factor in range(user.shape[1]):
            vectors[slot // GROUP, factor, slot % GROUP] = user[slot, factor]


@_compiled
def _fill_allowed(n_items: int, seen_from: Longs, seen: NDArray[np.int32], allowed: Masks) -> None:
    """(n_panels, block) masks of what a user may be given: no item behind the last, nothing for a slot without user."""
    n_users = len(seen_from) - 1
    n_panels, block = allowed.shape
    for panel in range(n_panels):
        every_item = (ONE << np.uint64(min(PANEL, n_items - panel * PANEL))) - ONE
        for slot in range(block):
            allowed[panel, slot] = every_item if slot < n_users else np.uint64(0)
    for slot in range(n_users):
        for at in range(seen_from[slot], seen_from[slot + 1]):
            allowed[seen[at] // PANEL, slot] &= ~(ONE << np.uint64(seen[at] % PANEL))


@_compiled
def _key_of(score: np.float32, item: np.int64) -> np.int64:
    """An int64 that sorts as (score, then lower item number) does: score bits above, item number below."""
    bits = bits_of(score + np.float32(0))  # adding zero turns -0.0 into 0.0, its equal
    return (np.int64(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))) << 32) | (LOW_HALF - item)


@_compiled
def _score_of(key: np.int64) -> np.float32:
    bits = np.int32(key >> 32)
    score: np.float32 = float_of(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    return score


@_compiled
def _keep_best(keys: Longs, base: np.uint64, end: np.uint64, least: int, most: int) -> tuple[np.uint64, np.int64]:
    """Move the best of keys[base:end] to the front, least .. most of them: where they end, and the worst of them.

    A quickselect without branches in its inner loop, content with any cut that leaves an allowed number.
    """
    low, high = base, end
    while True:
        first, middle, last = keys[low], keys[(low + high) >> ONE], keys[high - ONE]
        pivot = max(min(first, middle), min(max(first, middle), last))
        cut = low
        for at in range(low, high):
            key = keys[at]
            keys[at] = keys[cut]
            keys[cut] = key
            cut += np.uint64(key >= pivot)
        if np.int64(cut - base) < least:
            low = cut
        elif np.int64(cut - base) <= most:
            return cut, pivot
        else:
            # as no keys are equal the pivot can be the worst only of two, and then it is the last: drop that one
            high = min(cut, high - ONE)


@_compiled
def _hold_hits(keys: Longs, end: np.uint64, mask: np.uint64, scores: Floats, first_item: int) -> np.uint64:
    """Append the keys of the items in the mask to keys[:end], and say where they end now; scores: (PANEL,)."""
    while mask != 0:
        place = lowest_bit(mask)
        mask &= mask - ONE
        keys[end] = _key_of(scores[place], first_item + np.int64(place))
        end += ONE
    return end


@_compiled
def _hand_over(keys: Longs, base: np.uint64, end: np.uint64, best: Longs) -> None:
    """The best of keys[base:end] -> best (k,)."""
    k = len(best)
    if np.int64(end - base) > k:
        end, _ = _keep_best(keys, base, end, k, k)
    for place in range(k):
        best[place] = keys[base + np.uint64(place)] if place < np.int64(end - base) else NO_KEY


@_compiled
def _best_keys(
    user: Floats,
    panels: Floats,
    n_items: int,
    seen_from: Longs,
    seen: NDArray[np.int32],
    first_bars: Floats,
    block: int,
    best: Longs,
) -> None:
    """Fill best (n_users, k) with the keys of the best items above the users' bars, in any order, and NO_KEY behind."""
    n_users, k = best.shape
    n_panels, dim, _ = panels.shape
    room = 2 * k + SPARE_ROOM
    stride = room + PANEL  # a panel may overfill the room before the keys are counted
    held = np.empty(block * stride, np.int64)  # the user in slot s holds held[s * stride : ends[s]]
    ends = np.empty(block, np.uint64)
    vectors = np.zeros((block // GROUP, dim, GROUP), np.float32)
    allowed = np.empty((n_panels, block), np.uint64)
    scores = np.empty((GROUP, PANEL), np.float32)
    hits = np.empty(GROUP, np.uint64)
    bars = np.zeros(block, np.float32)
    for start in range(0, n_users, block):
        stop = min(start + block, n_users)
        _fill_groups(user[start:stop], vectors)
        _fill_allowed(n_items, seen_from[start : stop + 1], seen, allowed)
        for place in range(stop - start):
            bars[place] = first_bars[start + place]
            ends[place] = place * stride
        for panel in range(n_panels):
            for group in range((stop - start + GROUP - 1) // GROUP):
                rows = score_tile(vectors, panels, allowed, bars, scores, hits, group, panel, dim, block)
                while rows != 0:
                    row = np.int64(lowest_bit(rows))
                    rows &= rows - ONE
                    slot = group * GROUP + row
                    base = np.uint64(slot * stride)
                    end = _hold_hits(held, ends[slot], hits[row], scores[row], panel * PANEL)
                    if np.int64(end - base) >= room:
                        end, worst = _keep_best(held, base, end, k, k + k // 2)
                        bars[slot] = _score_of(worst)  # not below it: at an equal score the earlier item has won
                    ends[slot] = end
        for place in range(stop - start):
            _hand_over(held, np.uint64(place * stride), ends[place], best[start + place])


@_compiled
def _decode(keys: Longs) -> tuple[Longs, Floats]:
    """Rising keys (n, k) -> items and scores (n, k), best first."""
    n_users, k = keys.shape
    items, scores = np.empty((n_users, k), np.int64), np.empty((n_users, k), np.float32)
    for row in range(n_users):
        for place in range(k):
            key = keys[row, k - 1 - place]
            items[row, place] = LOW_HALF - (key & LOW_HALF) if key != NO_KEY else -1
            scores[row, place] = _score_of(key) if key != NO_KEY else -np.inf
    return items, scores
