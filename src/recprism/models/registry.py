"""Models by name: a new model is one more line."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.adapters.als import ImplicitALS
from recprism.models.bpr import BPRMF
from recprism.models.factors import Factors
from recprism.models.lightgcn import LightGCN
from recprism.models.training import Checkpoint, CheckpointSink, Progress


class Model(Protocol):
    """Settings that can be fitted to a split."""

    def fit(
        self,
        split: Split,
        *,
        seed: int | np.random.Generator | None = 0,
        device: str | torch.device = "auto",
        progress: Progress | None = None,
        checkpoint: CheckpointSink | None = None,
        resume: Checkpoint | None = None,
    ) -> Factors: ...


class ModelClass(Protocol):
    """A class of models: it makes settings from a preset and changes."""

    def preset(self, preset: str = "default", **changes: Any) -> Model: ...


MODELS: dict[str, ModelClass] = {
    "bprmf": BPRMF,
    "lightgcn": LightGCN,
    "als": ImplicitALS,
}


def make_model(name: str, preset: str = "default", **settings: Any) -> Model:
    """A model from its name, the name of a preset, and what differs from that.

    >>> make_model("bprmf", dim=16).dim
    16
    """
    if name not in MODELS:
        raise InputError(f"model {name!r} is not known; choose one of {', '.join(MODELS)}")
    return MODELS[name].preset(preset, **settings)
