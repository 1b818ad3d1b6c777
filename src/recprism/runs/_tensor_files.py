"""Arrays and facts about them in one safetensors file: checkpoints, paths, live vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.bound import CONTENTS, NOTE, contents_of
from recprism.common.files import atomic_path


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays and facts into one file, so that the two always belong together."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(arrays, temporary, metadata={NOTE: json.dumps({**facts, CONTENTS: contents_of(arrays)})})


def read_tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read arrays and facts.

    Raises:
        ValueError: If the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})[NOTE])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if facts.pop(CONTENTS, None) != contents_of(tensors):
            raise ValueError("it does not hold the numbers that were written")
        return tensors, facts
    except (SafetensorError, KeyError, json.JSONDecodeError) as broken:
        raise ValueError(str(broken)) from None
