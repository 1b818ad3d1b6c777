"""The limit of a rule: possible losses of lists, and the grid of limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.rule.limits import beyond_limits, largest_loss, largest_losses, limit_of, needing

lists = st.lists(st.integers(0, 14), min_size=6, max_size=6, unique=True)


@given(lists, lists, st.integers(0, 6))
def test_one_list_has_the_loss_that_it_has_among_many(base: list[int], ids: list[int], empty: int) -> None:
    rows = [np.array([[*it[: 6 - empty], *[-1] * empty]]) for it in (base, ids)]
    assert largest_loss(base[: 6 - empty], ids[: 6 - empty]) == largest_losses(*rows)[0]


@pytest.mark.parametrize(("largest", "limit"), [(0.0, 0.0), (0.05, 0.05), (0.0501, 0.06), (0.612, 0.62), (1.0, 1.0)])
def test_limits_are_hundredths(largest: float, limit: float) -> None:
    losses = np.array([0.0, largest])
    assert limit_of(losses) == pytest.approx(limit)
    assert needing(losses).tolist() == [largest == 0, True]


def test_a_list_beyond_one_of_several_limits_is_beyond() -> None:
    base, changed = np.arange(10)[None], np.array([[0, 1, 2, 3, 4, 5, 6, 7, 9, 8]])
    loss = float(largest_losses(base, changed)[0])
    assert beyond_limits(base, changed, {"ndcg@10": loss}).tolist() == [False]
    assert beyond_limits(base, changed, {"ndcg@5": 0.0, "ndcg@10": loss / 2}).tolist() == [True]
    assert beyond_limits(base, changed, {"ndcg@5": 0.0}).tolist() == [False]
