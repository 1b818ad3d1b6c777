"""A situation from bare files: vectors, what users did before, what they took later, and what items are about."""

from __future__ import annotations

from pathlib import Path

from recprism.data.frames import explode_subtopics, subtopics_from_frame
from recprism.data.incidence import Incidence
from recprism.data.split import Split
from recprism.data.subtopics import Subtopics
from recprism.data.tables import read_table
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters.arrays import from_files
from recprism.study.audit import Beside, positions, read_pairs
from recprism.study.methods import Situation


def situation_from_files(
    user: str, item: str, beside: Beside, *, user_ids: Path | None = None, item_ids: Path | None = None, k: int = 10
) -> Situation:
    """Vectors and the files beside them; without ``held_out`` nothing can be certified."""
    factors = from_files(user, item, user_ids=user_ids, item_ids=item_ids)
    shape = (factors.n_users, factors.n_items)
    nothing = Incidence.empty(shape)
    train, test = (nothing if path is None else _incidence(path, factors) for path in (beside.train, beside.held_out))
    split = Split(train, nothing, test, factors.user_ids, factors.item_ids, {"method": "given"})
    return Situation(factors, split, _subtopics(beside, factors), "test", k)


def _incidence(path: str | Path, factors: Factors) -> Incidence:
    pairs = read_pairs(path)
    user = positions(pairs["user_id"], factors.user_ids, what="user", where=str(path))
    item = positions(pairs["item_id"], factors.item_ids, what="item", where=str(path))
    return Incidence.from_pairs(user, item, (factors.n_users, factors.n_items))


def _subtopics(beside: Beside, factors: Factors) -> Subtopics:
    if beside.subtopics is not None:
        table = read_table(beside.subtopics)
    elif beside.items is not None and beside.subtopic_column is not None:
        table = explode_subtopics(
            read_table(beside.items), beside.subtopic_column, beside.subtopic_separator, where=str(beside.items)
        )
    else:
        raise InputError("what the items are about is needed: --subtopics FILE, or --items FILE --subtopic-column NAME")
    return subtopics_from_frame(table, factors.item_ids, where=str(beside.subtopics or beside.items))
