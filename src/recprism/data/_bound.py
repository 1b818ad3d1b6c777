"""Files that belong together: what is made from a file records its hash, and is refused beside any other.

A file without such a record (written by an earlier version, or by other tools) makes no claim and is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from recprism.errors import InputError

NOTE = "facts"
"""The one key of a header that holds all that is noted: several keys would be written in any order."""


def hash_of(content: Path | bytes) -> str:
    """Sixteen letters of a file's contents, or of bytes; "" for a file that is not there."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()[:16]
    try:
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except FileNotFoundError:
        return ""


def note(**hashes: str) -> dict[str, str]:
    """What a header of safetensors or Parquet holds: name of what it was made from -> its hash; empty ones left out."""
    return {NOTE: json.dumps({name: value for name, value in sorted(hashes.items()) if value})}


def noted_in_tensors(path: Path) -> Mapping[str, str]:
    """The note of a safetensors file; empty where it has none. What is wrong with the file, its reader says."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size <= path.stat().st_size else {}
        return _mapping(json.loads(header["__metadata__"][NOTE]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def noted_in_table(metadata: Mapping[str, str]) -> Mapping[str, str]:
    """The note among the metadata of a Parquet file."""
    try:
        return _mapping(json.loads(metadata[NOTE]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _mapping(found: object) -> Mapping[str, str]:
    return found if isinstance(found, dict) else {}


def require_bound(path: Path, noted: Mapping[str, str], now: Mapping[str, str], advice: str) -> None:
    """Refuse a file that was made from others than those that stand beside it; of a missing one its reader speaks."""
    for name, expected in now.items():
        if expected and name in noted and noted[name] != expected:
            raise InputError(
                f"{path}: made from another {name} than the one beside it, so the files are of different runs or "
                f"versions; {advice}"
            )
