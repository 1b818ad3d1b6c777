"""Models of RecBole, from a file that was written in an environment of its own.

RecBole 1.2 needs numpy 1 and cannot share an environment with recprism. ``tools/export_recbole.py`` runs in RecBole's
environment and writes one .npz file for ``from_recbole``. It holds user and item vectors (without RecBole's padding),
user_ids and item_ids (RecBole's tokens), and settings (JSON).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.models.adapters.arrays import Arrays, read_arrays
from recprism.models.factors import Factors

NEEDED = ("user", "item", "user_ids", "item_ids", "settings")


def from_recbole(path: str | Path) -> Factors:
    """Read an exported model of RecBole; the result ranks as RecBole's ``full_sort_topk``.

    RecBole's ids are text. If all ids of a side are plain integers, they become integers.

    Args:
        path: The .npz file that ``tools/export_recbole.py`` wrote.

    Returns:
        The vectors of the model.

    Raises:
        InputError: The file cannot be read, or an array is missing.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise InputError(f"{path}: not a .npz file; write one with tools/export_recbole.py in RecBole's environment")
    arrays = read_arrays(path)
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise InputError(f"{path}: holds no {', '.join(missing)}; write it with tools/export_recbole.py")
    settings = _settings(path, arrays)
    try:
        return Factors.from_arrays(
            arrays["user"],
            arrays["item"],
            user_ids=_ids(arrays["user_ids"]),
            item_ids=_ids(arrays["item_ids"]),
            settings={**settings, "model": f"recbole.{settings.get('model', 'model')}"},
        )
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def _settings(path: Path, arrays: Arrays) -> dict[str, Any]:
    try:
        found = json.loads(str(arrays["settings"]))
    except json.JSONDecodeError as broken:
        raise InputError(f"{path}: its settings are not JSON ({broken}); export the model again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: its settings are {type(found).__name__}, not an object; export the model again")
    return found


def _ids(tokens: NDArray[Any]) -> list[int] | list[str]:
    """Convert tokens to integers if each is written as a plain integer: 7, not 007."""
    texts = [str(token) for token in tokens.tolist()]
    whole = all(text.isascii() and text.isdigit() and str(int(text)) == text for text in texts)
    return [int(text) for text in texts] if whole else texts
