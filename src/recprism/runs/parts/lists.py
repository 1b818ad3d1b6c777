"""What a run serves and shows: lists, paths, metrics and pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from numpy.typing import NDArray

from recprism.common.files import readable, write_text
from recprism.runs._bound_files import SERVED
from recprism.runs._tensor_files import read_tensors, write_tensors
from recprism.runs.parts.folder import RunFolder

TRAINED, DIVERSIFIED = "trained", "diversified"


class RunLists(RunFolder):
    """Reads and writes lists, metrics and pages; each file is bound to the vectors that it was made from."""

    def save_recommendations(self, frame: pl.DataFrame, *, live: bool = True) -> Path:
        """Write lists: the live ones, or the judged ones."""
        name = "recommendations" if live else "recommendations.judged"
        return self._files.write_table(name, frame, self._files.hashes(*SERVED))

    def save_path(
        self, goal: str, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], made_from: str
    ) -> None:
        """Write the path towards a goal.

        Args:
            goal: The metric that is raised.
            tensors: Name -> array.
            facts: Plain values about them.
            made_from: The :meth:`fingerprint` before anything was read for the path.
        """
        write_tensors(self._path_file(goal), tensors, {"made_from": made_from, **facts})

    def load_path(self, goal: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """Return tensors and facts; None if they are missing, damaged, or of other vectors: they can be made again."""
        path = self._path_file(goal)
        try:
            tensors, facts = read_tensors(path)
        except (FileNotFoundError, ValueError):
            return None
        return (tensors, facts) if facts.pop("made_from", None) == self.fingerprint() else None

    def _path_file(self, goal: str) -> Path:
        return self.file(f"path.{goal}.safetensors")

    def save_metrics(self, frame: pl.DataFrame, *, base: bool = False) -> Path:
        """Write the metrics of the served lists; with ``base`` those of the trained model, which outlive a result."""
        return self._files.write_table("metrics", frame, self._files.hashes(*(SERVED[:2] if base else SERVED)))

    def measured(self) -> str | None:
        """Return whose lists metrics.parquet measures: "trained" or "diversified"; None without the file."""
        path = self.file("metrics.parquet")
        if not path.exists():
            return None
        with readable(path, "damaged", f"run `recprism evaluate {self.argument}` again"):
            return DIVERSIFIED if "delta.safetensors" in self._files.noted_in("metrics") else TRAINED

    def metrics(self) -> pl.DataFrame:
        """Return the rows of metrics.parquet."""
        return self._files.read_table("metrics", f"run `recprism evaluate {self.argument}` again")

    def save_card(self, text: str) -> None:
        """Write the model card."""
        write_text(self.file("CARD.md"), text)

    @property
    def report_path(self) -> Path:
        """Where the report is."""
        return self.file("report.html")

    def export_path(self, form: str) -> Path:
        """Return the default folder of an export."""
        return self.file(f"export-{form}")
