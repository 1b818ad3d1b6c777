"""Adam (Kingma and Ba, 2015) on one tensor. torch's own takes a second to import, longer than some trainings here."""

from __future__ import annotations

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam with its state: two moments and the number of steps.

    Args:
        parameters: Changed in place.
        learning_rate: Step size.
        weight_decay: L2 penalty, added to the gradient as in ``torch.optim.Adam``.
    """

    def __init__(self, parameters: Tensor, learning_rate: float, weight_decay: float = 0.0) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.first_moment = torch.zeros_like(parameters)
        self.second_moment = torch.zeros_like(parameters)
        self.steps = 0

    def step(self, gradient: Tensor) -> None:
        """Take one step; ``gradient`` is overwritten."""
        self.steps += 1
        if self.weight_decay:
            gradient.add_(self.parameters, alpha=self.weight_decay)
        self.first_moment.lerp_(gradient, 1 - BETA1)
        self.second_moment.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        size = self.second_moment.div(1 - BETA2**self.steps).sqrt_().add_(EPSILON)
        rate = self.learning_rate / (1 - BETA1**self.steps)
        self.parameters.addcdiv_(self.first_moment, size, value=-rate)
