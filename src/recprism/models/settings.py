"""Presets, rules, seeds and devices of model settings."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import torch

from recprism.common.checks import (
    AMOUNT,
    COUNT,
    LARGEST_SEED,
    POSITIVE,
    Check,
    Checked,
    Whole,
    random_generator,
    require_seed,
)
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.training import Checkpoint

TRAINING_RULES: Mapping[str, Check] = {
    "epochs": COUNT,
    "patience": Whole(1, none="to train all epochs"),
    "learning_rate": POSITIVE,
    "weight_decay": AMOUNT,
    "batch_size": COUNT,
    "negatives": COUNT,
}
"""What the settings of every training may be."""


@dataclass(frozen=True, kw_only=True)
class NamedSettings(Checked):
    """Settings with a name and presets."""

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]

    @classmethod
    def preset(cls, preset: str = "default", **changes: Any) -> Self:
        """Create settings from a preset.

        Args:
            preset: A key of ``presets``.
            **changes: Settings that differ from the preset.

        Raises:
            InputError: The preset or a setting is unknown.
        """
        if preset not in cls.presets:
            raise InputError(f"{cls.name} has no preset {preset!r}; choose one of {', '.join(cls.presets)}")
        known = [field.name for field in fields(cls)]
        for name in changes:
            if name not in known:
                raise InputError(f"{cls.name} has no setting {name!r}; it has {', '.join(known)}")
        return cls(**{**cls.presets[preset], **changes})


def seed_number(seed: int | np.random.Generator | None, resume: Checkpoint | None) -> int:
    """Return the seed as a number; with None, a resumed training uses the seed of the checkpoint."""
    if seed is not None and not isinstance(seed, np.random.Generator):
        return require_seed(seed)
    if resume is not None and "seed" in resume[1].get("identity", {}):
        return int(resume[1]["identity"]["seed"])
    return int(random_generator(seed).integers(LARGEST_SEED, endpoint=True))


def choose_device(device: str | torch.device) -> torch.device:
    """Return the device; "auto" is CUDA if available, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"device {device!r} is not known; use auto, cpu or cuda") from None
    if chosen.type not in ("cpu", "cuda"):
        raise InputError(f"training runs on cpu or cuda, not on {chosen.type}; use device 'auto'")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise InputError(f"there is no device {str(device)!r} ({torch.cuda.device_count()} CUDA devices); use 'auto'")
    return chosen


def training_data(split: Split) -> str:
    """Return a short text that changes with the training part."""
    train = split.train
    checksum = zlib.crc32(train.indices.tobytes(), zlib.crc32(train.indptr.tobytes()))
    return f"{train.n_rows} users, {train.n_cols} items, {len(train)} interactions, checksum {checksum:08x}"
