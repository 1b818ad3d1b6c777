"""Tables and facts in a run directory, each bound by hash to the files that it was made from (``common.bound``)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from recprism.common.bound import hash_of, note, noted_in_table, require_bound
from recprism.common.files import atomic_path, readable
from recprism.errors import InputError

SERVED = ("split.parquet", "factors.safetensors", "delta.safetensors")
"""The files that the lists of a run come from. Files about these lists record their hashes."""
BOUND = "made_from"
"""The key of a JSON object that holds the hashes."""


class BoundFiles:
    """The files of one result of a run; a file that was made from other files is refused.

    Args:
        place: Maps the name of a file to its path.
        argument: How the command line names the result.
    """

    def __init__(self, place: Callable[[str], Path], argument: str) -> None:
        self.place, self.argument = place, argument

    def hashes(self, *names: str) -> dict[str, str]:
        """Return name -> hash of each file."""
        return {name: hash_of(self.place(name)) for name in names}

    def fingerprint(self, *names: str) -> str:
        """Return one hash of several files.

        Raises:
            InputError: If one of them is missing, or is a Parquet file without its end.
        """
        digest = hashlib.sha256()
        for name in names:
            try:
                with self.place(name).open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
                    _require_whole_parquet(self.place(name), file)
            except FileNotFoundError:
                where = self.place(name).parent
                raise InputError(f"{where}: has no {name}; run `recprism resume {where}`") from None
        return digest.hexdigest()

    # -- tables: NAME.parquet -----------------------------------------------------------------------------------------

    def write_table(self, name: str, frame: pl.DataFrame, made_from: Mapping[str, str]) -> Path:
        """Write NAME.parquet.

        Args:
            name: The name without its ending.
            frame: The table.
            made_from: Name of a file -> its hash.
        """
        path = self.place(f"{name}.parquet")
        with atomic_path(path) as temporary:
            frame.write_parquet(temporary, metadata=note(**made_from))
        return path

    def read_table(self, name: str, advice: str = "put this run's own back, or make the run again") -> pl.DataFrame:
        """Read NAME.parquet.

        Args:
            name: The name without its ending.
            advice: What to do if the table was made from other files.

        Raises:
            InputError: If the file is missing, damaged, or was made from other files.
        """
        path = self.place(f"{name}.parquet")
        if not path.exists():
            raise InputError(f"{path}: no such file; the step that writes it has not run, or the file was deleted")
        with readable(path, "damaged", f"run the command that made it again, or another run in place of {path.parent}"):
            made_from = self.noted_in(name)
            require_bound(path, made_from, self.hashes(*(it for it in SERVED if it in made_from)), advice)
            return pl.read_parquet(path)

    def noted_in(self, name: str) -> Mapping[str, str]:
        """Return the hashes that a table records."""
        return noted_in_table(pl.read_parquet_metadata(self.place(f"{name}.parquet")))

    # -- facts: NAME.json ---------------------------------------------------------------------------------------------

    def bound_facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return facts about the served lists together with the hashes of their files."""
        return {**facts, BOUND: self.hashes(*SERVED)}

    def read_facts(self, name: str, command: str) -> dict[str, Any] | None:
        """Read NAME.json.

        Args:
            name: The name without its ending.
            command: The command that makes the file.

        Returns:
            The facts; None without the file.

        Raises:
            InputError: If the file is damaged, or was made from other files.
        """
        path, again = self.place(f"{name}.json"), f"run `recprism {command} {self.argument}` again"
        if not path.exists():
            return None
        with readable(path, "not valid JSON", again):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise TypeError("not an object")
            made_from = found.pop(BOUND, {})
            if not isinstance(made_from, dict):
                raise TypeError(f"{BOUND} is not an object")
        require_bound(path, made_from, self.hashes(*SERVED), again)
        return found


def _require_whole_parquet(path: Path, file: BinaryIO) -> None:
    """Refuse a cut Parquet file (a whole one ends with a mark): its hash would bind other files to the damage."""
    if path.suffix != ".parquet":
        return
    file.seek(-min(4, path.stat().st_size), os.SEEK_END)
    if file.read() != b"PAR1":
        raise InputError(f"{path}: damaged (its end is missing); make the run again, or put the file back")
