"""What is learned and chosen does not change when the test labels are replaced by random ones; the paper's preset does.

Who asks for ``certify_on="test"`` has it read: the path then ends where the test labels say so, and the certificate
tells.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recprism.budget.audit import BUDGETS, cost_of_diversity
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.cmb import CMB
from recprism.common.executor import LocalExecutor
from recprism.contest.fronts import frontier
from recprism.contest.methods import RIVALS, ours
from recprism.data import Dataset
from recprism.data.split import Split
from recprism.forms.compiled import agreement_of
from recprism.forms.form import CompiledForm, DialsForm, UserVectors
from recprism.models import BPRMF, Factors, LightGCN
from recprism.result.front import make_path
from recprism.result.result import Result
from recprism.rule.goal import Goal

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from contest import contest as grid
from contest.cases import Case, World

pytestmark = pytest.mark.slow
FEW = {"epochs": 12, "dim": 6}


def same(a: Factors, b: Factors) -> bool:
    return np.array_equal(a.user, b.user) and np.array_equal(a.item, b.item)


@pytest.fixture(scope="module")
def factors(split: Split) -> Factors:
    return BPRMF(**FEW).fit(split, seed=0, device="cpu")


@pytest.fixture(scope="module")
def problems(factors: Factors, split: Split, other: Split, world: Dataset) -> tuple[Problem, Problem]:
    """Before the test labels that are, and before the random ones."""
    return tuple(Problem(factors, it, world.categories, "test") for it in (split, other))  # type: ignore[return-value]


@pytest.mark.parametrize("model", [BPRMF, LightGCN])
def test_the_chosen_epoch_and_the_vectors(model: type, split: Split, other: Split) -> None:
    one, two = (model(**FEW).fit(it, seed=0, device="cpu") for it in (split, other))
    assert one.settings["best_epoch"] == two.settings["best_epoch"]
    assert same(one, two)


def test_the_paper_presets_model_reads_the_test(split: Split, other: Split) -> None:
    one, two = (BPRMF.preset("paper", epochs=2, dim=6).fit(it, seed=0, device="cpu") for it in (split, other))
    assert not same(one, two), "its negatives keep clear of held-out items"


@pytest.mark.parametrize(
    ("preset", "settings"),
    [("default", {}), ("default", {"side": "user"}), ("shared", {"accuracy": "recall", "iterations": 60})],
)
def test_the_delta_that_players_find(
    preset: str, settings: dict[str, str], factors: Factors, split: Split, other: Split, world: Dataset
) -> None:
    one, two = (
        CMB.preset(preset, **{"diversity": "subtopic_coverage", "iterations": 6, "device": "cpu", **settings}).fit(
            factors, it, world.categories
        )
        for it in (split, other)
    )
    assert same(one.factors_, two.factors_)
    assert not same(one.factors_, factors), "something moved"


def test_the_paper_presets_search_reads_the_test(factors: Factors, split: Split, other: Split, world: Dataset) -> None:
    # without its price of size, which settles every choice of so few iterations by itself
    settings = {
        "diversity": "subtopic_coverage",
        "accuracy": "recall",
        "lambda1": 0.0,
        "iterations": 30,
        "device": "cpu",
    }
    one, two = (CMB.preset("paper", **settings).fit(factors, it, world.categories) for it in (split, other))
    assert not same(one.factors_, two.factors_)


@pytest.mark.parametrize("form", [DialsForm(), UserVectors()], ids=lambda it: it.name)
def test_every_point_of_the_path_and_what_it_is_compiled_into(
    form: CompiledForm, problems: tuple[Problem, Problem]
) -> None:
    for trade_off in Goal.parse("subtopic_coverage").steps[::3]:
        rule, again = (rule_at(it, "subtopic_coverage", trade_off) for it in problems)
        assert rule == again
        first, second = (it.rank(rule)[0] for it in problems)
        assert np.array_equal(first, second)
        one, two = (form.compile(it, rule) for it in problems)
        assert same(one, two)
        assert agreement_of(problems[0], rule, one) == agreement_of(problems[1], rule, two)


@pytest.mark.parametrize("goal", ["subtopic_coverage", "shown_often"])
def test_the_rule_of_a_budget(goal: str, problems: tuple[Problem, Problem]) -> None:
    one, two = (Result.of_rule(it, within_budget(it, BudgetQuestion.of(goal, {"ndcg@10": 0.4}))) for it in problems)
    assert one.rule is not None and two.rule is not None
    assert one.to_dict() == two.to_dict()
    assert np.array_equal(one.rule.boosts, two.rule.boosts)  # type: ignore[arg-type]
    assert np.array_equal(one.ranked(live=False)[0], two.ranked(live=False)[0])


def test_the_points_that_the_studio_reaches(problems: tuple[Problem, Problem]) -> None:
    one, two = (make_path(it, "subtopic_coverage") for it in problems)
    assert one.part == "validation"
    assert (one.losses, one.certified_within) == (two.losses, two.certified_within)
    assert np.array_equal(one.lists, two.lists)
    assert one.means["ndcg@10"] != two.means["ndcg@10"], "what it measures is the test"


def test_a_certificate_on_the_test_is_the_one_reading(problems: tuple[Problem, Problem]) -> None:
    one, two = (within_budget(it, BudgetQuestion.of("sc", {"ndcg@10": 0.4}, part="test")) for it in problems)
    assert one.certificate.figures() != two.certificate.figures()
    assert "of the test part" in one.certificate.sentence()


def test_the_fronts(problems: tuple[Problem, Problem]) -> None:
    """Coverage needs no labels, so equal gains on the test are equal choices; what they cost there is read anew."""
    few = {"budgets": (0.05, 0.2), "rivals": ("xquad_uniform",)}
    one, two = (frontier(it.on("validation"), it, Goal.parse("sc"), **few) for it in problems)  # type: ignore[arg-type]
    gains, losses = (
        [[getattr(point, name) for front in fronts for point in front.points] for fronts in (one, two)]
        for name in ("gain", "loss")
    )
    assert gains[0] == gains[1]
    assert losses[0] != losses[1]
    assert len(gains[0]) > 3


def test_what_compare_chooses(
    world: Dataset,
    factors: Factors,
    split: Split,
    other: Split,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = ours("subtopic_coverage")
    few = {name: replace(it, space=it.space[:3]) for name, it in (("mmr", RIVALS["mmr"]), (own.name, own))}
    monkeypatch.setattr(grid, "entrants", lambda _: {it: grid.Entrant(few[it], grid.GOALS[:1]) for it in few})
    choices = {name: dict.fromkeys(range(3)) for name in few}
    picked = []
    for name, parts in (("one", split), ("two", other)):
        case = Case(World("made", "given"), 0, world, tmp_path / name, "cpu")
        case.split, case.model = parts, factors  # in the place of what it would compute
        grid._judge_once(case, grid.BASE, lambda problem: {"": problem.base_lists}, str, "validation")
        grid._follow([case], "validation", choices, str, LocalExecutor())
        picked.append(grid._choices_to_read(case, 1))
    assert picked[0] == picked[1]
    assert all(len(trade_offs) > 4 for of in picked[0].values() for trade_offs in of.values())


def test_the_paths_of_an_audit(problems: tuple[Problem, Problem]) -> None:
    one, two = (cost_of_diversity(it, BudgetQuestion.each(["sc", "pc"], BUDGETS)) for it in problems)
    for goal in one.paths:
        for first, second in zip(one.paths[goal].points, two.paths[goal].points, strict=True):
            assert np.array_equal(first.lists, second.lists)
        certified = [[reach.certified and reach.certified.trade_off for reach in it.stops[goal]] for it in (one, two)]
        assert certified[0] == certified[1]
    assert one.now["ndcg@10"].mean > 1.5 * two.now["ndcg@10"].mean, "what it measures is the test"
