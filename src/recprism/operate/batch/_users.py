"""User vectors in a file, read some rows at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import safe_open

from recprism.common.files import readable
from recprism.common.ids import as_id_array, canonical_ids
from recprism.errors import InputError
from recprism.models.factors import Factors, mapped_tensors

ENDINGS = (".npy", ".parquet", ".safetensors")
ADVICE = "user vectors are a .npy file, a .parquet file with user_id and vector, or a .safetensors file of a run"
Read = Callable[[int, int], NDArray[Any]]


class UserVectors:
    """The vectors of a file; rows are read when they are asked for.

    Args:
        path: The file, by its ending: a .npy array, a .parquet table with the columns user_id and vector, or a
            .safetensors file of factors or of an export.

    Attributes:
        ids: Ids of the users, (n_users,); 0, 1, 2, ... for a .npy file.

    Raises:
        InputError: The file is missing, damaged, or of another kind.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix not in ENDINGS:
            raise InputError(f"{path}: {ADVICE}")
        self.path = path
        with readable(path, "not user vectors", ADVICE):
            self.ids, self._read = _OPENED[path.suffix](path)
        if not len(self.ids):
            raise InputError(f"{path}: holds no users; {ADVICE}")

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the vectors of users start .. stop - 1, (stop - start, d).

        Raises:
            InputError: A vector holds NaN or infinity, or the vectors have different lengths.
        """
        with readable(self.path, "not user vectors", ADVICE):
            found = np.array(self._read(start, stop), np.float32, order="C")  # a copy: mapped rows are read-only
        if found.ndim != 2:
            raise InputError(
                f"{self.path}: the vectors have shape {found.shape[1:]}; one row of numbers each is needed"
            )
        bad = np.flatnonzero(~np.isfinite(found).all(1))
        if len(bad):
            raise InputError(f"{self.path}: the vector of user {self.ids[start + bad[0]]} holds NaN or infinity")
        return found


def _npy(path: Path) -> tuple[NDArray[Any], Read]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 2 or array.dtype.kind != "f":
        raise InputError(f"{path}: holds {array.dtype} of shape {array.shape}; (n_users, d) real numbers are needed")
    return np.arange(len(array)), lambda start, stop: array[start:stop]


def _parquet(path: Path) -> tuple[NDArray[Any], Read]:
    table = pl.scan_parquet(path)
    missing = {"user_id", "vector"} - set(table.collect_schema().names())
    if missing:
        raise InputError(f"{path}: has no column {sorted(missing)[0]}; {ADVICE}")
    ids = canonical_ids(table.select("user_id").collect().to_series()).to_numpy()

    def read(start: int, stop: int) -> NDArray[Any]:
        column = table.select("vector").slice(start, stop - start).collect().to_series()
        width = len(column[0])
        return column.cast(pl.Array(pl.Float32, width)).to_numpy()

    return as_id_array(ids, "user"), read


def _safetensors(path: Path) -> tuple[NDArray[Any], Read]:
    arrays = mapped_tensors(path)
    if "user" in arrays:
        model = Factors.load(path, mapped=True)
        user, biased = model.user, model.item_bias is not None

        def read(start: int, stop: int) -> NDArray[Any]:
            some = np.asarray(user[start:stop])
            return np.hstack([some, np.ones((len(some), 1), np.float32)]) if biased else some

        return model.user_ids, read
    with safe_open(path, "np") as file:
        vectors, about = arrays["vectors"], file.metadata()
    if about["side"] != "user":
        raise InputError(f"{path}: holds {about['side']} vectors; {ADVICE}")
    return as_id_array(json.loads(about["id_list"]), "user"), lambda start, stop: vectors[start:stop]


_OPENED = {".npy": _npy, ".parquet": _parquet, ".safetensors": _safetensors}
