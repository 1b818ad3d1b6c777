"""Vectors in files: .npy, .npz, .safetensors, or torch's .pt and .pth (tensors only, nothing is unpickled)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.data.files import readable
from recprism.data.real import require_real
from recprism.errors import InputError
from recprism.models.factors import Factors

Arrays = dict[str, NDArray[Any]]
WHOLE = ""
"""The name of the array in a file that holds just one."""


def from_files(
    user: str | Path,
    item: str | Path,
    *,
    user_key: str | None = None,
    item_key: str | None = None,
    user_ids: ArrayLike | str | Path | None = None,
    item_ids: ArrayLike | str | Path | None = None,
    item_bias: ArrayLike | None = None,
) -> Factors:
    """User and item vectors from two files, or from one that is named twice.

    user_key, item_key: the array to take where a file holds several; without it the only matrix whose name has "user"
        (or "item") in it
    user_ids, item_ids: the ids of the rows: a sequence, a .npy file, or a text file of one id a line; 0, 1, 2, ...
        unless given
    """
    return Factors.from_arrays(
        _matrix(Path(user), "user", user_key),
        _matrix(Path(item), "item", item_key),
        user_ids=_ids(user_ids, "user"),
        item_ids=_ids(item_ids, "item"),
        item_bias=item_bias,
        settings={"model": "arrays", "user": str(user), "item": str(item)},
    )


def _read_npy(path: Path) -> Arrays:
    with path.open("rb") as file:
        return {WHOLE: np.load(file, allow_pickle=False)}


def _read_npz(path: Path) -> Arrays:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _read_safetensors(path: Path) -> Arrays:
    from safetensors.torch import load_file

    return {name: _as_array(tensor) for name, tensor in load_file(path).items()}


def _read_torch(path: Path) -> Arrays:
    content = torch.load(path, map_location="cpu", weights_only=True)
    named = content if isinstance(content, dict) else {WHOLE: content}
    tensors = {str(name): value for name, value in named.items() if isinstance(value, torch.Tensor)}
    return {name: _as_array(tensor) for name, tensor in tensors.items()}


def _as_array(tensor: Tensor) -> NDArray[Any]:
    """As float32, whatever the precision; complex numbers stay, to be refused by name where they are asked for."""
    tensor = tensor.detach()
    array: NDArray[Any] = (tensor if tensor.is_complex() else tensor.float()).numpy()
    return array


READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}


def read_arrays(path: Path) -> Arrays:
    """name -> array of a file of vectors; one clear sentence where it cannot be read."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: vectors are read from {', '.join(READERS)}, not from {path.suffix!r}")
    with readable(path, f"cannot be read as {path.suffix}", "name a file of vectors"):
        try:
            return reader(path)
        except UnpicklingError:
            raise InputError(
                f"{path}: holds more than tensors, and objects are not loaded; save the weights alone (state_dict)"
            ) from None


def _matrix(path: Path, side: str, key: str | None) -> NDArray[Any]:
    matrix = _chosen(path, side, key)
    require_real(matrix, f"{path}: the {side} vectors")
    return matrix


def _chosen(path: Path, side: str, key: str | None) -> NDArray[Any]:
    arrays = read_arrays(path)
    if key is not None:
        if key not in arrays:
            raise InputError(f"{path}: holds no array {key!r}; it has {_names(arrays)}")
        return arrays[key]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    fitting = [name for name, array in arrays.items() if side in name.lower() and array.ndim == 2]
    if len(fitting) != 1:
        raise InputError(f"{path}: say which array holds the {side} vectors with {side}_key; it has {_names(arrays)}")
    return arrays[fitting[0]]


def _names(arrays: Arrays) -> str:
    return ", ".join(f"{name or 'one array'} {array.shape}" for name, array in arrays.items()) or "none"


def _ids(ids: ArrayLike | str | Path | None, side: str) -> ArrayLike | None:
    if not isinstance(ids, (str, Path)):
        return ids
    path = Path(ids)
    if path.suffix.lower() == ".npy":
        return read_arrays(path)[WHOLE]
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {side} ids are a .npy file or one id a line") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not text in UTF-8; {side} ids are a .npy file or one id a line") from None
    return [int(line) for line in lines] if all(line.isdecimal() for line in lines) else lines
