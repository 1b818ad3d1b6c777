"""Files that belong together: a file records the hash of each file it was made from, and is refused with any other.

A file without such a record, written by an earlier version or by another tool, is accepted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.files import atomic_path
from recprism.errors import InputError

CONTENTS = "contents"
"""What a record calls the hash of the arrays in its own file."""
NOTE = "facts"
"""The single key of a header that holds the record: several keys would be written in any order."""


def hash_of(content: Path | bytes) -> str:
    """Return sixteen letters of the hash of a file or of bytes; "" for a missing file."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()[:16]
    try:
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except FileNotFoundError:
        return ""


def note(**hashes: str) -> dict[str, str]:
    """Return the record for a header of safetensors or Parquet; names without a hash are left out."""
    return {NOTE: json.dumps({name: value for name, value in sorted(hashes.items()) if value})}


def contents_of(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return sixteen letters of the hash of named arrays; no checksum of safetensors does this."""
    digest = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def require_contents(path: Path, tensors: Mapping[str, NDArray[Any]], noted: Mapping[str, str], advice: str) -> None:
    """Raise an error if the arrays of a file are not those that were written; without a record, nothing is compared."""
    if CONTENTS in noted and noted[CONTENTS] != contents_of(tensors):
        raise InputError(f"{path}: damaged (it does not hold the numbers that were written); {advice}")


def noted_in_tensors(path: Path) -> Mapping[str, str]:
    """Return the record of a safetensors file; empty if it has none or cannot be read."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size <= path.stat().st_size else {}
        return _mapping(json.loads(header["__metadata__"][NOTE]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def noted_in_table(metadata: Mapping[str, str]) -> Mapping[str, str]:
    """Return the record in the metadata of a Parquet file; empty if it has none."""
    try:
        return _mapping(json.loads(metadata[NOTE]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _mapping(found: object) -> Mapping[str, str]:
    return found if isinstance(found, dict) else {}


def require_bound(path: Path, noted: Mapping[str, str], now: Mapping[str, str], advice: str) -> None:
    """Raise an error if a file was made from other files than the present ones.

    Args:
        path: The file.
        noted: Its record: name -> hash.
        now: The present files: name -> hash; a missing file has the hash "" and is not compared.
        advice: What to do about it.
    """
    for name, expected in now.items():
        if expected and name in noted and noted[name] != expected:
            raise InputError(
                f"{path}: made from another {name} than the one next to it, so the files are of different runs or "
                f"versions; {advice}"
            )


def save_arrays(path: Path, tensors: Mapping[str, NDArray[Any]], **belong_with: str) -> None:
    """Write arrays to a safetensors file that records the hash of its own content.

    Args:
        path: The file.
        tensors: Name -> array.
        **belong_with: Name of a file that the arrays belong with -> its hash.
    """
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(arrays, temporary, note(**{CONTENTS: contents_of(tensors), **belong_with}))


def load_arrays(path: Path, advice: str, *belong_with: Path) -> dict[str, NDArray[Any]]:
    """Read what :func:`save_arrays` wrote.

    Args:
        path: The file.
        advice: What to do about files that do not belong together.
        *belong_with: The files that the arrays must belong with.
    """
    from safetensors.numpy import load_file

    noted = noted_in_tensors(path)
    require_bound(path, noted, {file.name: hash_of(file) for file in belong_with}, advice)
    arrays: dict[str, NDArray[Any]] = load_file(path)
    require_contents(path, arrays, noted, advice)
    return arrays
