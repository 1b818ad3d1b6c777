"""Explains lists from files by a choice model: lists of any re-ranker, of an editor, or from logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import known_positions
from recprism.common.progress import ProgressCallback
from recprism.data.categories import Categories
from recprism.data.readers.tables import TableReader
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.explain.choice.fit import DRAWS, fit_choice_model
from recprism.explain.choice.model import ChoiceModel
from recprism.rule.features import category_probabilities
from recprism.runs.jobs.list_files import LISTS, as_matrix, lists_of
from recprism.runs.run import Run

CANDIDATES = 200

Lists = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ListChoices:
    """A choice model of lists from files.

    Attributes:
        model: The model.
        skipped: What was left out -> how many: rows of unknown users or items, and users without one of the lists.
        notes: The same in sentences.
    """

    model: ChoiceModel
    skipped: Mapping[str, int]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: those of the model, ``skipped`` and ``notes``."""
        return {**self.model.to_dict(), "skipped": dict(self.skipped), "notes": list(self.notes)}


def explain_lists_of_run(
    path: str | Path,
    base: str | Path | None,
    run: Run,
    *,
    part: Part = "test",
    columns: Mapping[str, str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> ListChoices:
    """Explain a file of lists with the scores, categories and histories of a run.

    The candidates are the 200 items with the best scores that the user has not seen before ``part``.

    Args:
        path: user_id, item_id, rank: the lists to explain.
        base: The same columns: the lists before. None takes the lists of the run's model, equally long.
        run: A trained run. Users and items unknown to it are counted and skipped.
        part: The part that the lists were made for.
        columns: Our column name -> the name in the files.
        draws: Draws of each shuffle of categories.
        seed: Of the choice model.
        on_step: Receives progress.

    Raises:
        InputError: If a file cannot be read, or the lists cannot be explained.
    """
    reader = TableReader(columns or {})
    problem = run.problem(part)
    found = _Lists.read(reader, path, base, problem.split.user_ids, problem.split.item_ids)
    reader.require_used()
    items, scores = (array[:, :CANDIDATES] for array in problem.candidates)
    return found.explain(items, scores, problem.categories, problem.seen, draws, seed, on_step)


@dataclass(frozen=True, eq=False)
class _Lists:
    """Lists of known users.

    Attributes:
        new: ``(n_users, k)`` item numbers, -1 in empty places and for users without one of the lists.
        base: ``(n_users, k)``; None for the best candidates.
        skipped: What was left out -> how many.
    """

    new: Lists
    base: Lists | None
    skipped: dict[str, int]

    @classmethod
    def read(
        cls,
        reader: TableReader,
        path: str | Path,
        base: str | Path | None,
        user_ids: NDArray[Any],
        item_ids: NDArray[Any],
    ) -> _Lists:
        """Read both files; rows with unknown ids and users without a base list are counted and left out."""
        skipped: dict[str, int] = {}
        new = _read_lists(reader, path, user_ids, item_ids, "new lists", skipped)
        if base is None:
            return cls(new, None, skipped)
        before = _read_lists(reader, base, user_ids, item_ids, "base lists", skipped)
        has_new, has_base = (new >= 0).any(1), (before >= 0).any(1)
        skipped["users with a new list and no base list"] = int((has_new & ~has_base).sum())
        skipped["users with a base list and no new list"] = int((has_base & ~has_new).sum())
        new[~has_base] = -1
        return cls(new, before, skipped)

    def explain(
        self,
        candidates: NDArray[Any],
        scores: NDArray[Any],
        categories: Categories,
        seen: SparseRows | None,
        draws: int,
        seed: int,
        on_step: ProgressCallback | None,
    ) -> ListChoices:
        """Fit the choice model; ``seen`` holds users x items of the history."""
        base = candidates[:, : self.new.shape[1]] if self.base is None else self.base
        model = fit_choice_model(
            candidates,
            scores,
            base,
            self.new,
            categories,
            history=None if seen is None else category_probabilities(seen, categories),
            popularity=None if seen is None else seen.col_counts,
            draws=draws,
            seed=seed,
            on_step=on_step,
        )
        left_out = {what: count for what, count in self.skipped.items() if count}
        notes = tuple(f"Left out: {count:,} {what}." for what, count in left_out.items())
        return ListChoices(model, left_out, notes)


def _read_lists(
    reader: TableReader,
    path: str | Path,
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
    what: str,
    skipped: dict[str, int],
) -> Lists:
    """Return ``(n_users, longest list)`` item numbers, and count rows with unknown ids."""
    table = lists_of(reader.read(path, required=LISTS), str(path))
    user, item = known_positions(table["user_id"], user_ids), known_positions(table["item_id"], item_ids)
    skipped[f"rows of unknown users in the {what}"] = int(user.is_null().sum())
    skipped[f"rows of unknown items in the {what}"] = int((item.is_null() & user.is_not_null()).sum())
    both = user.is_not_null() & item.is_not_null()
    if not both.any():
        raise InputError(f"{path}: no row has a known user and a known item; the ids must be those of the scores")
    rank = table["rank"].filter(both).to_numpy()
    return as_matrix(user.filter(both).to_numpy(), item.filter(both).to_numpy(), rank, len(user_ids))
