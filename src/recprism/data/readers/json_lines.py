"""Files with one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recprism.data.readers.sources import numbered_lines, read_bytes
from recprism.errors import InputError


def read_json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield row numbers and objects of a plain or compressed file; a broken row raises an error that names it."""
    path = Path(path)
    content = read_bytes(path)
    if not content.strip():
        raise InputError(f"{path}: the file is empty; at least one JSON object is needed")
    yield from json_objects(content, str(path))


def json_objects(content: bytes, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield row numbers and objects of JSON lines; ``where`` names the file in errors."""
    for row, line in numbered_lines(content, where):
        try:
            value = json.loads(line)
        except ValueError as broken:
            raise InputError(f"{where}, row {row}: not JSON ({broken}); fix or remove the row") from None
        if not isinstance(value, dict):
            raise InputError(f"{where}, row {row}: not a JSON object; one object a line is needed")
        yield row, value
