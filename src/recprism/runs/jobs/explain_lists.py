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
from recprism.data.readers.tables import TableReader
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
    reader, problem = TableReader(columns or {}), run.problem(part)
    known, skipped = (problem.split.user_ids, problem.split.item_ids), dict[str, int]()
    new, before = _read_lists(reader, path, *known, "new lists", skipped), None
    if base is not None:
        before = _read_lists(reader, base, *known, "base lists", skipped)
        has_new, has_base = (new >= 0).any(1), (before >= 0).any(1)
        skipped["users with a new list and no base list"] = int((has_new & ~has_base).sum())
        skipped["users with a base list and no new list"] = int((has_base & ~has_new).sum())
        new[~has_base] = -1
    reader.require_used()
    items, scores = (array[:, :CANDIDATES] for array in problem.candidates)
    model = fit_choice_model(
        items,
        scores,
        items[:, : new.shape[1]] if before is None else before,
        new,
        problem.categories,
        history=category_probabilities(problem.seen, problem.categories),
        popularity=problem.seen.col_counts,
        draws=draws,
        seed=seed,
        on_step=on_step,
    )
    left_out = {what: count for what, count in skipped.items() if count}
    return ListChoices(model, left_out, tuple(f"Left out: {count:,} {what}." for what, count in left_out.items()))


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
