from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.data import Interactions
from recprism.data.interactions import drop_duplicates, keep_frequent, keep_positives
from recprism.errors import InputError


def pairs(user: list[int], item: list[int], **more: list[float]) -> Interactions:
    arrays = {name: np.array(values) for name, values in more.items()}
    return Interactions(np.array(user), np.array(item), np.arange(10), np.arange(10), **arrays)


def test_positives_start_at_the_threshold() -> None:
    kept = keep_positives(pairs([0, 0, 0], [0, 1, 2], rating=[3.5, 4.0, 5.0]), 4)
    assert kept.item.tolist() == [1, 2]


def test_a_threshold_without_ratings_is_refused() -> None:
    with pytest.raises(InputError, match="needs ratings"):
        keep_positives(pairs([0], [0]), 4)


@pytest.mark.parametrize(("policy", "kept"), [("last", [1, 3]), ("first", [0, 3]), ("max", [2, 3])])
def test_duplicate_policies(policy: str, kept: list[int]) -> None:
    # Row 1 is the latest of the three, row 2 the best rated.
    doubled = pairs([0, 0, 0, 0], [5, 5, 5, 6], rating=[1, 2, 5, 3], timestamp=[10, 30, 20, 5])
    assert drop_duplicates(doubled, policy).rating.tolist() == doubled.rating[kept].tolist()  # type: ignore[arg-type,union-attr]


def test_equal_times_fall_back_to_the_order_of_rows() -> None:
    doubled = pairs([0, 0], [5, 5], rating=[1, 2], timestamp=[7, 7])
    assert drop_duplicates(doubled, "last").rating.tolist() == [2]  # type: ignore[union-attr]
    assert drop_duplicates(doubled, "first").rating.tolist() == [1]  # type: ignore[union-attr]


def test_duplicates_can_be_refused() -> None:
    with pytest.raises(InputError, match="user 0 and item 5 occur together"):
        drop_duplicates(pairs([0, 0], [5, 5]), "error")
    with pytest.raises(InputError, match="no ratings"):
        drop_duplicates(pairs([0, 0], [5, 5]), "max")


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30, unique=True), st.integers(1, 3)
)
def test_minimum_counts_keep_the_largest_possible_set(rows: list[tuple[int, int]], least: int) -> None:
    user, item = (list(column) for column in zip(*rows, strict=True))
    kept = keep_frequent(pairs(user, item), least, least)
    alive = set(zip(kept.user_ids[kept.user].tolist(), kept.item_ids[kept.item].tolist(), strict=True))
    # The largest stable set, found by dropping one offender at a time.
    expected = set(rows)
    while True:
        bad = {
            (u, i)
            for u, i in expected
            if sum(u == other for other, _ in expected) < least or sum(i == other for _, other in expected) < least
        }
        if not bad:
            break
        expected -= {min(bad)}
    assert alive == expected
    assert len(kept.user_ids) == len({u for u, _ in expected})
