"""Vectors of base models that were trained on another machine, in .npz files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.factors import Factors
from recprism.models.settings import training_data

ABOUT = "about"


def split_key(split: Split) -> str:
    """Name a split by method and seed, as in ``random.100``."""
    return f"{split.settings['method']}.{split.settings['seed']}"


def model_key(dataset: str, name: str, split: Split, seed: int) -> str:
    """Name a trained model."""
    return f"{dataset}.{name}.{split_key(split)}.{seed}"


def read_model(folder: Path, dataset: str, name: str, split: Split, seed: int) -> Factors | None:
    """Read one model from the files of ``benchmarks/contest_models.py``, anywhere below a folder.

    Args:
        folder: Where the files are.
        dataset: Name of the data set.
        name: Name of the model.
        split: The split that it was trained on.
        seed: Seed of the training.

    Returns:
        The vectors with the ids of the split, or None if no file has the model.

    Raises:
        InputError: The stored model was trained on other data.
    """
    key = model_key(dataset, name, split, seed)
    for path in sorted(folder.rglob("models-*.npz")):
        with np.load(path, allow_pickle=False) as stored:
            if f"{key}.user" not in stored.files:
                continue
            about = json.loads(str(stored[f"{key}.{ABOUT}"]))
            if about.pop("training data") != training_data(split):
                raise InputError(f"{path}: {key} was trained on other data; train it again on this split")
            user, item = (stored[f"{key}.{side}"].astype(np.float32) for side in ("user", "item"))
            return Factors.from_arrays(user, item, user_ids=split.user_ids, item_ids=split.item_ids, settings=about)
    return None
