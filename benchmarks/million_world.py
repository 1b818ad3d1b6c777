"""What benchmarks/million.py and million_gpu.py serve: made vectors, made categories, and a rule over both."""

from __future__ import annotations

import numpy as np

from large_worlds import Catalogue
from recprism.data.sparse_rows import SparseRows
from recprism.forms.rule_file import RuleFile

USERS, ITEMS, DIM, SEEN = 1_000_000, 100_000, 64, 20
K, CANDIDATES, TRADE_OFF, ALSO = 10, 100, 0.1, 0.02


def catalogue_of(users: int, items: int, dim: int = DIM) -> Catalogue:
    return Catalogue(users, items, dim, also=ALSO)


def rule_of(made: Catalogue) -> RuleFile:
    """A rule for more categories, with item vectors: what ``recprism export RUN`` writes."""
    categories = made.categories()
    rows = categories.items
    return RuleFile(
        goals={"subtopic_coverage": 1.0},
        units={"subtopic_coverage": 1 / len(categories)},
        trade_off=TRADE_OFF,
        history_weight=0.0,
        k=K,
        candidates=CANDIDATES,
        constraints={},
        item_ids=np.arange(made.n_items),
        names=categories.names,
        indptr=rows.indptr,
        indices=rows.indices,
        shares=1 / np.maximum(rows.row_counts, 1)[rows.row_of_entry],
        unit=np.zeros((1, 1)),
        known=np.zeros(1, np.bool_),
        item_vectors=made.items(),
        about={"made": "benchmarks/million_world.py"},
    )


def seen_of(users: int, items: int, each: int = SEEN) -> SparseRows:
    """Items that each user knows, at random: rising and distinct, one of each part of the catalogue."""
    part = items // each
    inside = np.random.default_rng(5).integers(0, part, (users, each), np.int32)
    found = inside + np.arange(each, dtype=np.int32) * np.int32(part)
    return SparseRows(np.arange(0, users * each + 1, each, dtype=np.int64), found.ravel(), items)
