"""Controls: random perturbations of the same size. An effect that they reach too was not learned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recprism.cmb.players import _draws as chance
from recprism.common.checks import require_seed
from recprism.errors import InputError
from recprism.models import Factors, Perturbation


def permuted(delta: Tensor, seed: int, within: str = "all") -> Tensor:
    """Shuffle the values of a perturbation.

    Args:
        delta: (n, d) the perturbation.
        seed: Of the random order.
        within: Shuffle among "all" players, within each "item" (row) or within each "factor" (column).

    Returns:
        (n, d) the same values in another order.
    """
    if within not in SHUFFLES:
        raise InputError(f"values are shuffled within {', '.join(SHUFFLES)}, not {within!r}")
    order = chance.draws(chance.stream(require_seed(seed), 0), delta.numel(), delta.device).view(delta.shape)
    return SHUFFLES[within](delta, order)


def noise(shape: tuple[int, int], max_step: float, seed: int, share: float = 0.1) -> Tensor:
    """Uniform noise in some of the entries, 0 in the others.

    Args:
        shape: (n, d) of the result.
        max_step: Noise is uniform in [-max_step, max_step].
        seed: Of the random draws.
        share: The expected share of entries with noise.
    """
    n = shape[0] * shape[1]
    chosen = chance.share(chance.draws(chance.stream(require_seed(seed), 0), n)) < chance.threshold(share)
    uniform = chance.share(chance.draws(chance.stream(seed, 1), n)).to(torch.float64) / 2**31 - 1
    return torch.where(chosen, uniform * max_step, 0.0).to(torch.float32).view(shape)


def control_perturbations(base: Factors, change: Perturbation, max_step: float, seed: int) -> dict[str, Perturbation]:
    """Return changes of the same sides that were not learned.

    Args:
        base: The model.
        change: What was learned.
        max_step: How far noise reaches, in units of the largest factor: as far as the players' arms.
        seed: Of the draws.

    Returns:
        "permuted": the learned values shuffled among the players; "noise": a tenth of the entries at random.
    """
    moved = {name: side for name, side in (("item", change.item), ("user", change.user)) if side is not None}
    units = {name: float(abs(getattr(base, name)).max()) for name in moved}
    shapes = {name: (side.shape[0], side.shape[1]) for name, side in moved.items()}
    return {
        "permuted": Perturbation(**{name: permuted(side, seed) for name, side in moved.items()}),
        "noise": Perturbation(**{name: noise(shapes[name], max_step * units[name], seed) for name in moved}),
    }


SHUFFLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "all": lambda delta, order: delta.flatten()[order.flatten().argsort()].view_as(delta),
    "item": lambda delta, order: delta.gather(1, order.argsort(1)),
    "factor": lambda delta, order: delta.gather(0, order.argsort(0)),
}
