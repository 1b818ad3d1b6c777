"""Problems of candidates with scores and no vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recprism import audit, diversify
from recprism.budget.path import lists_at, rule_at
from recprism.budget.problem import Problem
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.forms.rule_file import RuleFile
from recprism.models import BPRMF
from recprism.models.adapters import ScoredCandidates
from recprism.result.result import Result
from recprism.rule.goal import Goal


@pytest.fixture(scope="module")
def with_vectors(small: Dataset) -> Problem:
    split = small.split(seed=0)
    return Problem(BPRMF(dim=16, epochs=3).fit(split, seed=0), split, small.categories)


@pytest.fixture(scope="module")
def from_scores(with_vectors: Problem) -> Problem:
    """The same scores as a long table, in a random order of rows."""
    items, scores = with_vectors.factors.rank(700)
    ids = with_vectors.factors
    user = np.repeat(ids.user_ids, items.shape[1])
    order = np.random.default_rng(0).permutation(items.size)
    found = ScoredCandidates.from_pairs(
        user[order],
        ids.item_ids[items.ravel()][order],
        scores.ravel()[order],
        user_ids=ids.user_ids,
        item_ids=ids.item_ids,
    )
    return Problem(found, with_vectors.split, with_vectors.categories)


def test_the_same_scores_give_the_same_lists(with_vectors: Problem, from_scores: Problem) -> None:
    np.testing.assert_array_equal(from_scores.base_lists, with_vectors.base_lists)
    for goal in ("subtopic_coverage", "ilad_subtopics", "alpha_ndcg"):
        np.testing.assert_array_equal(lists_at(from_scores, goal, 0.2), lists_at(with_vectors, goal, 0.2))


@pytest.mark.slow
def test_a_budget_is_certified_for_the_rule(with_vectors: Problem, from_scores: Problem) -> None:
    ours, theirs = (diversify(case, budget=0.2) for case in (from_scores, with_vectors))
    assert ours.rule is not None
    assert ours.rule == theirs.rule
    assert ours.certificate == theirs.certificate
    for live in (True, False):
        np.testing.assert_array_equal(ours.ranked(live=live)[0], theirs.ranked(live=live)[0])
    assert audit(from_scores, "subtopic_coverage", budgets=(0.1,)).to_dict()


def test_what_needs_vectors_is_refused(from_scores: Problem, tmp_path: Path) -> None:
    found = Result(from_scores, Goal.parse("sc"), rule_at(from_scores, "sc", 0.1))
    for form in ("dials", "user-vectors", "boosts"):
        with pytest.raises(InputError, match="scores and no vectors"):
            found.export(tmp_path / "out", form)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="vectors"):
        diversify(from_scores, "ilad", 0.2)


def test_the_rule_of_scores_is_exported_without_vectors(from_scores: Problem, tmp_path: Path) -> None:
    found = Result(from_scores, Goal.parse("sc"), rule_at(from_scores, "sc", 0.1))
    made = found.export(tmp_path / "out", "rule")
    assert isinstance(made, RuleFile)
    assert made.item_vectors is None
    assert made.trade_off == 0.1


def test_seen_items_are_left_out_and_short_rows_are_filled_up() -> None:
    made = ScoredCandidates.from_pairs(
        ["a", "a", "b"], ["x", "y", "x"], [0.5, 2.0, 1.0], user_ids=["a", "b", "c"], item_ids=["x", "y", "z"]
    )
    items, scores = made.rank(2, exclude=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(items, [[0, -1], [0, -1], [-1, -1]])
    np.testing.assert_array_equal(scores, np.float32([[0.5, -np.inf], [1.0, -np.inf], [-np.inf, -np.inf]]))
    np.testing.assert_array_equal(made.scores_of(np.array([[1, 2], [0, -1], [0, 1]])), np.float32(
        [[2.0, -np.inf], [1.0, -np.inf], [-np.inf, -np.inf]]
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((["a", "a"], ["x", "x"], [1, 2]), "user a has item x twice"),
        ((["a"], ["x"], [np.nan]), "the score in row 0 is nan"),
        ((["q"], ["x"], [1]), "user"),
    ],
)
def test_wrong_scores_are_refused(rows: tuple[list[str], list[str], list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ScoredCandidates.from_pairs(*rows, user_ids=["a"], item_ids=["x"])
