"""Kernels of the triton engine: two passes of half-precision scores, and float32 lists of the marked items.

A group is ``G`` items whose scores one thread holds: in each run of 4 G items, group q of four owns columns 2 q and
2 q + 1 of every eight. So a maximum over a group needs no communication between threads.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl


def kernel(function: Callable[..., Any]) -> Any:
    return triton.jit(function)


LOW_HALF = tl.constexpr(0xFFFFFFFF)
NO_KEY = tl.constexpr(-(1 << 63))
MINUS_INFINITY_IN_ORDER = tl.constexpr(0x007FFFFF)  # -inf as a rank of ``_low_kth``
CAREFUL = tl.constexpr(1.001)  # covers the rounding of the norms in an error bound


@kernel
def _power_below(largest):
    """Return a power of two that scales ``largest`` to [0.5, 1), or as near as float32 allows."""
    exponent = (largest.to(tl.int32, bitcast=True) >> 23) & 255
    bits = tl.minimum(tl.maximum(253 - exponent, 1), 253) << 23
    return bits.to(tl.float32, bitcast=True)


@kernel
def pack_seen(starts, items, words, first_row, stride, STEP: tl.constexpr):
    """Set the bit of every seen item in the row of its user; words: ``(rows, stride)`` int32."""
    row = tl.program_id(0)
    start = tl.load(starts + first_row + row)
    stop = tl.load(starts + first_row + row + 1)
    for at in range(start, stop, STEP):
        place = at + tl.arange(0, STEP)
        item = tl.load(items + place, mask=place < stop, other=0)
        bit = tl.full([STEP], 1, tl.int32) << (item % 32)
        tl.atomic_or(words + row.to(tl.int64) * stride + item // 32, bit, mask=place < stop, sem="relaxed")


@kernel
def halve_items(item, largest, half, wide, sizes, n, d, D: tl.constexpr, ROWS: tl.constexpr):
    """Convert items ``(n, d)`` to half precision, with one scale for all.

    The kernel fills ``half`` ``(rows, D)`` float16 with the scaled items and ``wide`` ``(rows, D)`` float32 with the
    items. ``sizes`` ``(2,)``, initially 0, receives the largest length of a scaled item, and of its rounding error.
    """
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    dims = tl.arange(0, D)[None, :]
    values = tl.load(item + rows * d + dims, mask=(rows < n) & (dims < d), other=0.0)
    scaled = values * _power_below(tl.load(largest))
    rounded = scaled.to(tl.float16)
    lost = scaled - rounded.to(tl.float32)
    tl.store(wide + rows * D + dims, values)
    tl.store(half + rows * D + dims, rounded)
    tl.atomic_max(sizes, tl.max(tl.sqrt(tl.sum(scaled * scaled, 1)), 0))
    tl.atomic_max(sizes + 1, tl.max(tl.sqrt(tl.sum(lost * lost, 1)), 0))


@kernel
def halve_users(
    user,
    largest,
    sizes,
    half,
    error,
    unit,
    n,
    d,
    D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Convert users ``(n, d)`` to half precision, each with a scale of its own.

    The kernel fills ``half`` ``(rows, D)`` float16 with the scaled users. ``error`` ``(rows,)`` receives the largest
    error of a half-precision score in the scale of ``half``, and ``unit`` ``(rows,)`` the factor from that scale to the
    scale of the vectors.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    rows, dims = row[:, None], tl.arange(0, D)[None, :]
    values = tl.load(user + rows.to(tl.int64) * d + dims, mask=(rows < n) & (dims < d), other=0.0)
    power = _power_below(tl.max(tl.abs(values), 1))
    scaled = values * power[:, None]
    rounded = scaled.to(tl.float16)
    kept = rounded.to(tl.float32)
    lost = scaled - kept
    tl.store(half + rows.to(tl.int64) * D + dims, rounded)
    # s - s~ = lost_u . v + kept_u . lost_v, bounded by Cauchy-Schwarz, plus the rounding of sums of D products.
    kept_size = tl.sqrt(tl.sum(kept * kept, 1))
    item_size, item_lost = tl.load(sizes), tl.load(sizes + 1)
    rounding = (D + 16) * (1.0 / (1 << 22)) * (kept_size + tl.sqrt(tl.sum(lost * lost, 1))) * (item_size + item_lost)
    bound = (tl.sqrt(tl.sum(lost * lost, 1)) * item_size + kept_size * item_lost + rounding) * CAREFUL
    exponent = 254 - ((power.to(tl.int32, bitcast=True) >> 23) & 255)
    exponent -= (_power_below(tl.load(largest)).to(tl.int32, bitcast=True) >> 23) & 255
    # Beyond these scales products leave the range of float32: the bound is infinite, and every item is marked.
    sane = (exponent > -100) & (exponent < 100)
    tl.store(error + row, tl.where(sane, bound, float("inf")))
    tl.store(unit + row, (tl.where(sane, exponent + 127, 127) << 23).to(tl.float32, bitcast=True))


@kernel
def _tile(user, item, rows, columns, u, D: tl.constexpr, CHUNK: tl.constexpr):
    """``(USERS, ITEMS)`` half-precision scores; u: the first CHUNK factors of the users."""
    dims = tl.arange(0, CHUNK)
    scores = tl.dot(u, tl.load(item + columns[None, :] * D + dims[:, None]))
    if D > CHUNK:
        for more in range(CHUNK, D, CHUNK):
            part = tl.load(user + rows[:, None] * D + more + dims[None, :])
            scores = tl.dot(part, tl.load(item + columns[None, :] * D + more + dims[:, None]), scores)
    return scores


@kernel
def group_maxima(
    user,
    item,
    seen,
    maxima,
    n_users,
    n_tiles,
    tiles_each,
    seen_stride,
    D: tl.constexpr,
    CHUNK: tl.constexpr,
    USERS: tl.constexpr,
    ITEMS: tl.constexpr,
    G: tl.constexpr,
):
    """Find the best half-precision score of every user in every group of unseen items.

    ``user`` and ``item`` are ``(rows, D)`` float16. ``seen`` has the bits of seen items, in rows ``seen_stride`` words
    apart. The kernel fills ``maxima`` ``(rows, n_tiles * ITEMS / G)`` float32.
    """
    RUNS: tl.constexpr = ITEMS // (4 * G)
    WORDS: tl.constexpr = G // 8
    rows = (tl.program_id(0) * USERS + tl.arange(0, USERS)).to(tl.int64)
    seen_rows = seen + tl.minimum(rows, n_users - 1) * seen_stride
    place = tl.arange(0, RUNS)[:, None] * WORDS + tl.arange(0, WORDS)[None, :]
    bit = tl.arange(0, 4)[:, None, None] * 8 + tl.arange(0, 4)[None, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    first = tl.program_id(1) * tiles_each
    u = tl.load(user + rows[:, None] * D + tl.arange(0, CHUNK)[None, :])
    for tile in range(first, tl.minimum(first + tiles_each, n_tiles)):
        scores = _tile(user, item, rows, tile * ITEMS + tl.arange(0, ITEMS), u, D, CHUNK)
        words = tl.load(seen_rows[:, None, None] + tile * (ITEMS // 32) + place[None, :, :])
        scores = tl.reshape(scores, (USERS, RUNS, WORDS, 4, 4, 2))
        is_seen = (words[:, :, :, None, None, None] >> bit[None, None, None, :, :, :]) & 1
        scores = tl.where(is_seen != 0, float("-inf"), scores)
        best = tl.max(tl.max(tl.max(scores, 5), 3), 2)  # (USERS, RUNS, 4)
        best = tl.reshape(best, (USERS, ITEMS // G))
        group = tile * (ITEMS // G) + tl.arange(0, ITEMS // G)
        tl.store(maxima + rows[:, None] * (n_tiles * (ITEMS // G)) + group[None, :], best)


@kernel
def mark_hits(
    user,
    item,
    seen,
    hits,
    bars,
    n_users,
    n_tiles,
    tiles_each,
    seen_stride,
    D: tl.constexpr,
    CHUNK: tl.constexpr,
    USERS: tl.constexpr,
    ITEMS: tl.constexpr,
):
    """Set a bit for every unseen item whose half-precision score is not below the user's bar.

    The arguments are those of ``group_maxima`` and ``bars`` ``(rows,)``. The kernel fills ``hits``
    ``(rows, n_tiles * ITEMS / 32)`` int32.
    """
    WORDS: tl.constexpr = ITEMS // 32
    rows = (tl.program_id(0) * USERS + tl.arange(0, USERS)).to(tl.int64)
    seen_rows = seen + tl.minimum(rows, n_users - 1) * seen_stride
    bit = tl.arange(0, 4)[:, None, None] * 8 + tl.arange(0, 4)[None, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    mark = tl.full([4, 4, 2], 1, tl.int32) << bit
    bar = tl.load(bars + rows)
    first = tl.program_id(1) * tiles_each
    u = tl.load(user + rows[:, None] * D + tl.arange(0, CHUNK)[None, :])
    for tile in range(first, tl.minimum(first + tiles_each, n_tiles)):
        scores = _tile(user, item, rows, tile * ITEMS + tl.arange(0, ITEMS), u, D, CHUNK)
        scores = tl.reshape(scores, (USERS, WORDS, 4, 4, 2))
        marks = tl.where(scores >= bar[:, None, None, None, None], mark[None, None, :, :, :], 0)
        found = tl.sum(tl.sum(tl.sum(marks, 4), 2), 2)  # (USERS, WORDS)
        place = tile * WORDS + tl.arange(0, WORDS)
        words = tl.load(seen_rows[:, None] + place[None, :])
        tl.store(hits + rows[:, None] * (n_tiles * WORDS) + place[None, :], found & ~words)


@kernel
def _in_order(bits):
    """Turn float bits into integers of the same order, and back: all bits but the sign of negative numbers flip."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@kernel
def _low_kth(values, k, BITS: tl.constexpr):
    """Return the k-th largest of the values, truncated to its first bits; -inf if there are fewer."""
    ranks = _in_order(values.to(tl.int32, bitcast=True)).to(tl.uint32, bitcast=True) ^ 0x80000000
    found = tl.min(ranks, 0) * 0
    for place in tl.static_range(BITS):
        trial = found | (0x80000000 >> place)
        found = tl.where(tl.sum((ranks >= trial).to(tl.int32), 0) >= k, trial, found)
    value = _in_order((found ^ 0x80000000).to(tl.int32, bitcast=True)).to(tl.float32, bitcast=True)
    return tl.where(found <= MINUS_INFINITY_IN_ORDER, float("-inf"), value)


@kernel
def _key(score, column):
    """Return int64 keys that sort by score, then by lower item number: score bits above, item number below."""
    return (_in_order(score.to(tl.int32, bitcast=True)).to(tl.int64) << 32) | (LOW_HALF - column.to(tl.int64))


@kernel
def set_bars(maxima, error, unit, half_bars, bars, n_groups, k, BINS: tl.constexpr, BITS: tl.constexpr):
    """Fill bars that every item of a list reaches: ``half_bars`` for half-precision scores, ``bars`` for float32.

    Groups are divided into BINS bins. Each of the k best bins holds an item of at least the k-th bin's maximum. With an
    error of at most E, no list ends below that maximum minus E in float32. So the half-precision score of an item of a
    list is at least that maximum minus 2 E.
    """
    row = tl.program_id(0)
    bins = tl.arange(0, BINS)
    best = tl.full([BINS], float("-inf"), tl.float32)
    for start in range(0, n_groups, BINS):
        place = maxima + row.to(tl.int64) * n_groups + start + bins
        best = tl.maximum(best, tl.load(place, mask=start + bins < n_groups, other=float("-inf")))
    bar, wrong = _low_kth(best, k, BITS), tl.load(error + row)
    tl.store(half_bars + row, bar - 2 * wrong)
    tl.store(bars + row, (bar - wrong) * tl.load(unit + row))


@kernel
def _count_bits(words):
    """Count the set bits of uint32."""
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F
    return ((words * 0x01010101) >> 24).to(tl.int32)


@kernel
def best_of_hits(  # noqa: PLR0915 - a kernel cannot hand its state to another
    user,
    item,
    hits,
    bars,
    items,
    scores,
    waiting,
    held,
    n_users,
    n_words,
    d,
    k,
    D: tl.constexpr,
    CHUNK: tl.constexpr,
    WORDS: tl.constexpr,
    STEP: tl.constexpr,
    ROOM: tl.constexpr,
):
    """Fill lists ``(n_users, k)`` from the float32 scores of the marked items.

    ``user`` is ``(n_users, d)`` and ``item`` ``(rows, D)`` float32. ``waiting`` ``(programs, STEP + 32 * WORDS)`` and
    ``held`` ``(programs, ROOM)`` are work space.
    """
    program = tl.program_id(0)
    words, steps, places, dims = tl.arange(0, WORDS), tl.arange(0, STEP), tl.arange(0, ROOM), tl.arange(0, CHUNK)
    waiting += program * (STEP + 32 * WORDS)
    held += program * ROOM
    for at in range(program, n_users, tl.num_programs(0)):
        row = program * 0 + at
        row_user = user + row.to(tl.int64) * d
        bar = tl.load(bars + row)
        u = tl.load(row_user + dims, mask=dims < d, other=0.0)
        n_waiting, count = row * 0, row * 0
        worst = row.to(tl.int64) * 0 + NO_KEY
        for start in range(0, n_words, WORDS):
            place = hits + row.to(tl.int64) * n_words + start + words
            marks = tl.load(place, mask=start + words < n_words, other=0).to(tl.uint32, bitcast=True)
            n_marks = _count_bits(marks)
            before = n_waiting + tl.cumsum(n_marks, 0) - n_marks
            tl.debug_barrier()
            for turn in range(tl.max(n_marks, 0)):
                others = marks & (marks - 1)
                lowest = marks ^ others
                number = ((lowest.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127) + (start + words) * 32
                tl.store(waiting + before + turn, number, mask=marks != 0)
                marks = others
            n_waiting += tl.sum(n_marks, 0)
            tl.debug_barrier()
            if (n_waiting >= STEP) | (start + WORDS >= n_words):
                for first in range(0, n_waiting, STEP):
                    real = first + steps < n_waiting
                    column = tl.load(waiting + first + steps, mask=real, other=0)
                    v = tl.load(item + column[:, None] * D + dims[None, :], mask=real[:, None], other=0.0)
                    score = tl.sum(v * u[None, :], 1)
                    for more in tl.static_range(CHUNK, D, CHUNK):
                        v = tl.load(item + column[:, None] * D + more + dims[None, :], mask=real[:, None], other=0.0)
                        part = tl.load(row_user + more + dims, mask=more + dims < d, other=0.0)
                        score += tl.sum(v * part[None, :], 1)
                    score += 0.0  # turns -0.0 into 0.0
                    key = _key(score, column)
                    keeps = real & (score >= bar) & (key > worst)
                    tl.store(held + count + tl.cumsum(keeps.to(tl.int32), 0) - 1, key, mask=keeps)
                    count += tl.sum(keeps.to(tl.int32), 0)
                    if count > ROOM - STEP:  # drop all but the best k
                        tl.debug_barrier()
                        keys = tl.sort(tl.load(held + places, mask=places < count, other=NO_KEY), descending=True)
                        tl.debug_barrier()
                        tl.store(held + places, keys, mask=places < k)
                        worst = tl.max(tl.where(places == k - 1, keys, NO_KEY), 0)
                        count = tl.minimum(count, k)
                        tl.debug_barrier()
                n_waiting = n_waiting * 0
        tl.debug_barrier()
        keys = tl.sort(tl.load(held + places, mask=places < count, other=NO_KEY), descending=True)
        there = places < count
        values = _in_order((keys >> 32).to(tl.int32)).to(tl.float32, bitcast=True)
        out = row.to(tl.int64) * k + places
        tl.store(items + out, tl.where(there, LOW_HALF - (keys & LOW_HALF), -1), mask=places < k)
        tl.store(scores + out, tl.where(there, values, float("-inf")), mask=places < k)
