"""The controls that stand beside every perturbation."""

from __future__ import annotations

from recprism.cmb import CMB, noise, permuted
from recprism.models.perturbation import Perturbation


def control_perturbations(model: CMB, seed: int) -> dict[str, Perturbation]:
    """The learned values shuffled among the players, and noise in a tenth of the entries, on the moved sides."""
    sides = {"item": model.delta_.item, "user": model.delta_.user}
    moved = {name: side for name, side in sides.items() if side is not None}
    # Noise reaches as far as the arms did: max_step times the largest factor.
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
