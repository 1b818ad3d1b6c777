"""What a run is made of: its split, items and categories, the trained vectors, and checkpoints on the way there."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
from numpy.typing import NDArray

from recprism.common.bound import hash_of, noted_in_tensors, require_bound
from recprism.common.files import atomic_path, readable, require_rights
from recprism.common.ids import number_ids
from recprism.data.categories import Categories
from recprism.data.dataset import Dataset
from recprism.data.frames import categories_from_frame
from recprism.data.id_files import tensor_names
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters.scores import ScoredCandidates
from recprism.runs._long_tables import categories_table, split_from_table, split_table
from recprism.runs._tensor_files import read_tensors, write_tensors
from recprism.runs.parts.folder import RunFolder

Base = Factors | ScoredCandidates
"""A trained model: its vectors, or candidates with scores."""
BASE = "factors.safetensors"
NEEDS_VECTORS = "this needs a run of vectors, from `recprism train` or `recprism import --user-vectors`"
DATA = ("split.parquet", "items.parquet", "categories.parquet")
"""The data of a run. The vectors record their hashes, so that no file of them changes unnoticed."""


class RunData(RunFolder):
    """Reads and writes the data and the trained model of a run."""

    def save_data(self, dataset: Dataset, split: Split) -> None:
        """Write split, attributes and categories: the run does not need the original files."""
        parts = io.BytesIO()
        split_table(split).write_parquet(parts)
        made_from = {"split.parquet": hash_of(parts.getvalue())}
        self._files.write_table("items", dataset.attributes, made_from)
        self._files.write_table("categories", categories_table(dataset.categories, split.item_ids), made_from)
        with atomic_path(self.folder / "split.parquet") as temporary:
            temporary.write_bytes(parts.getvalue())

    def has_data(self) -> bool:
        """Whether the data are written; the split is the last file of them."""
        return (self.folder / "split.parquet").exists()

    def split(self) -> Split:
        """Return the interactions, divided into parts."""
        frame = self._files.read_table("split")
        return split_from_table(frame, self.folder / "split.parquet", self.config.split.model_dump())

    def labels(self, part: str) -> pl.DataFrame:
        """Return user_id and item_id of the held-out interactions of a part, as text and in order."""
        return _labels(self.folder / "split.parquet", part)

    def labels_hash(self, part: str) -> str:
        """Return a hash of the held-out interactions of a part; runs of the same labels have the same."""
        state = (self.folder / "split.parquet").stat()
        return _labels_hash(self.folder / "split.parquet", part, state.st_mtime_ns, state.st_size)

    def categories(self) -> Categories:
        """Return the categories of the items."""
        items = self._files.read_table("items")["item_id"]
        return categories_from_frame(
            self._files.read_table("categories"), number_ids(items)[0], where="categories.parquet"
        )

    def items(self) -> pl.DataFrame:
        """Return item_id and attributes, in the order of the item numbers."""
        return self._files.read_table("items")

    def save_checkpoint(
        self, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], step: str = "training"
    ) -> None:
        """Write the state of an unfinished step: "training" or "search"."""
        write_tensors(self._checkpoint(step), tensors, facts)

    def load_checkpoint(self, step: str = "training") -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """Return tensors and facts of an unfinished step; None without a checkpoint."""
        path = self._checkpoint(step)
        try:
            return read_tensors(path) if path.exists() else None
        except ValueError as broken:
            again = f"recprism resume {self.path if step == 'training' else self.argument}"
            raise InputError(
                f"{path}: damaged checkpoint ({broken}); delete it, and `{again}` starts this step again"
            ) from None

    def drop_checkpoint(self, step: str = "training") -> None:
        """Delete the checkpoint of a step that has ended."""
        self._checkpoint(step).unlink(missing_ok=True)

    def _checkpoint(self, step: str) -> Path:
        return self.file(f"{step}.checkpoint.safetensors")

    def save_factors(self, base: Base) -> None:
        """Write the trained vectors, or candidates with scores, bound to the split."""
        base.save(self.folder / BASE, made_from=self._files.hashes(*DATA))

    def has_factors(self) -> bool:
        """Whether the run has a trained model."""
        return (self.folder / BASE).exists()

    def is_trained(self) -> bool:
        """Whether the training has ended: the card is written last, and then the checkpoint goes."""
        return self.has_factors() and self.file("CARD.md").exists() and not self._checkpoint("training").exists()

    def has_vectors(self) -> bool:
        """Whether the model of the run has vectors; else it has candidates with scores."""
        return "scores" not in tensor_names(self.folder / BASE)

    def base(self) -> Base:
        """Return the trained model: vectors, or candidates with scores."""
        if not self.has_factors():
            raise InputError(f"{self.path}: holds no trained model yet; run `recprism resume {self.path}`")
        path, now = self.folder / BASE, self._files.hashes(*DATA)
        require_rights(path)
        require_bound(path, noted_in_tensors(path), now, f"run `recprism train -o {self.path} --overwrite`")
        return Factors.load(path) if self.has_vectors() else ScoredCandidates.load(path)

    def factors(self) -> Factors:
        """Return the vectors of the trained model.

        Raises:
            InputError: If there is none yet, or it has scores and no vectors.
        """
        found = self.base()
        if not isinstance(found, Factors):
            raise InputError(f"{self.path}: has scores and no vectors; {NEEDS_VECTORS}")
        return found


def _labels(path: Path, part: str) -> pl.DataFrame:
    """Read the interactions of a part; the file itself is checked where the model is read."""
    with readable(path, "damaged", "make the run again, or put the file back"):
        frame = pl.read_parquet(path).filter(pl.col("part") == part)
        return frame.select(pl.col("user_id", "item_id").cast(pl.String)).sort("user_id", "item_id")


@lru_cache(maxsize=256)
def _labels_hash(path: Path, part: str, *_state: int) -> str:
    return hash_of(_labels(path, part).write_csv().encode())
