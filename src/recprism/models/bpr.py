"""Matrix factorisation trained with the BPR loss (Rendle et al., 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from recprism.models._model import PairwiseModel, Smoothing
from recprism.models._sparse import Graph


@dataclass(frozen=True, kw_only=True)
class BPRMF(PairwiseModel):
    """Matrix factorisation with the BPR loss: score(u, v) = user[u] . item[v].

    The settings are those of ``PairwiseModel``.

    >>> from recprism.data import load_dataset
    >>> split = load_dataset("ml-latest-small").split(seed=0)
    >>> factors = BPRMF(dim=8, epochs=2).fit(split, device="cpu")
    >>> factors.user.shape, factors.settings["epochs_trained"]
    ((601, 8), 2)
    """

    learning_rate: float = 0.006
    weight_decay: float = 0.5
    negatives: int = 3
    start_scale: float = 0.15

    name: ClassVar[str] = "bprmf"
    spectral_power: ClassVar[float] = 1.0
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        # These settings reproduce the paper's row: no validation, and no negatives among held-out items.
        "paper": {
            "dim": 50,
            "epochs": 5,
            "patience": None,
            "learning_rate": 0.005,
            "weight_decay": 1e-3,
            "batch_size": 10_240,
            "negatives": 3,
            "fixed_negatives": True,
            "negatives_avoid": "all",
            "loss": "sum",
            "start": "xavier",
        },
    }

    def _smoothing(self, graph: Graph) -> Smoothing:  # noqa: ARG002 - vectors are the parameters
        return lambda parameters: parameters
