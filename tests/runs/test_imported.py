"""A model trained elsewhere becomes a run: rows are found by id, unknown ids are left out and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.budget.problem import Problem
from recprism.data.dataset import Dataset
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.imported import aligned, run_from_factors
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def split(small: Dataset) -> Split:
    return small.split(seed=0)


@pytest.fixture(scope="module")
def factors(split: Split) -> Factors:
    """Random vectors with a bias, in another order than the data."""
    generator = np.random.default_rng(0)
    users, items = generator.permutation(split.n_users), generator.permutation(split.n_items)
    return Factors.from_arrays(
        generator.normal(size=(split.n_users, 6)),
        generator.normal(size=(split.n_items, 6)),
        user_ids=split.user_ids[users],
        item_ids=split.item_ids[items],
        item_bias=generator.normal(size=split.n_items),
        settings={"model": "theirs.BPR"},
    )


def _require_lists_of(factors: Factors, split: Split, lists: pl.DataFrame, *, live: bool) -> None:
    seen = split.live().train if live else split.seen_before("test")
    for row in (0, 17, 600):
        user = split.user_ids[row]
        ids, _ = factors.recommend(user, factors.n_items)
        left_out = set(split.item_ids[seen.row(row)].tolist())
        wanted = [item for item in ids.tolist() if item not in left_out][:10]
        assert lists.filter(lists["user_id"] == user)["item_id"].to_list() == wanted


def test_a_run_ranks_as_the_model_did(factors: Factors, small: Dataset, split: Split, tmp_path: Path) -> None:
    run = run_from_factors(tmp_path / "run", factors, small, split)
    assert run.split().user_ids.tolist() == run.factors().user_ids.tolist() == split.user_ids.tolist()
    assert run.split().item_ids.tolist() == run.factors().item_ids.tolist() == split.item_ids.tolist()
    for live in (True, False):
        _require_lists_of(factors, split, recommend(run, 10, live=live)[0], live=live)
    assert run.config.model.name == "theirs.BPR" and run.config.split.method == "random"
    assert run.events()[-1] == run.events()[-1] | {"event": "imported", "left_out": {"users": 0, "items": 0}}
    assert "| model | theirs.BPR |" in (run.path / "CARD.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_the_model_does_not_know_is_left_out_and_counted(
    factors: Factors, small: Dataset, split: Split, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    knows = factors.of_users(np.arange(2, factors.n_users)).of_items(np.arange(3, factors.n_items))
    with caplog.at_level(logging.WARNING):
        run = run_from_factors(tmp_path / "run", knows, small, split)
    assert "does not know 2 users and 3 items; left out" in caplog.text
    kept = run.split()
    assert kept.user_ids.tolist() == sorted(knows.user_ids.tolist())
    assert kept.item_ids.tolist() == sorted(knows.item_ids.tolist()) == run.items()["item_id"].to_list()
    assert run.events()[-1]["left_out"] == {"users": 2, "items": 3}
    pairs = {(user, item) for user, item in zip(*_ids(kept), strict=True)}
    before = {
        (user, item)
        for user, item in zip(*_ids(split), strict=True)
        if user in set(knows.user_ids.tolist()) and item in set(knows.item_ids.tolist())
    }
    assert pairs == before, "all their interactions are there and no others"
    names = {item: _names(small, split.item_ids, item) for item in knows.item_ids.tolist()[:50]}
    assert names == {item: [run.categories().names[it] for it in _row(run, item)] for item in names}


def _ids(split: Split) -> tuple[list[int], list[int]]:
    part = split.test
    return split.user_ids[part.row_of_entry].tolist(), split.item_ids[part.indices].tolist()


def _names(data: Dataset, ids: np.ndarray, item: int) -> list[str]:
    return [data.categories.names[it] for it in data.categories.items.row(int(np.flatnonzero(ids == item)[0]))]


def _row(run: Run, item: int) -> np.ndarray:
    return run.categories().items.row(int(np.flatnonzero(run.split().item_ids == item)[0]))


def test_ids_of_another_kind_are_refused_before_anything_is_written(
    factors: Factors, small: Dataset, split: Split, tmp_path: Path
) -> None:
    numbered = Factors.from_arrays(factors.user, factors.item, item_ids=[f"row {n}" for n in range(factors.n_items)])
    with pytest.raises(InputError, match="the model knows no item of the split: its item ids are such as 'row 0'"):
        run_from_factors(tmp_path / "run", numbered, small, split)
    with pytest.raises(InputError, match="pass the data set that the split was made of"):
        run_from_factors(tmp_path / "run", factors, small, split.of_items(np.arange(9)))
    assert not (tmp_path / "run").exists()


def test_ids_as_text_meet_the_same_ids_as_numbers(
    factors: Factors, small: Dataset, split: Split, tmp_path: Path
) -> None:
    as_text = replace(factors, item_ids=np.array([str(it) for it in factors.item_ids], dtype=object))
    run = run_from_factors(tmp_path / "run", as_text, small, split)
    np.testing.assert_array_equal(run.factors().item, Run.open(run.path).factors().item)
    assert run.split().n_items == split.n_items


def test_vectors_in_another_order_are_refused_until_they_are_aligned(
    factors: Factors, small: Dataset, split: Split
) -> None:
    with pytest.raises(InputError, match=r"the users of the model are not those of the split in the same order"):
        Problem(factors, split, small.categories, "test")
    shuffled = aligned(factors, split).of_items(np.arange(split.n_items)[::-1])
    with pytest.raises(InputError, match=r"the items of the model are not those"):
        Problem(shuffled, split, small.categories, "test")
    lists = Problem(aligned(shuffled, split), split, small.categories, "test").base_lists
    ids, _ = factors.recommend(split.user_ids[3], factors.n_items)
    fresh = [item for item in ids.tolist() if item not in set(split.item_ids[split.seen_before_test.row(3)].tolist())]
    assert split.item_ids[lists[3]].tolist() == fresh[:10]


def test_a_division_of_your_own_is_called_given(factors: Factors, small: Dataset, split: Split, tmp_path: Path) -> None:
    mine = replace(split, settings={})
    run = run_from_factors(tmp_path / "run", factors, small, mine)
    assert Run.open(run.path).config.split.method == "given"
    assert run.problem().split.test.indices.tolist() == split.test.indices.tolist()


@pytest.mark.slow
def test_a_second_budget_replaces_the_first_only_when_asked(
    factors: Factors, small: Dataset, split: Split, tmp_path: Path, trained_run: Callable[..., Run]
) -> None:
    run = run_from_factors(tmp_path / "run", factors, small, split)
    asked = BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 1e-6})
    with pytest.raises(InputError, match="there is no path towards 'scc'"):
        diversify_within(run, BudgetConfig(goal="scc", budgets={"ndcg@10": 0.1}))
    assert run.config.diversify is None, "a refused request leaves no trace"
    assert not diversify_within(run, asked).is_changed
    assert run.config.diversify is None, "nothing was certified, so nothing is kept"
    run, asked = trained_run(3, 16), BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.3})
    assert diversify_within(run, asked).is_changed
    with pytest.raises(InputError, match="already has a result"):
        diversify_within(run, asked)
    assert diversify_within(run, asked, overwrite=True).towards == "subtopic_coverage"
