"""Arrays of a recommender in a .safetensors file, with ids and settings in a .json file of the same name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.bound import hash_of, load_arrays, noted_in_tensors, require_bound, save_arrays
from recprism.common.files import write_text

IDS_WRITTEN = 1_000_000


def write_with_ids(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
    settings: Mapping[str, Any],
    made_from: Mapping[str, str] | None = None,
) -> None:
    """Write both files.

    Args:
        path: The file of the arrays.
        tensors: Name -> array.
        user_ids: Ids of the users.
        item_ids: Ids of the items.
        settings: How the arrays were made.
        made_from: Hashes of other files that the arrays belong to.
    """
    about = {"user_ids": _written(user_ids), "item_ids": _written(item_ids), "settings": dict(settings)}
    id_file, text = path.with_suffix(".json"), json.dumps(about, ensure_ascii=False)
    write_text(id_file, text)
    save_arrays(path, tensors, **{id_file.name: hash_of(text.encode()), **(made_from or {})})


def read_with_ids(
    path: Path, advice: str, mapped: Mapping[str, NDArray[Any]] | None = None
) -> tuple[Mapping[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays, and what the .json file says.

    Args:
        path: The file of the arrays.
        advice: What to do about files that do not belong together.
        mapped: The arrays, if they are read already; their contents are then not compared with the record.
    """
    ids = path.with_suffix(".json")
    if mapped is None:
        mapped = load_arrays(path, advice, ids)
    else:
        require_bound(path, noted_in_tensors(path), {ids.name: hash_of(ids)}, advice)
    return mapped, json.loads(ids.read_text(encoding="utf-8"))


def tensor_names(path: Path) -> set[str]:
    """Return the names of the arrays in a safetensors file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return set(json.loads(file.read(size))) if size <= path.stat().st_size else set()
    except (OSError, ValueError, TypeError, RecursionError):
        return set()


def _written(ids: NDArray[Any]) -> list[Any] | None:
    """Return the ids for JSON; None for many ids that are 0, 1, 2, ..., which need not be written."""
    counted = len(ids) > IDS_WRITTEN and ids.dtype.kind == "i" and bool((ids == np.arange(len(ids))).all())
    return None if counted else ids.tolist()
