"""Controls: random perturbations of the same size. An effect that they reach too was not learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from recprism.cmb.players import _draws as chance
from recprism.errors import InputError
from recprism.models.perturbation import Perturbation

if TYPE_CHECKING:
    from recprism.cmb.cmb import CMB


def control_perturbations(model: CMB, seed: int) -> dict[str, Perturbation]:
    """The controls of a learned perturbation, on the sides that it moves.

    Args:
        model: A fitted CMB.
        seed: Of the random draws.

    Returns:
        "permuted": the learned values shuffled among the players. "noise": uniform noise in a tenth of the entries.
    """
    sides = {"item": model.delta_.item, "user": model.delta_.user}
    moved = {name: side for name, side in sides.items() if side is not None}
    # Noise is as large as the arms: max_step times the largest factor.
    units = {name: float(abs(getattr(model.base_, name)).max()) for name in moved}
    return {
        "permuted": Perturbation(**{name: permuted(side, seed) for name, side in moved.items()}),
        "noise": Perturbation(
            **{
                name: noise((side.shape[0], side.shape[1]), model.max_step * units[name], seed)
                for name, side in moved.items()
            }
        ),
    }


def permuted(delta: Tensor, seed: int, within: str = "all") -> Tensor:
    """Shuffle the values of a perturbation.

    Args:
        delta: (n, d) the perturbation.
        seed: Of the random order.
        within: Shuffle among "all" players, within each "item" (row) or within each "factor" (column).

    Returns:
        (n, d) the same values in another order.

    Stability: provisional.
    """
    if within not in SHUFFLES:
        raise InputError(f"values are shuffled within {', '.join(SHUFFLES)}, not {within!r}")
    order = chance.draws(chance.stream(seed, 0), delta.numel(), delta.device).view(delta.shape)
    return SHUFFLES[within](delta, order)


def noise(shape: tuple[int, int], max_step: float, seed: int, share: float = 0.1) -> Tensor:
    """Uniform noise in some of the entries, 0 in the others.

    Args:
        shape: (n, d) of the result.
        max_step: Noise is uniform in [-max_step, max_step].
        seed: Of the random draws.
        share: The expected share of entries with noise.

    Stability: provisional.
    """
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
