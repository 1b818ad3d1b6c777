"""A learned CMB in a folder: delta.safetensors, cmb.json (settings and history) and the base factors.

The base factors may be in another folder, which several perturbations of them share. The perturbation records the
hashes of the other two files (see ``common.bound``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from recprism.cmb._learning import Learned
from recprism.cmb.history import Progress
from recprism.common.bound import (
    CONTENTS,
    contents_of,
    hash_of,
    note,
    noted_in_tensors,
    require_bound,
    require_contents,
)
from recprism.common.files import atomic_path, write_text
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.perturbation import Perturbation

Model = TypeVar("Model")


def write_cmb(
    folder: Path,
    settings: Mapping[str, Any],
    learned: Learned,
    base: Factors,
    made_from: Mapping[str, str] | None,
    base_folder: Path,
) -> None:
    """Write a learned CMB.

    Args:
        folder: Where to write.
        settings: In JSON values.
        learned: The result of the search.
        base: The base factors.
        made_from: Hashes of other files that the base factors belong with.
        base_folder: Where to write the base factors.
    """
    from safetensors.numpy import save_file

    sides = {"item": learned.delta.item, "user": learned.delta.user}
    arrays = {name: np.ascontiguousarray(side.cpu().numpy()) for name, side in sides.items() if side is not None}
    about = {
        "settings": settings,
        "history": Progress(learned.history).to_json(),
        "converged": learned.converged,
    }
    text = json.dumps(about)
    base.save(base_folder / "factors.safetensors", made_from=made_from)
    write_text(folder / "cmb.json", text)
    bound = {
        CONTENTS: contents_of(arrays),
        "cmb.json": hash_of(text.encode()),
        "factors.safetensors": hash_of(base_folder / "factors.safetensors"),
    }
    with atomic_path(folder / "delta.safetensors") as temporary:
        save_file(arrays, temporary, note(**bound))


def read_cmb(folder: Path, make: Callable[..., Model], base_folder: Path) -> tuple[Model, Learned, Factors]:
    """Read a learned CMB.

    Args:
        folder: Where to read.
        make: Makes the model from its settings.
        base_folder: Where the base factors are.

    Returns:
        The model, what was learned, and the base factors.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    delta = folder / "delta.safetensors"
    files = (folder / "cmb.json", base_folder / "factors.safetensors")
    hashes = {file.name: hash_of(file) for file in files}
    noted, again = noted_in_tensors(delta), "run `recprism search` again with --overwrite"
    require_bound(delta, noted, hashes, again)
    try:
        about = json.loads((folder / "cmb.json").read_text(encoding="utf-8"))
        arrays = load_file(delta)
        require_contents(delta, arrays, noted, again)
        sides = {name: torch.from_numpy(array) for name, array in arrays.items()}
        model = make(**about["settings"])
        history = Progress.from_json(about["history"]).steps
        learned = Learned(Perturbation(**sides), history, bool(about["converged"]))
    except FileNotFoundError as missing:
        raise InputError(
            f"{missing.filename or folder}: no such file; a saved CMB has cmb.json and delta.safetensors"
        ) from None
    except InputError:
        raise
    except (SafetensorError, ValueError, KeyError, TypeError) as broken:
        raise InputError(f"{folder}: not a CMB written by recprism ({broken})") from None
    return model, learned, Factors.load(base_folder / "factors.safetensors")
