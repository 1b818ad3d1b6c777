"""What users have seen, on the device that ranks: moved there once for all calls with the same matrix."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.incidence import Incidence


@dataclass(eq=False)
class SeenPairs:
    """An Incidence on a device.

    starts: (n_users + 1,) int64; items: (n_entries,) int32, rising inside each row
    bits: a bit for each user and item, where an engine has packed them so and they are small enough to be kept
    """

    starts: Tensor
    items: Tensor
    host_starts: NDArray[np.int64]
    bits: Tensor | None = None

    def mask(self, scores: Tensor, start: int, stop: int) -> None:
        """Put -inf where users start .. stop must not be given an item; scores: (stop - start, n_items)."""
        first, last = int(self.host_starts[start]), int(self.host_starts[stop])
        counts = torch.diff(self.starts[start : stop + 1])
        rows = torch.repeat_interleave(counts, output_size=last - first)
        scores[rows, self.items[first:last].long()] = -torch.inf


_MOVED: WeakKeyDictionary[Incidence, dict[torch.device, SeenPairs]] = WeakKeyDictionary()


def seen_pairs(exclude: Incidence, device: torch.device) -> SeenPairs:
    """The pairs on the device; a matrix that was there before is not moved again."""
    moved = _MOVED.setdefault(exclude, {})
    if device not in moved:
        starts, items = (torch.from_numpy(np.array(part)) for part in (exclude.indptr, exclude.indices))
        moved[device] = SeenPairs(starts.to(device), items.to(device), exclude.indptr)
    return moved[device]
