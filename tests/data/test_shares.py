"""A share is read the same way everywhere: 0.05 and 5% are one number, 5 is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism import Diversifier, Factors
from recprism.budget.audit import cost_of_diversity
from recprism.budget.certifying import certify
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.common.shares import share
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.operate.refit import refit
from recprism.rule import Constraints
from recprism.runs.config import BudgetConfig, RunConfig, read_config


@pytest.mark.parametrize("written", [0.05, "0.05", "5%", "5 %", " 5% ", np.float64(0.05), "5e-2", ".05"])
def test_a_share_may_be_written_in_two_ways(written: Any) -> None:
    assert share(written, "budget") == 0.05


@given(st.integers(0, 10_000))
def test_a_percentage_is_exact(basis_points: int) -> None:
    assert share(f"{basis_points / 100}%", "budget") == share(basis_points / 10_000, "budget") == basis_points / 10_000


@pytest.mark.parametrize("written", [5, "5", 5.0, 1.5, 95])
def test_a_number_above_one_is_asked_about(written: Any) -> None:
    with pytest.raises(InputError, match=rf"^budget: {written} is not a share from 0 to 1; did you mean {written}%\?$"):
        share(written, "budget")


@pytest.mark.parametrize("written", [math.nan, math.inf, -math.inf, "nan", "inf%", "", "%", "five", "-5%", True, None])
def test_other_values_are_refused(written: Any) -> None:
    with pytest.raises(InputError, match=r"^budget: .+ is not a share from 0 to 1; write one such as 0\.05 or 5%$"):
        share(written, "budget")


def test_a_gain_above_one_is_written_in_percent() -> None:
    assert share("150%", "gain", high=math.inf) == 1.5
    with pytest.raises(InputError, match=r"did you mean 1\.5%"):
        share(1.5, "gain", high=math.inf)


@pytest.fixture(scope="module")
def problem(small: Dataset) -> Problem:
    """Random vectors: shares are read before any work is done."""
    assert small.categories is not None
    split, draw = small.split(seed=0), np.random.default_rng(0)
    user, item = (draw.normal(size=(n, 4)).astype(np.float32) for n in (split.n_users, split.n_items))
    factors = Factors.from_arrays(user, item, user_ids=split.user_ids, item_ids=split.item_ids)
    return Problem(factors, split, small.categories, "test")


BASE = {"ndcg@10": np.tile([0.2, 0.4, 0.6], 400)}
POINT = {"ndcg@10": BASE["ndcg@10"] + np.tile([0.05, -0.05, 0.0, 0.0], 300)}


def test_python_accepts_both(problem: Problem) -> None:
    assert certify(BASE, [POINT], {"ndcg@10": "1%"}, confidence="95 %") == certify(BASE, [POINT], {"ndcg@10": 0.01})
    as_text, as_number = (
        within_budget(problem, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": it}, trade_offs=(0.1,)))
        for it in ("5%", 0.05)
    )
    assert as_text.certificate == as_number.certificate
    assert Constraints(max_share={"a": "20%"}).max_share == {"a": 0.2}


@pytest.mark.parametrize(
    "ask",
    [
        lambda _: BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 5}),
        lambda _: BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.05}, confidence=95),
        lambda _: BudgetQuestion.each(["subtopic_coverage"], [5]),
        lambda _: BudgetQuestion.each(["subtopic_coverage"], [0.05], {"recall@20": 2}),
        lambda it: cost_of_diversity(it, BudgetQuestion.each(["subtopic_coverage"], [0.05]), show=5),
        lambda it: Diversifier(budget=5).fit(it.factors, it.split),
        lambda _: certify(BASE, [POINT], {"ndcg@10": 5}),
        lambda _: Constraints(tail_floor=5),
        lambda it: refit(it, None, BudgetQuestion.of("sc", {"ndcg@10": 0.05}), trade_off=0.1, max_churn=20),  # type: ignore[arg-type]
        lambda _: BudgetConfig(budgets={"ndcg@10": 5}),
        lambda _: RunConfig.model_validate({"split": {"test": 10}}),
    ],
)
def test_python_asks_about_a_number_above_one(ask: Callable[[Problem], Any], problem: Problem) -> None:
    with pytest.raises(ValueError, match=r"\b(\d+) is not a share .*; did you mean \1%\?"):
        ask(problem)


TOML = """
format = 4

[split]
validation = {validation}

[diversify.within.budgets]
"ndcg@10" = {budget}

[diversify.within.constraints]
tail_floor = "10%"
"""


def test_toml_accepts_both_and_names_the_place(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(TOML.format(validation='"10 %"', budget='"5%"'), encoding="utf-8")
    found = read_config(path)
    assert found.split.validation == 0.1
    assert found.diversify is not None
    assert found.diversify.within is not None
    assert found.diversify.within.budgets == {"ndcg@10": 0.05}
    assert found.diversify.within.constraints.tail_floor == 0.1
    path.write_text(TOML.format(validation="0.1", budget="5"), encoding="utf-8")
    wanted = f"{path}: diversify.within.budgets.ndcg@10: 5 is not a share above 0 and below 1; did you mean 5%?"
    with pytest.raises(InputError, match=f"^{re.escape(wanted)}$"):
        read_config(path)


def test_a_split_accepts_both(small: Dataset) -> None:
    numbers, text = small.split(validation=0.2, test=0.1), small.split(validation="20%", test="10 %")
    assert np.array_equal(numbers.validation.indices, text.validation.indices)
    with pytest.raises(InputError, match=r"^validation: 20 is not a share from 0 to 1; did you mean 20%\?$"):
        small.split("temporal", validation=20)
