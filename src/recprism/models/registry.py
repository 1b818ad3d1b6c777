"""Models by name. To add a model, add a line to ``MODELS``."""

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
    """A model: settings with a ``fit`` method."""

    def fit(
        self,
        split: Split,
        *,
        seed: int | np.random.Generator | None = 0,
        device: str | torch.device = "auto",
        progress: Progress | None = None,
        checkpoint: CheckpointSink | None = None,
        resume: Checkpoint | None = None,
    ) -> Factors:
        """Train on ``split.train``."""

    def require_fit(self, split: Split, *, device: str | torch.device = "auto") -> None:
        """Raise the errors of ``fit`` that need no training: packages, memory, device, parts of the split."""


class ModelClass(Protocol):
    """A class of models, which creates a model from a preset and changes."""

    def preset(self, preset: str = "default", **changes: Any) -> Model: ...


MODELS: dict[str, ModelClass] = {
    "bprmf": BPRMF,
    "lightgcn": LightGCN,
    "als": ImplicitALS,
}


def make_model(name: str, preset: str = "default", **settings: Any) -> Model:
    """Create a model by name.

    Args:
        name: A key of ``MODELS``.
        preset: Name of a preset of the model.
        **settings: Settings that differ from the preset.

    Returns:
        The model, not yet fitted.

    Raises:
        InputError: The model, the preset or a setting is unknown.

    >>> make_model("bprmf", dim=16).dim
    16
    """
    if name not in MODELS:
        raise InputError(f"model {name!r} is not known; choose one of {', '.join(MODELS)}")
    return MODELS[name].preset(preset, **settings)
