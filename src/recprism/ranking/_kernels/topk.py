"""Top-k kernels: keys of the best items of a block of users.

An item that scores above the user's bar is held as one int64 key. When the buffer of a user is full, the worst keys are
dropped and the bar rises.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recprism.common.compile import compiled_unchecked as compiled
from recprism.ranking._kernels.bars import Guess, fill_bars
from recprism.ranking._kernels.registers import GROUP, PANEL, bits_of, fill_groups, float_of, lowest_bit, score_tile

SPARE_ROOM = 32  # keys a user may hold above 2 k before the worst are dropped
NO_KEY = np.iinfo(np.int64).min
LOW_HALF = 0xFFFFFFFF
# Numba checks every signed index for counting from the end; unsigned ones need no check.
ONE = np.uint64(1)

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]
Masks = NDArray[np.uint64]


@compiled
def _fill_allowed(n_items: int, seen_from: Longs, seen: NDArray[np.int32], allowed: Masks) -> None:
    """Fill the ``(n_panels, block)`` masks of allowed items: none after the last item, none for an empty slot."""
    n_users = len(seen_from) - 1
    n_panels, block = allowed.shape
    for panel in range(n_panels):
        every_item = (ONE << np.uint64(min(PANEL, n_items - panel * PANEL))) - ONE
        for slot in range(block):
            allowed[panel, slot] = every_item if slot < n_users else np.uint64(0)
    for slot in range(n_users):
        for at in range(seen_from[slot], seen_from[slot + 1]):
            allowed[seen[at] // PANEL, slot] &= ~(ONE << np.uint64(seen[at] % PANEL))


@compiled
def _key_of(score: np.float32, item: np.int64) -> np.int64:
    """Return an int64 that sorts by score, then by lower item number: score bits above, item number below."""
    bits = bits_of(score + np.float32(0))  # adding zero turns -0.0 into 0.0
    return (np.int64(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))) << 32) | (LOW_HALF - item)


@compiled
def _score_of(key: np.int64) -> np.float32:
    bits = np.int32(key >> 32)
    score: np.float32 = float_of(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    return score


@compiled
def _keep_best(keys: Longs, base: np.uint64, end: np.uint64, least: int, most: int) -> tuple[np.uint64, np.int64]:
    """Move the best of keys[base:end] to the front, ``least`` to ``most`` of them; return their end and the worst.

    A quickselect without branches in its inner loop. It stops at any cut that leaves an allowed number.
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
            # Keys are distinct, so the pivot is the worst only if there are two, and then it is the last: drop it.
            high = min(cut, high - ONE)


@compiled
def _hold_hits(keys: Longs, end: np.uint64, mask: np.uint64, scores: Floats, first_item: int) -> np.uint64:
    """Append the keys of the items in the mask to keys[:end] and return the new end; scores: ``(PANEL,)``."""
    while mask != 0:
        place = lowest_bit(mask)
        mask &= mask - ONE
        keys[end] = _key_of(scores[place], first_item + np.int64(place))
        end += ONE
    return end


@compiled
def _hand_over(keys: Longs, base: np.uint64, end: np.uint64, best: Longs) -> None:
    """Copy the best of keys[base:end] to ``best`` ``(k,)``."""
    k = len(best)
    if np.int64(end - base) > k:
        end, _ = _keep_best(keys, base, end, k, k)
    for place in range(k):
        best[place] = keys[base + np.uint64(place)] if place < np.int64(end - base) else NO_KEY


@compiled
def best_keys(
    user: Floats,
    panels: Floats,
    n_items: int,
    seen_from: Longs,
    seen: NDArray[np.int32],
    guess: Guess,
    block: int,
    best: Longs,
) -> None:
    """Fill ``best`` ``(n_users, k)`` with keys of the best items above the users' bars, in any order, then NO_KEY."""
    n_users, k = best.shape
    n_panels, dim, _ = panels.shape
    room = 2 * k + SPARE_ROOM
    stride = room + PANEL  # a panel may exceed the room before the keys are counted
    held = np.empty(block * stride, np.int64)  # the user in slot s holds held[s * stride : ends[s]]
    ends = np.empty(block, np.uint64)
    vectors = np.zeros((block // GROUP, dim, GROUP), np.float32)
    allowed = np.empty((n_panels, block), np.uint64)
    scores = np.empty((GROUP, PANEL), np.float32)
    hits = np.empty(GROUP, np.uint64)
    bars = np.zeros(block, np.float32)
    for start in range(0, n_users, block):
        stop = min(start + block, n_users)
        fill_groups(user[start:stop], vectors)
        fill_bars(vectors, guess, bars)
        _fill_allowed(n_items, seen_from[start : stop + 1], seen, allowed)
        for place in range(stop - start):
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
                        bars[slot] = _score_of(worst)  # of equal scores the earlier item wins
                    ends[slot] = end
        for place in range(stop - start):
            _hand_over(held, np.uint64(place * stride), ends[place], best[start + place])


@compiled
def decode(keys: Longs) -> tuple[Longs, Floats]:
    """Turn rising keys ``(n, k)`` into items and scores ``(n, k)``, best first."""
    n_users, k = keys.shape
    items, scores = np.empty((n_users, k), np.int64), np.empty((n_users, k), np.float32)
    for row in range(n_users):
        for place in range(k):
            key = keys[row, k - 1 - place]
            items[row, place] = LOW_HALF - (key & LOW_HALF) if key != NO_KEY else -1
            scores[row, place] = _score_of(key) if key != NO_KEY else -np.inf
    return items, scores
