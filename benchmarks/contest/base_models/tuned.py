"""Base models with the settings that were chosen on the validation part of each data set."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from contest.base_models.ease import EASE
from contest.base_models.sasrec import SASRec
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.factors import Factors
from recprism.models.registry import MODELS

CLASSES: dict[str, Any] = {**MODELS, "ease": EASE, "sasrec": SASRec}


class BaseModel(Protocol):
    """Settings with a ``fit`` method."""

    def fit(
        self, split: Split, *, seed: int = 0, device: str | torch.device = "auto"
    ) -> Factors | ScoredCandidates: ...


def make_base_model(name: str, **settings: Any) -> BaseModel:
    """Create a base model of the contest.

    Args:
        name: bprmf, lightgcn, als, ease or sasrec.
        **settings: Settings that differ from the defaults.

    Raises:
        InputError: The model or a setting is unknown.
    """
    if name not in CLASSES:
        raise InputError(f"base model {name!r} is not known; choose one of {', '.join(CLASSES)}")
    model: BaseModel = CLASSES[name].preset(**settings)
    return model


def train(
    name: str, split: Split, *, dataset: str, seed: int, device: str | torch.device = "auto"
) -> Factors | ScoredCandidates:
    """Train a base model with the settings tuned for this data set and method of split.

    A data set or split that was not tuned gets the defaults of the model.

    Args:
        name: bprmf, lightgcn, als, ease or sasrec.
        split: The parts; the model reads ``train``, and ``validation`` to decide when to stop.
        dataset: Name of the data set.
        seed: The same seed and device give the same bits; ease has no random part.
        device: "auto" (CUDA if available), "cpu" or "cuda"; als is fitted on the CPU only.

    Returns:
        Vectors; for ease, candidates with scores.

    Raises:
        InputError: The model is unknown, or it cannot be trained on this split.
    """
    settings = tuned_settings(name, dataset, str(split.settings.get("method")))
    return make_base_model(name, **settings).fit(split, seed=seed, device=device)


def tuned_settings(name: str, dataset: str, method: str) -> dict[str, Any]:
    """Return the chosen settings of a model, or none for a data set or split that was not tuned."""
    settings: dict[str, Any] = choices().get(f"{dataset}.{name}.{method}", {}).get("settings", {})
    return settings


@cache
def choices() -> dict[str, Any]:
    """Return ``dataset.model.split`` -> the chosen settings, their validation NDCG@10, and those of the whole grid."""
    text = Path(__file__).with_name("tuned.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
