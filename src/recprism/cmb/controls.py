"""Controls: perturbations of the same size that know nothing. What they achieve too, was not learned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recprism.cmb.players import _draws as chance
from recprism.errors import InputError


def permuted(delta: Tensor, seed: int, within: str = "all") -> Tensor:
    """delta (n, d) with its values shuffled among all players, within each item (row) or each factor (column)."""
    if within not in SHUFFLES:
        raise InputError(f"values are shuffled within {', '.join(SHUFFLES)}, not {within!r}")
    order = chance.draws(chance.stream(seed, 0), delta.numel(), delta.device).view(delta.shape)
    return SHUFFLES[within](delta, order)


def noise(shape: tuple[int, int], max_step: float, seed: int, share: float = 0.1) -> Tensor:
    """``share`` of the entries uniform in [-max_step, max_step], the others 0; shape: (n, d)."""
    n = shape[0] * shape[1]
    chosen = chance.share(chance.draws(chance.stream(seed, 0), n)) < chance.threshold(share)
    uniform = chance.share(chance.draws(chance.stream(seed, 1), n)).to(torch.float64) / 2**31 - 1
    return torch.where(chosen, uniform * max_step, 0.0).to(torch.float32).view(shape)


def _all(delta: Tensor, order: Tensor) -> Tensor:
    return delta.flatten()[order.flatten().argsort()].view_as(delta)


def _in_rows(delta: Tensor, order: Tensor) -> Tensor:
    return delta.gather(1, order.argsort(1))


def _in_columns(delta: Tensor, order: Tensor) -> Tensor:
    return delta.gather(0, order.argsort(0))


SHUFFLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"all": _all, "item": _in_rows, "factor": _in_columns}
