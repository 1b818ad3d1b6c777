"""The choice between compiled kernels (CPU) and torch (GPU), and the step that all greedy re-rankers share."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from recprism.rerank._kernels.prices import TIE

COMPILED_FOR = ("cpu",)  # types of devices


def compiled_for(device: torch.device) -> ModuleType | None:
    """Return the compiled re-rankers for the CPU; None for a GPU, where the caller uses torch."""
    if device.type not in COMPILED_FOR:
        return None
    from recprism.rerank import _compiled  # imports the re-rankers, which import this module

    return _compiled


class Choices:
    """Positions chosen so far for a block of users; each ``choose`` adds one.

    Args:
        real: Whether a place holds a candidate, (n, n_candidates) bool.
        k: Length of the lists.

    Attributes:
        positions: (n, k) int64, -1 where nothing is chosen.
    """

    def __init__(self, real: Tensor, k: int) -> None:
        self.positions = torch.full((len(real), k), -1, dtype=torch.int64, device=real.device)
        self._barred = ~real
        self._made = 0

    def choose(self, values: Tensor) -> Tensor:
        """Choose the best candidate not chosen yet; of equal ones the first.

        Args:
            values: (n, n_candidates).

        Returns:
            Positions to gather by, (n, 1). A user without candidates left gets 0 here, and -1 in ``positions``.
        """
        values = values.masked_fill(self._barred, -torch.inf)
        best = values.amax(1, keepdim=True)
        first = (values >= best - TIE).to(torch.int8).argmax(1, keepdim=True)
        self.positions[:, self._made] = torch.where(torch.isneginf(best), -1, first)[:, 0]
        self._made += 1
        self._barred.scatter_(1, first, True)
        return first


def rows_at(table: Tensor, positions: Tensor) -> Tensor:
    """Return the rows of ``table``, (n, m, d), at ``positions``, (n, 1), as (n, 1, d)."""
    return table.gather(1, positions[:, :, None].expand(-1, -1, table.shape[2]))
