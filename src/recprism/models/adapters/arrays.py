"""Vectors from arrays, frames and files: .npy, .npz, .safetensors, torch's .pt and .pth (never unpickled), tables."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.common.checks import require_real
from recprism.common.files import readable
from recprism.common.ids import canonical_ids
from recprism.errors import InputError
from recprism.models.factors import Factors

if TYPE_CHECKING:
    from recprism.data.readers.tables import TableReader

log = logging.getLogger(__name__)
Arrays = dict[str, NDArray[Any]]
ROW_NUMBERS = "row_numbers"
"""The setting that lists the sides whose ids are row numbers because no ids were given."""
WHOLE = ""
"""The name of the array in a file with one array."""
TABLES = (".parquet", ".csv", ".tsv")
PACKED = (".gz", ".zst", ".zstd")
OTHER = {"user": "item", "item": "user"}


@dataclass(frozen=True, eq=False)
class Rows:
    """The vectors of one side.

    Attributes:
        vectors: (n, d) numbers, one row per user or item.
        ids: (n,) ids of the rows; None counts 0, 1, 2, ...
        bias: (n,) numbers that are added to the dot product; None where there are none.
    """

    vectors: NDArray[Any]
    ids: ArrayLike | None = None
    bias: NDArray[Any] | None = None


def from_files(
    user: Any,
    item: Any,
    *,
    user_key: str | None = None,
    item_key: str | None = None,
    user_ids: ArrayLike | str | Path | None = None,
    item_ids: ArrayLike | str | Path | None = None,
    user_bias: ArrayLike | str | Path | None = None,
    item_bias: ArrayLike | str | Path | None = None,
    reader: TableReader | None = None,
) -> Factors:
    """Read user and item vectors from two files, from one file given twice, from arrays or from frames.

    A user bias shifts all scores of a user and changes no list; it is checked and then dropped.

    Args:
        user: A file, a matrix or a frame. A table has a column of ids (user_id, item_id or id), and one column of lists
            or one column per factor.
        item: The same for items.
        user_key: The array or column of lists to use if there are several; by default the only matrix with "user" in
            its name.
        item_key: The same for items.
        user_ids: The ids of the rows: a sequence, the name of an array or column in the same file, a .npy file, or a
            text file with one id per line. By default an array named like ids, else 0, 1, 2, ...
        item_ids: The same for items.
        user_bias: The same for biases; a text file has one number per line.
        item_bias: The same for items.
        reader: Reads tables, with the column names of the caller.

    Returns:
        The vectors as a recommender.

    Raises:
        InputError: A file cannot be read, or the arrays do not fit together.

    Stability: stable.
    """
    users = read_rows(user, "user", key=user_key, ids=user_ids, bias=user_bias, reader=reader)
    items = read_rows(item, "item", key=item_key, ids=item_ids, bias=item_bias, reader=reader)
    counted = [side for side, rows in (("user", users), ("item", items)) if rows.ids is None]
    if users.bias is not None:
        _require_one_each(users)
        log.info("the user bias changes no list and is left out")
    return Factors.from_arrays(
        users.vectors,
        items.vectors,
        user_ids=users.ids,
        item_ids=items.ids,
        item_bias=items.bias,
        settings={"model": "arrays", "user": _name(user, "user"), "item": _name(item, "item"), ROW_NUMBERS: counted},
    )


def read_rows(
    source: Any,
    side: str,
    *,
    key: str | None = None,
    ids: ArrayLike | str | Path | None = None,
    bias: ArrayLike | str | Path | None = None,
    reader: TableReader | None = None,
) -> Rows:
    """Read the vectors, ids and biases of one side; arguments as in :func:`from_files`."""
    where = _name(source, side)
    arrays = _arrays_of(source, side, where, key, ids, bias, reader)
    vectors = _chosen(arrays, where, side, key)
    require_real(vectors, f"{where}: the {side} vectors")
    found_bias = _side_array(bias, arrays, where, side, "bias")
    return Rows(
        vectors,
        _side_array(ids, arrays, where, side, "ids"),
        None if found_bias is None else _as_bias(found_bias, where, side),
    )


def _name(source: Any, side: str) -> str:
    return str(source) if isinstance(source, (str, Path)) else f"{side} vectors"


def _arrays_of(
    source: Any, side: str, where: str, key: str | None, ids: Any, bias: Any, reader: TableReader | None
) -> Arrays:
    """Return the arrays of a file, frame or array by name."""
    is_file = isinstance(source, (str, Path))
    if (is_file and _is_table(Path(source))) or hasattr(source, "columns"):
        from recprism.models.adapters._vector_tables import table_arrays

        return table_arrays(source, side, where, key=key, ids=ids, bias=bias, reader=reader)
    if is_file:
        return read_arrays(Path(source))
    return {WHOLE: _as_array(source) if isinstance(source, Tensor) else np.asarray(source)}


def _is_table(path: Path) -> bool:
    plain = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return plain.suffix.lower() in TABLES


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
    """Convert floating-point numbers to float32; keep integers (ids) and complex numbers (for a later error)."""
    tensor = tensor.detach().cpu()
    array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return array


READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}


def read_arrays(path: Path) -> Arrays:
    """Read a file of vectors and return its arrays by name."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join((*READERS, *TABLES))
        raise InputError(f"{path}: vectors are read from {known}, not from {path.suffix!r}")
    with readable(path, f"cannot be read as {path.suffix}", "name a file of vectors"):
        try:
            return reader(path)
        except UnpicklingError:
            raise InputError(
                f"{path}: holds more than tensors, and objects are not loaded; save the weights alone (state_dict)"
            ) from None


def _chosen(arrays: Arrays, where: str, side: str, key: str | None) -> NDArray[Any]:
    if key is not None:
        if key not in arrays:
            raise InputError(f"{where}: holds no array {key!r}; it has {_names(arrays)}")
        return arrays[key]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    matrices = [name for name, array in arrays.items() if array.ndim == 2 and not _plays("bias", name)]
    fitting = _of_side(matrices, side)
    if len(fitting) != 1:
        raise InputError(
            f"{where}: say which array holds the {side} vectors with {side}_key (--{side}-key); it has {_names(arrays)}"
        )
    return arrays[fitting[0]]


def _of_side(names: list[str], side: str) -> list[str]:
    """Return the names that contain the side, else those that do not contain the other side."""
    return [it for it in names if side in it.lower()] or [it for it in names if OTHER[side] not in it.lower()]


def _plays(role: str, name: str) -> bool:
    """Return whether an array is named like ids or like a bias."""
    return re.search({"ids": r"ids?$", "bias": r"bias"}[role], name.lower()) is not None


def _names(arrays: Arrays) -> str:
    return ", ".join(f"{name or 'one array'} {array.shape}" for name, array in arrays.items()) or "none"


def _side_array(
    given: ArrayLike | str | Path | None, arrays: Arrays, where: str, side: str, role: str
) -> ArrayLike | None:
    """Find ids or a bias: as given, by the name of an array, from a file, or the only array with such a name."""
    if isinstance(given, (str, Path)):
        if str(given) in arrays:
            return arrays[str(given)]
        return _from_file(Path(given), where, side, role)
    if given is not None:
        return given
    named = [name for name, array in arrays.items() if name and _plays(role, name) and array.squeeze().ndim <= 1]
    fitting = _of_side(named, side)
    if fitting and side not in fitting[0].lower() and sum(array.ndim == 2 for array in arrays.values()) > 1:
        raise InputError(
            f"{where}: holds several matrices, and {fitting[0]!r} does not say whose {role} it holds; "
            f"name the {side} {role} with {side}_{role} (--{side}-{role})"
        )
    if len(fitting) > 1:
        raise InputError(f"{where}: several arrays could be the {side} {role} ({', '.join(fitting)}); name one of them")
    return arrays[fitting[0]] if fitting else None


def _from_file(path: Path, where: str, side: str, role: str) -> ArrayLike:
    if path.suffix.lower() in READERS:
        arrays = read_arrays(path)
        found = next(iter(arrays.values())) if len(arrays) == 1 else _side_array(None, arrays, str(path), side, role)
        if found is None:
            raise InputError(f"{path}: no array is named like {side} {role}; it has {_names(arrays)}")
        return found
    forms = f"{side} {role} come from a .npy file or one a line, or name an array of {where}"
    with readable(path, "not text in UTF-8", forms):
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # drops a byte-order mark
    lines = [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]
    if role == "ids":
        import polars as pl

        return canonical_ids(pl.Series(lines, dtype=pl.String)).to_list()
    with readable(path, "is not one number a line", "write it again"):
        return np.array(lines, np.float64)


def _as_bias(values: ArrayLike, where: str, side: str) -> NDArray[Any]:
    """Return the bias, (n,); torch embeddings of width 1 are flattened."""
    array = np.asarray(values)
    require_real(array, f"{where}: the {side} bias")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _require_one_each(users: Rows) -> None:
    bias = np.asarray(users.bias, np.float64)
    if bias.shape != (len(users.vectors),) or not np.isfinite(bias).all():
        raise InputError(
            f"user_bias has shape {bias.shape}; {len(users.vectors)} finite numbers are needed, one per user"
        )
