"""The values a player can choose from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from recprism.errors import InputError


@dataclass(frozen=True)
class Arms:
    """``count`` values spread evenly over [-max_step, max_step]; an odd count has 0 among them.

    >>> Arms(0.3, 3).values.tolist() == [-0.30000001192092896, 0.0, 0.30000001192092896]
    True
    """

    max_step: float = 0.3
    count: int = 61

    def __post_init__(self) -> None:
        if not 0 < self.max_step < float("inf"):
            raise InputError(f"arms reach from -A to A and A is {self.max_step}; it must be above 0")
        if not 2 <= self.count <= 32_767:
            raise InputError(f"{self.count} arms per player; from 2 to 32,767 are possible")

    @cached_property
    def values(self) -> Tensor:
        """(count,) float32; the one nearest to 0 is exactly 0 where the count is odd."""
        values = torch.linspace(-self.max_step, self.max_step, self.count, dtype=torch.float64)
        if self.count % 2:
            values[self.count // 2] = 0.0
        return values.to(torch.float32)

    def on(self, device: torch.device | str) -> Tensor:
        """``values`` on a device, carried there once: a search must not wait for them in every iteration."""
        device = torch.device(device)
        if device not in self._carried:
            self._carried[device] = self.values.to(device)
        return self._carried[device]

    @cached_property
    def _carried(self) -> dict[torch.device, Tensor]:
        return {}

    @property
    def nearest_to_zero(self) -> int:
        return int(self.values.abs().argmin())
