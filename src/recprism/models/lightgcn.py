"""LightGCN: vectors smoothed over the graph of interactions (He et al., 2020), trained with the BPR loss.

One propagation serves a whole batch and costs the same for any batch size, so batches are large. Smoothing is linear
and symmetric: the gradient goes through the same propagation, without autograd.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from recprism.common.checks import Check, Whole
from recprism.models._model import PairwiseModel, Smoothing
from recprism.models._sparse import Graph


@dataclass(frozen=True, kw_only=True)
class LightGCN(PairwiseModel):
    """LightGCN: user and item vectors are means over 0 to ``layers`` propagations of the trained vectors.

    The score is score(u, v) = user[u] . item[v]. The other settings are those of ``PairwiseModel``.

    Attributes:
        layers: Propagations over the graph.
    """

    layers: int = 3
    learning_rate: float = 0.02
    batch_size: int = 32_768
    start_scale: float = 0.2

    name: ClassVar[str] = "lightgcn"
    # Propagation itself weighs each direction by its singular value, so the start does not.
    spectral_power: ClassVar[float] = 0.0
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        # The paper does not give its settings. Of seven settings at twenty epochs each, those of its BPRMF came nearest
        # to its row: every cell within 7.7 %. See benchmarks/RESULTS.md.
        "paper": {
            "dim": 50,
            "layers": 3,
            "epochs": 44,
            "patience": None,
            "learning_rate": 0.005,
            "weight_decay": 1e-3,
            "batch_size": 10_240,
            "negatives": 3,
            "fixed_negatives": True,
            "loss": "sum",
            "start": "xavier",
        },
    }

    rules: ClassVar[Mapping[str, Check]] = {**PairwiseModel.rules, "layers": Whole(0)}

    def _smoothing(self, graph: Graph) -> Smoothing:
        return lambda parameters: graph.smooth(parameters, self.layers)
