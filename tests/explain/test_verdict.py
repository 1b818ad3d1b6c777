"""When a claim about factors is supported, and how a refusal is worded."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.controls import run_controls
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.verdict import Verdict
from recprism.data.sparse_rows import SparseRows
from recprism.metrics import Context
from recprism.models import Factors

N_USERS, N_ITEMS, DIM = 80, 60, 30
GROUP = np.where(np.arange(N_USERS) < 40, 1.0, -1.0)  # two groups with opposite signs in factor 0


def world(labels: bool = True) -> tuple[Factors, Evaluator]:
    """All users get items 0 to 9, all of category 0; the others hold all the other categories."""
    generator = np.random.default_rng(0)
    user = generator.normal(0, 0.02, (N_USERS, DIM))  # values shuffled to other factors have no effect
    user[:, 0], user[:, 1] = GROUP, 1.0  # the mean user is along factor 1
    item = generator.normal(0, 0.05, (N_ITEMS, DIM))
    item[:10, 1] += 1.0
    categories = np.zeros((N_ITEMS, 12), bool)
    categories[np.arange(N_ITEMS), np.where(np.arange(N_ITEMS) < 10, 0, np.arange(N_ITEMS) % 12)] = True
    base = Factors.from_arrays(user, item)
    context = Context(
        relevant=labels & (generator.random((N_USERS, N_ITEMS)) < 0.2), categories=categories, vectors=base.item
    )
    return base, Evaluator(context, SparseRows.empty((N_USERS, N_ITEMS)), ("subtopic_coverage@5", "ndcg@5"))


def for_each_group_its_own() -> np.ndarray:
    """Five items of five categories raised for one group and lowered for the other, and five the other way round."""
    delta = np.zeros((N_ITEMS, DIM))
    delta[13:18, 0], delta[18:23, 0] = 1.2, -1.2
    return delta


def verdict_on(delta: np.ndarray, draws: int = 99) -> Verdict:
    base, evaluator = world()
    change = Change(base, item=delta.astype(np.float32))
    return Verdict.of(run_controls(change, evaluator, "subtopic_coverage@5", "ndcg@5", draws=draws, unseen=True))


def test_a_change_for_some_users_only_is_about_factors() -> None:
    delta = for_each_group_its_own()
    verdict = verdict_on(delta)
    assert verdict.holds
    assert verdict.gain > 0
    assert verdict.sentence().endswith("factors matter to it.")
    assert "its own values shuffled within items" in verdict.sentence()


def test_a_pure_promotion_is_recognised() -> None:
    delta = np.zeros((N_ITEMS, DIM))
    delta[13:18, 1] = 1.2  # five items of five categories, along the mean user
    verdict = verdict_on(delta)
    assert not verdict.holds
    assert verdict.no_better_than == ("plain promotion of items",)
    assert verdict.reason == "no better than controls"
    assert verdict.sentence().startswith("This perturbation is no better than plain promotion of items (")
    assert "it explains nothing about factors" in verdict.sentence()


def test_noise_says_it_is_no_better_than_shuffled() -> None:
    delta = np.random.default_rng(3).normal(0, 0.6, (N_ITEMS, DIM))
    verdict = verdict_on(delta)
    assert verdict.gain > 0  # noise in the scores does bring other items up
    assert "shuffled within items" in verdict.no_better_than
    assert "no better than its own values shuffled within items" in verdict.sentence()


def test_nothing_moved() -> None:
    verdict = verdict_on(np.full((N_ITEMS, DIM), 1e-9), draws=3)
    assert verdict.reason == "nothing moved"
    assert verdict.sentence() == "No list changed: there is nothing to explain."


def test_nothing_gained() -> None:
    delta = np.zeros((N_ITEMS, DIM))
    delta[:5, 1] = 1.0  # top items move further up
    verdict = verdict_on(delta, draws=3)
    assert verdict.reason == "nothing gained"
    assert "no better than none at all" in verdict.sentence()
    assert not verdict.holds


def test_too_few_draws_cannot_hold() -> None:
    """With 19 draws no p-value corrected for two controls is below 0.05."""
    delta = for_each_group_its_own()
    verdict = verdict_on(delta, draws=18)
    assert verdict.reason == "too few draws"
    assert "nothing is claimed" in verdict.sentence()
    assert not verdict.holds


def test_nothing_is_claimed_on_the_users_it_was_made_for() -> None:
    base, evaluator = world()
    change = Change(base, item=for_each_group_its_own().astype(np.float32))
    verdict = Verdict.of(run_controls(change, evaluator, "subtopic_coverage@5", "ndcg@5", draws=99))
    assert verdict.reason == "known users"
    assert not verdict.holds
    assert "says nothing about factors in general" in verdict.sentence()


def test_without_labels_promotion_is_still_a_rival() -> None:
    """The cost is unknown, so promotion has no limit."""
    base, evaluator = world(labels=False)
    delta = np.zeros((N_ITEMS, DIM))
    delta[13:18, 1] = 1.2
    change = Change(base, item=delta.astype(np.float32))
    controls = run_controls(change, evaluator, "subtopic_coverage@5", "ndcg@5", draws=59, unseen=True)
    assert not Verdict.of(controls).holds
    assert "none" not in controls.bias.sources


def test_plain_values() -> None:
    plain = json.loads(json.dumps(verdict_on(np.ones((N_ITEMS, DIM)), draws=2).to_dict()))
    assert plain["holds"] is False
    names = [figure["name"] for figure in plain["figures"]]
    assert names == [
        "shuffled among all",
        "shuffled within items",
        "shuffled within factors",
        "plain promotion of items",
    ]
    assert [figure["corrected"] is not None for figure in plain["figures"]] == [False, True, False, True]


@pytest.mark.parametrize("level", [0.05, 0.5])
def test_the_level_is_a_choice(level: float) -> None:
    base, evaluator = world()
    change = Change(base, item=for_each_group_its_own().astype(np.float32))
    controls = run_controls(change, evaluator, "subtopic_coverage@5", "ndcg@5", draws=9, unseen=True)
    assert Verdict.of(controls, level).holds == (level > 0.2), "nine draws are enough for a lax level alone"
