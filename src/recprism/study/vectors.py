"""A situation from bare files: vectors, what users did before, what they took later, and what items are about."""

from __future__ import annotations

import logging
from pathlib import Path

from recprism.data.datasets import read_item_files
from recprism.data.frames import subtopics_from_frame
from recprism.data.incidence import Incidence
from recprism.data.known_pairs import known_pairs
from recprism.data.split import Split
from recprism.data.tables import TableReader
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters.arrays import from_files
from recprism.study.audit import Beside, read_pairs
from recprism.study.methods import Situation

log = logging.getLogger(__name__)


def situation_from_files(
    user: str, item: str, beside: Beside, *, user_ids: Path | None = None, item_ids: Path | None = None, k: int = 10
) -> Situation:
    """Vectors and the files beside them; without ``held_out`` nothing can be certified."""
    factors = from_files(user, item, user_ids=user_ids, item_ids=item_ids)
    nothing = Incidence.empty((factors.n_users, factors.n_items))
    reader = TableReader(beside.columns)
    train, test = (
        nothing if path is None else _incidence(path, factors, reader) for path in (beside.train, beside.held_out)
    )
    about = read_item_files(reader, beside.items, beside.subtopics, beside.categories)
    reader.require_used()
    if about.subtopics is None:
        raise InputError("what the items are about is needed: --subtopics FILE, or --items FILE --subtopic-column NAME")
    split = Split(train, nothing, test, factors.user_ids, factors.item_ids, {"method": "given"})
    subtopics = subtopics_from_frame(about.subtopics, factors.item_ids, where=about.where)
    return Situation(factors, split, subtopics, "test", k)


def _incidence(path: str | Path, factors: Factors, reader: TableReader) -> Incidence:
    found = known_pairs(read_pairs(path, reader), factors.user_ids, factors.item_ids, str(path))
    if note := found.note(str(path)):
        log.warning(note)
    return found.matrix
