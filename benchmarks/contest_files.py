"""Splits and trained vectors as .npz files, so that models can be trained on a machine without the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contest.base_models.exchange import ABOUT, split_key
from recprism.common.files import atomic_path
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.factors import Factors
from recprism.models.settings import training_data

LARGEST_FILE = 15 * 2**20


def write_splits(path: Path, splits: list[Split], categories: Categories | None = None) -> None:
    """Write splits of one data set to a compressed file: its interactions once, and of each split where they went.

    Args:
        path: Name of the file.
        splits: Splits of the same interactions, with different methods or seeds.
        categories: The categories of the items.
    """
    first = splits[0]
    whole = first.seen_before_test.union(first.test)
    arrays: dict[str, NDArray[Any]] = {
        "indptr": whole.indptr,
        "indices": whole.indices,
        "n_items": np.array(whole.n_cols),
    }
    for split in splits:
        key = split_key(split)
        parts = np.isin(whole.keys, split.validation.keys) + 2 * np.isin(whole.keys, split.test.keys)
        arrays[f"{key}.parts"] = parts.astype(np.int8)
        if split.train_order is not None:
            arrays[f"{key}.order"] = split.train_order
    if categories is not None:
        arrays["category_names"] = np.array(categories.names)
        arrays["category_indptr"], arrays["category_indices"] = categories.items.indptr, categories.items.indices
    _write(path, arrays)


def read_categories(path: Path) -> Categories:
    """Read the categories of a file of :func:`write_splits`."""
    with np.load(path, allow_pickle=False) as stored:
        names = tuple(stored["category_names"].tolist())
        return Categories(names, SparseRows(stored["category_indptr"], stored["category_indices"], len(names)))


def read_splits(path: Path) -> dict[str, Split]:
    """Read the file of :func:`write_splits`; users and items are numbered from 0 in the order of the data set."""
    with np.load(path, allow_pickle=False) as stored:
        whole = SparseRows(stored["indptr"], stored["indices"], int(stored["n_items"]))
        keys = [name.removesuffix(".parts") for name in stored.files if name.endswith(".parts")]
        return {key: _split(whole, key, stored[f"{key}.parts"], stored.get(f"{key}.order")) for key in keys}


def _split(whole: SparseRows, key: str, parts: NDArray[np.int8], order: NDArray[np.int32] | None) -> Split:
    chosen = (parts == part for part in range(3))
    train, validation, test = (
        SparseRows.from_pairs(whole.row_of_entry[mask], whole.indices[mask], whole.shape) for mask in chosen
    )
    method, _, seed = key.rpartition(".")
    settings = {"method": method, "seed": int(seed)}
    return Split(train, validation, test, np.arange(whole.n_rows), np.arange(whole.n_cols), settings, order)


def write_models(folder: Path, models: Mapping[str, tuple[Factors, Split]]) -> list[Path]:
    """Write vectors as float16 into files models-0.npz, models-1.npz, ... of at most 15 MiB.

    Args:
        folder: Where the files go.
        models: Key of :func:`model_key` -> the vectors, and the split that they were trained on.

    Returns:
        The files.
    """
    groups: list[dict[str, NDArray[Any]]] = [{}]
    size = 0
    for key, (factors, split) in models.items():
        if factors.item_bias is not None:
            raise InputError(f"{key} has an item bias, which these files do not hold; store it another way")
        about = {**factors.settings, "training data": training_data(split)}
        entry: dict[str, NDArray[Any]] = {
            f"{key}.user": factors.user.astype(np.float16),
            f"{key}.item": factors.item.astype(np.float16),
            f"{key}.{ABOUT}": np.array(json.dumps(about)),
        }
        added = sum(array.nbytes for array in entry.values())
        if groups[-1] and size + added > LARGEST_FILE:
            groups.append({})
            size = 0
        groups[-1].update(entry)
        size += added
    paths = [folder / f"models-{number}.npz" for number in range(len(groups))]
    for path, arrays in zip(paths, groups, strict=True):
        _write(path, arrays)
    return paths


def _write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
