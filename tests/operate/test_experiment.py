"""Sizes of A/B tests: their power is checked by simulation with SciPy's tests."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import ttest_ind

from recprism.common.shares import percent
from recprism.errors import InputError
from recprism.metrics.evaluation import plain_row
from recprism.operate.experiment import FEWEST_USERS, Plan, Size, Terms, better, not_worse, plan
from recprism.result.effect import effect
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run

EXPERIMENTS = 4000
TOLERANCE = 0.025  # four standard errors of a share near 0.8 or 0.05 in so many experiments


def users_of_a_recommender(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Values like NDCG: most users 0, some up to 1; the new lists lose 4 %."""
    generator = np.random.default_rng(seed)
    base = np.where(generator.random(800) < 0.4, generator.beta(2, 3, 800), 0.0)
    new = base * generator.uniform(0.4, 1.52, 800)
    return base, np.minimum(new * 0.96 * base.mean() / new.mean(), 1.0)


def drawn(values: np.ndarray, users: int, generator: np.random.Generator) -> np.ndarray:
    return values[generator.integers(0, len(values), (EXPERIMENTS, users))]


def test_a_plan_needs_the_users_of_its_largest_question() -> None:
    def size(users: int | None) -> Size:
        return Size("ndcg@10", "better", 0.2, 0.2, 0.1, 0.1, None, 0.01, users, users, "as the run says")

    def users(*needed: int | None) -> int | None:
        return Plan("run", "test", 0.8, 0.05, 0.5, tuple(map(size, needed)), ()).users

    assert [users(), users(10, 300, 20), users(10, None)] == [None, 600, None]


@pytest.mark.parametrize(("power", "alpha", "share"), [(0.8, 0.05, 0.5), (0.9, 0.1, 0.25)])
def test_the_power_of_a_guard_is_as_stated(power: float, alpha: float, share: float) -> None:
    base, new = users_of_a_recommender()
    margin = 0.25
    size = not_worse("ndcg@10", base, new, margin, Terms(power, alpha, share))
    assert size.base_users and size.new_users and size.base_users < 5000
    assert size.new_users == pytest.approx(share * size.users, abs=1)
    generator = np.random.default_rng(1)

    def found(new_arm: np.ndarray) -> float:
        old, other = drawn(base, size.base_users, generator), drawn(new_arm, size.new_users, generator)
        test = ttest_ind(other, (1 - margin) * old, axis=1, equal_var=False, alternative="greater")
        return float((test.pvalue < alpha).mean())

    assert found(new) == pytest.approx(power, abs=TOLERANCE)
    ruined = new * (1 - margin) * base.mean() / new.mean()  # exactly at the margin: every finding is false
    assert found(ruined) == pytest.approx(alpha, abs=TOLERANCE)


@pytest.mark.parametrize("power", [0.8, 0.95])
def test_the_power_of_a_gain_is_as_stated(power: float) -> None:
    generator = np.random.default_rng(2)
    base = generator.beta(6, 4, 700)
    new = np.clip(base + generator.normal(0.06, 0.15, 700), 0, 1)
    size = better("subtopic_coverage@10", base, new, 0.5, Terms(power, 0.05, 0.5))
    half_retained = new - 0.5 * (new.mean() - base.mean())
    old, other = drawn(base, size.base_users, generator), drawn(half_retained, size.new_users, generator)
    found = (ttest_ind(other, old, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert size.base_users > FEWEST_USERS
    assert float(found) == pytest.approx(power, abs=TOLERANCE)


def test_some_questions_have_no_size() -> None:
    base, new = users_of_a_recommender()
    terms = Terms(0.8, 0.05, 0.5)
    lost = not_worse("ndcg@10", base, new, 0.03, terms)
    assert lost.users is None and "no number of users" in lost.sentence()
    lucky = not_worse("ndcg@10", new, base, 0.03, terms)
    assert lucky.distance == pytest.approx(0.03 * new.mean()), "a measured gain is no reserve"
    assert better("subtopic_coverage@10", base, new, 1.0, terms).users is None
    falling = better("gini@10", base, new, 1.0, terms)
    assert falling.users is not None, "less of gini is better"


def test_a_huge_gain_still_needs_some_users() -> None:
    size = better(
        "subtopic_coverage@10", np.array([0.1, 0.2, 0.3]), np.array([0.8, 0.9, 0.9]), 1.0, Terms(0.8, 0.05, 0.5)
    )
    assert (size.base_users, size.new_users) == (FEWEST_USERS, FEWEST_USERS)


# -- of a run ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def budgeted(trained_run: Callable[..., Run]) -> Run:
    run = trained_run(3, 16)
    within = BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.4, "recall@10": 0.5})
    assert diversify_within(run, within).is_changed
    return run


@pytest.mark.slow
def test_the_plan_uses_the_figures_of_the_run(budgeted: Run) -> None:
    found = plan(budgeted, power=0.9, alpha=0.02)
    measured = effect(budgeted.load_result(), ("ndcg@10", "recall@10", "subtopic_coverage@10"))
    assert [(size.metric, size.question, size.margin) for size in found.sizes] == [
        ("ndcg@10", "not worse", 0.4),
        ("recall@10", "not worse", 0.5),
        ("subtopic_coverage@10", "better", None),
    ]
    first = found.sizes[0]
    assert (first.base, first.new) == (measured.before["ndcg@10"].mean, measured.after["ndcg@10"].mean)
    assert first.base_deviation == measured.before.values["ndcg@10"].std(ddof=1)
    assert found.users == max(size.users for size in found.sizes if size.users is not None)
    assert plan(budgeted, power=0.8, alpha=0.02).sizes[0].users < first.users
    assert json.loads(json.dumps(found.to_dict()))["users"] == found.users


def test_guardrails_come_from_the_certificate(budgeted: Run) -> None:
    rails = {rail.metric: rail for rail in plan(budgeted).guardrails}
    kept = budgeted.certificate()
    assert kept is not None
    found = effect(budgeted.load_result(), ("ndcg@10", "recall@10")).change
    checks = {check["metric"]: check for check in kept["certificate"]["points"][kept["certificate"]["last"]]["checks"]}
    for metric, budget in (("ndcg@10", 0.4), ("recall@10", 0.5)):
        assert (rails[metric].direction, rails[metric].limit) == ("not below", -budget)
        assert rails[metric].measured == pytest.approx(found[metric].relative), "on the test part"
        assert percent(checks[metric]["budget"]) in rails[metric].why
    goal = rails["subtopic_coverage@10"]
    assert goal.measured > 0 and goal.limit == pytest.approx(0.8 * goal.measured) and goal.direction == "not below"
    assert "similar items" not in rails


@pytest.mark.slow
def test_without_a_budget_one_must_be_named(searched_run: Callable[..., Run]) -> None:
    run = searched_run(iterations=3, diversity="catalogue_coverage")
    with pytest.raises(InputError, match="--budget"):
        plan(run)
    found = plan(run, budgets={"ndcg@10": 0.9})
    assert "not certified" in found.guardrails[0].why
    catalogue_coverage = found.sizes[-1]
    assert (
        catalogue_coverage.metric == "catalogue_coverage@10"
        and catalogue_coverage.users is None
        and "one number for all lists" in catalogue_coverage.why
    )
    assert found.users is None and "No number of users" in found.sentence()
    assert plain_row(catalogue_coverage)["base_deviation"] is None


@pytest.mark.parametrize(
    ("wrong", "words"), [({"power": 1.0}, "power"), ({"share": 0.0}, "share"), ({"retained": 2}, "retained")]
)
def test_wrong_terms(budgeted: Run, wrong: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(budgeted, **wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_on_the_command_line(budgeted: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int]) -> None:
    assert call("experiment", budgeted.path, "--users-per-day", 100) == 0
    text = capsys.readouterr().out
    users = plan(budgeted).users
    assert f"{users:,} users answer all" in text and f"{-(-users // 100):,} days" in text
    assert call("experiment", budgeted.path, "--guard", "recall@20=0.5", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [size["metric"] for size in found["sizes"]] == ["recall@20", "subtopic_coverage@10"]
    assert call("experiment", budgeted.path, "--guard", "recall@20=5") == 2
