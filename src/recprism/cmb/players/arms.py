"""The values that a player chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from recprism.common.checks import POSITIVE, Check, Checked, Whole


@dataclass(frozen=True)
class Arms(Checked):
    """``count`` values spread evenly over [-max_step, max_step]; an odd count has 0 among them.

    >>> Arms(0.3, 3).values.tolist() == [-0.30000001192092896, 0.0, 0.30000001192092896]
    True

    Attributes:
        max_step: The largest value.
        count: Number of values.
    """

    max_step: float = 0.3
    count: int = 61

    rules: ClassVar[Mapping[str, Check]] = {"max_step": POSITIVE, "count": Whole(2, 32_767)}

    @cached_property
    def values(self) -> Tensor:
        """(count,) float32; with an odd count the middle one is exactly 0."""
        values = torch.linspace(-self.max_step, self.max_step, self.count, dtype=torch.float64)
        if self.count % 2:
            values[self.count // 2] = 0.0
        return values.to(torch.float32)

    def on(self, device: torch.device | str) -> Tensor:
        """``values`` on a device, copied there once: a search must not wait for them in every iteration."""
        device = torch.device(device)
        if device not in self._copies:
            self._copies[device] = self.values.to(device)
        return self._copies[device]

    @cached_property
    def _copies(self) -> dict[torch.device, Tensor]:
        return {}

    @property
    def nearest_to_zero(self) -> int:
        """The number of the arm nearest to 0."""
        return int(self.values.abs().argmin())
