"""Histories and held-out interactions of known users and items."""

from __future__ import annotations

import numpy as np
import pytest

from recprism.data.interactions import Interactions
from recprism.data.labels import known_rows, split_labels
from recprism.errors import InputError

USERS = np.array([f"u{n}" for n in range(8)], dtype=object)
ITEMS = np.array([f"i{n:02}" for n in range(20)], dtype=object)


def took(per_user: int, first: int, *, timed: bool = False) -> Interactions:
    """Each user took ``per_user`` items, from number ``first`` on; the later the higher the number."""
    user = np.repeat(np.arange(8), per_user)
    item = np.tile(np.arange(first, first + per_user), 8)
    return Interactions(user, item, USERS, ITEMS, timestamp=item.copy() if timed else None)


def pairs(*parts: object) -> list[tuple[int, int]]:
    return [pair for part in parts for pair in zip(part.row_of_entry.tolist(), part.indices.tolist(), strict=True)]  # type: ignore[attr-defined]


def test_each_user_gives_half_of_the_labels_to_each_part() -> None:
    split, seen = split_labels(took(3, 0), took(6, 3))
    assert seen == 0 and split.settings["method"] == "given"
    assert split.train.row_counts.tolist() == [3] * 8
    assert split.validation.row_counts.tolist() == split.test.row_counts.tolist() == [3] * 8
    assert sorted(pairs(split.validation, split.test)) == sorted(pairs(took(6, 3).matrix()))


def test_of_users_with_one_label_half_validate_and_half_are_tested() -> None:
    split, _ = split_labels(took(3, 0), took(1, 3))
    assert len(split.validation) == len(split.test) == 4
    assert (split.validation.row_counts + split.test.row_counts == 1).all()
    again, _ = split_labels(took(3, 0), took(1, 3))
    other, _ = split_labels(took(3, 0), took(1, 3), seed=1)
    assert pairs(split.test) == pairs(again.test) != pairs(other.test)


def test_with_timestamps_the_earlier_labels_validate() -> None:
    split, _ = split_labels(took(3, 0), took(6, 3, timed=True))
    assert set(split.validation.indices.tolist()) == {3, 4, 5} and set(split.test.indices.tolist()) == {6, 7, 8}
    aside, _ = split_labels(took(10, 0, timed=True), set_aside=0.2)
    assert set(aside.validation.indices.tolist()) == {8} and set(aside.test.indices.tolist()) == {9}
    assert aside.settings["method"] == "set-aside"


def test_labels_that_the_history_has_are_left_out_and_counted() -> None:
    split, seen = split_labels(took(5, 0), took(4, 3))
    assert seen == 16
    assert not set(pairs(split.train)) & set(pairs(split.validation, split.test))


def test_set_aside_takes_from_the_history() -> None:
    split, _ = split_labels(took(10, 0), set_aside=0.2)
    assert split.train.row_counts.tolist() == [8] * 8
    assert len(split.validation) == len(split.test) == 8
    with pytest.raises(InputError, match="give one of the two"):
        split_labels(took(10, 0), took(2, 10), set_aside=0.2)
    with pytest.raises(InputError, match="did you mean 20%"):
        split_labels(took(10, 0), set_aside=20)


def test_the_order_of_rows_does_not_matter() -> None:
    later = took(5, 3)
    shuffled = later.take(np.random.default_rng(0).permutation(len(later)))
    one, two = (split_labels(took(3, 0), known_rows(it, USERS, ITEMS, "later")[0])[0] for it in (later, shuffled))
    assert pairs(one.test) == pairs(two.test)


def test_unknown_users_and_items_are_counted() -> None:
    known, left_out = known_rows(took(4, 0), USERS[2:], ITEMS[1:], "later.csv")
    assert left_out.to_dict() == {"rows": 2 * 4 + 6, "users": 2, "items": 1}
    assert len(known) == 6 * 3 and known.user_ids.tolist() == USERS[2:].tolist()
    with pytest.raises(InputError, match=r"later.csv: none of its user ids \(such as 'u0'\) has a vector"):
        known_rows(took(4, 0), np.arange(5), ITEMS, "later.csv")
