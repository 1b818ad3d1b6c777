"""Seen items on the device that ranks, moved there once for all calls with the same matrix."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.sparse_rows import SparseRows


@dataclass(eq=False)
class SeenPairs:
    """A SparseRows on a device.

    Attributes:
        starts: ``(n_users + 1,)`` int64.
        items: ``(n_entries,)`` int32, rising inside each row.
        host_starts: ``starts`` on the processor.
        bits: One bit for each user and item, if an engine has packed them and they are small enough to keep.
    """

    starts: Tensor
    items: Tensor
    host_starts: NDArray[np.int64]
    bits: Tensor | None = None

    def mask(self, scores: Tensor, start: int, stop: int) -> None:
        """Set the scores of seen items of users start .. stop - 1 to -inf; scores: ``(stop - start, n_items)``."""
        first, last = int(self.host_starts[start]), int(self.host_starts[stop])
        counts = torch.diff(self.starts[start : stop + 1])
        rows = torch.repeat_interleave(counts, output_size=last - first)
        scores[rows, self.items[first:last].long()] = -torch.inf


_MOVED: WeakKeyDictionary[SparseRows, dict[torch.device, SeenPairs]] = WeakKeyDictionary()


def seen_pairs(exclude: SparseRows, device: torch.device) -> SeenPairs:
    """Return the pairs on the device; a matrix is moved once."""
    moved = _MOVED.setdefault(exclude, {})
    if device not in moved:
        starts, items = (torch.from_numpy(np.array(part)) for part in (exclude.indptr, exclude.indices))
        moved[device] = SeenPairs(starts.to(device), items.to(device), exclude.indptr)
    return moved[device]
