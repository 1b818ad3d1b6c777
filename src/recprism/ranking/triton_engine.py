"""Top-k on a GPU without a matrix of scores: half precision finds the candidates, float32 decides.

Tensor cores compute all scores in float16 twice. The first pass keeps the maximum of every group of unseen items; these
maxima give a bar below the end of each list. The second pass marks every item that may lie above the bar, by a proven
bound on the error of half precision. Only marked items are scored in float32. The lists are those of float32 scores for
any vectors: a wide bound only means more marked items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recprism.data.sparse_rows import SparseRows
from recprism.ranking import _torch_engine as torch_engine
from recprism.ranking.seen import seen_pairs
from recprism.ranking.triton_kernels import (
    best_of_hits,
    group_maxima,
    halve_items,
    halve_users,
    mark_hits,
    pack_seen,
    set_bars,
)

USERS, ITEMS = 128, 128  # of a tile
DIMS = 64  # factors at a time
LONGEST = 512  # places of a list
ROWS = 32  # vectors that a program converts to half precision
STEP = 32  # marked items scored at a time
WORDS = 256  # of marks, read at a time
BITS = 18  # of the bar
BYTES_AT_A_TIME = 1 << 30
BYTES_KEPT = 1 << 30  # of packed seen items, for the next call
PROGRAMS_PER_PROCESSOR = 16


@dataclass(frozen=True)
class Plan:
    """How items are grouped.

    Attributes:
        group: Items in a group.
        bins: Number of bins of groups.
        room: Items that a user may hold.
    """

    group: int
    bins: int
    room: int


def plan_for(n_items: int, k: int) -> Plan | None:
    """Return a plan, or None if lists are too long or items too few for groups to help."""
    if 2 * k > n_items // 8 or k > LONGEST:
        return None
    group = next((size for size in (32, 16) if n_items // size >= 4 * k), 8)
    bins = min(power_of_two(whole_parts(n_items, group)), power_of_two(max(256, 4 * k)))
    return Plan(group, max(32, bins), power_of_two(max(k + k // 8, 32) + STEP))


class Halved(NamedTuple):
    """Items for both passes.

    Attributes:
        half: ``(rows, D)`` float16.
        wide: ``(rows, D)`` float32.
        largest: The largest magnitude.
        sizes: ``(2,)`` the largest length of a scaled item, and of its rounding error.
    """

    half: Tensor
    wide: Tensor
    largest: Tensor
    sizes: Tensor


def rank(user: Tensor, item: Tensor, k: int, exclude: SparseRows | None, block: int | None) -> tuple[Tensor, Tensor]:
    """Return items ``(n_users, k)`` int64 and scores ``(n_users, k)`` float32; -1 and -inf if no item is left."""
    n_users, n_items = len(user), len(item)
    plan = plan_for(n_items, k)
    if plan is None:
        return torch_engine.rank(user, item, k, exclude, block)
    items = torch.empty((n_users, k), dtype=torch.int64, device=user.device)
    scores = torch.empty((n_users, k), dtype=torch.float32, device=user.device)
    n_columns = whole_parts(n_items, ITEMS) * ITEMS
    halved = _halved(item, n_columns)
    bytes_per_user = n_columns * (4 / plan.group + 2 / 8)
    rows = min(block or max(USERS, int(BYTES_AT_A_TIME / bytes_per_user) // USERS * USERS), n_users)
    for start in range(0, n_users, rows):
        stop = min(start + rows, n_users)
        seen = _seen_bits(exclude, start, stop, n_items, n_columns, user.device)
        _rank_block(user[start:stop], halved, seen, plan, items[start:stop], scores[start:stop])
    return items, scores


def _seen_bits(
    exclude: SparseRows | None, start: int, stop: int, n_items: int, n_columns: int, device: torch.device
) -> Tensor:
    """``(stop - start, n_columns / 32)`` int32, one bit for each item; a single row if nothing is seen.

    Columns after the last item count as seen.
    """
    if exclude is None:
        return _no_bits(1, n_items, n_columns, device)
    pairs = seen_pairs(exclude, device)
    if pairs.bits is not None:
        return pairs.bits[start:stop]
    words = _no_bits(stop - start, n_items, n_columns, device)
    if len(pairs.items):
        pack_seen[(len(words),)](pairs.starts, pairs.items, words, start, words.shape[1], STEP=128, num_warps=1)
    if len(words) == exclude.n_rows and words.numel() * 4 <= BYTES_KEPT:
        pairs.bits = words
    return words


def _no_bits(rows: int, n_items: int, n_columns: int, device: torch.device) -> Tensor:
    words = torch.zeros((rows, n_columns // 32), dtype=torch.int32, device=device)
    words[:, whole_parts(n_items, 32) :] = -1
    if n_items % 32:
        words[:, n_items // 32] = -1 << (n_items % 32)
    return words


def _halved(item: Tensor, n_rows: int) -> Halved:
    n_items, dim = item.shape
    width = _width(dim)
    half = torch.empty((n_rows, width), dtype=torch.float16, device=item.device)
    wide = torch.empty((n_rows, width), dtype=torch.float32, device=item.device)
    largest, sizes = torch.linalg.vector_norm(item, torch.inf), torch.zeros(2, device=item.device)
    halve_items[(n_rows // ROWS,)](item, largest, half, wide, sizes, n_items, dim, D=width, ROWS=ROWS, num_warps=4)
    return Halved(half, wide, largest, sizes)


def _rank_block(user: Tensor, item: Halved, seen: Tensor, plan: Plan, items: Tensor, scores: Tensor) -> None:
    (n_users, dim), k, device = user.shape, items.shape[1], user.device
    n_tiles, width = len(item.half) // ITEMS, item.half.shape[1]
    n_rows, n_groups, n_words = (
        whole_parts(n_users, USERS) * USERS,
        n_tiles * ITEMS // plan.group,
        n_tiles * ITEMS // 32,
    )
    half = torch.empty((n_rows, width), dtype=torch.float16, device=device)
    error, unit, half_bars, bars = torch.empty((4, n_rows), device=device).unbind()
    halve_users[(n_rows // ROWS,)](
        *(user, item.largest, item.sizes, half, error, unit, n_users, dim), D=width, ROWS=ROWS, num_warps=4
    )
    blocks, programs = n_rows // USERS, _processors(device) * PROGRAMS_PER_PROCESSOR
    each = whole_parts(n_tiles, whole_parts(programs, blocks))
    grid = blocks, whole_parts(n_tiles, each)
    stride = seen.shape[1] if len(seen) > 1 else 0
    sizes: dict[str, Any] = {"D": width, "CHUNK": min(width, DIMS)}
    tile: dict[str, Any] = {**sizes, "USERS": USERS, "ITEMS": ITEMS, "num_warps": 4, "num_stages": 3}
    maxima = torch.empty((n_rows, n_groups), device=device)
    group_maxima[grid](half, item.half, seen, maxima, n_users, n_tiles, each, stride, **tile, G=plan.group)
    set_bars[(n_rows,)](maxima, error, unit, half_bars, bars, n_groups, k, BINS=plan.bins, BITS=BITS, num_warps=1)
    hits = torch.empty((n_rows, n_words), dtype=torch.int32, device=device)
    mark_hits[grid](half, item.half, seen, hits, half_bars, n_users, n_tiles, each, stride, **tile)
    programs = min(n_users, programs)
    words = min(WORDS, power_of_two(n_words))
    waiting = torch.empty((programs, STEP + 32 * words), dtype=torch.int32, device=device)
    held = torch.empty((programs, plan.room), dtype=torch.int64, device=device)
    best_of_hits[(programs,)](
        *(user, item.wide, hits, bars, items, scores, waiting, held, n_users, n_words, dim, k),
        **sizes,
        WORDS=words,
        STEP=STEP,
        ROOM=plan.room,
        num_warps=1,
    )


def whole_parts(whole: int, part: int) -> int:
    """Return how many parts cover the whole; triton's ``cdiv`` takes microseconds."""
    return -(-whole // part)


def power_of_two(number: int) -> int:
    """Return the smallest power of two not below ``number``."""
    return 1 << (number - 1).bit_length()


def _width(dim: int) -> int:
    """Return the number of columns of the padded vectors, a power of two."""
    return max(16, power_of_two(dim))


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
