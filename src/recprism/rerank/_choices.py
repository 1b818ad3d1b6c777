"""Which code does the work, compiled loops on a processor or torch anywhere; and the step all greedy choices share."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

TIE = 1e-11  # values closer than this are equal, whatever order their parts were added in; the better rank then wins


def compiled_for(device: torch.device) -> ModuleType | None:
    """The compiled choices if they can serve the device, else None: the caller then uses torch."""
    if device.type != "cpu":
        return None
    from recprism.rerank import _compiled  # imports the re-rankers, which import this module

    return _compiled


class Choices:
    """Positions chosen so far for a block of users, one more with every ``choose``.

    real: (n, n_candidates) bool, what may be chosen at all
    positions: (n, k) int64, -1 where nothing is chosen (yet)
    """

    def __init__(self, real: Tensor, k: int) -> None:
        self.positions = torch.full((len(real), k), -1, dtype=torch.int64, device=real.device)
        self._barred = ~real
        self._made = 0

    def choose(self, values: Tensor) -> Tensor:
        """The best of ``values`` (n, n_candidates) not chosen yet, the first of equals; (n, 1) positions to gather by.

        A user with nothing left gets -1 in ``positions``, and position 0 to gather by.
        """
        values = values.masked_fill(self._barred, -torch.inf)
        best = values.amax(1, keepdim=True)
        first = (values >= best - TIE).to(torch.int8).argmax(1, keepdim=True)
        self.positions[:, self._made] = torch.where(torch.isneginf(best), -1, first)[:, 0]
        self._made += 1
        self._barred.scatter_(1, first, True)
        return first


def rows_at(table: Tensor, positions: Tensor) -> Tensor:
    """(n, 1, d): the row of ``table`` (n, m, d) at each of ``positions`` (n, 1)."""
    return table.gather(1, positions[:, :, None].expand(-1, -1, table.shape[2]))
