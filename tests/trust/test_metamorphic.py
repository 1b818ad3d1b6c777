"""Changes of the input that must not change the answer, or must change it in a known way.

Relabelling: ids are put in order, and seeds count rows in that order. So names that keep the order change nothing, and
names in another order are another draw of the same world: with the vectors given, lists are the same by id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.cmb import CMB
from recprism.cmb.factors import Change, Evaluator, explain
from recprism.data import Dataset
from recprism.data.split import Split
from recprism.forms import DialsForm
from recprism.models import BPRMF, Factors

pytestmark = pytest.mark.slow
FEW = {"epochs": 8, "dim": 6}
METRICS = (
    "ndcg@10",
    "recall@10",
    "subtopic_coverage@10",
    "alpha_ndcg@10",
    "ilad_subtopics@10",
    "catalogue_coverage@10",
)


@pytest.fixture(scope="module")
def factors(split: Split) -> Factors:
    return BPRMF(**FEW).fit(split, seed=0, device="cpu")


@pytest.fixture(scope="module")
def problem(factors: Factors, split: Split, world: Dataset) -> Problem:
    return Problem(factors, split, world.categories, "test")


def written(folder: Path, interactions: Sequence[str], categories: Sequence[str]) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "a.csv", folder / "s.csv"
    for path, rows in zip(paths, (interactions, categories), strict=True):
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return paths


# -- files ------------------------------------------------------------------------------------------------------------


def shuffled(rows: Sequence[str]) -> list[str]:
    head, *rest = rows
    return [head, *np.random.default_rng(3).permutation(rest).tolist()]


def renamed(rows: Sequence[str], rename: Callable[[str, str], str]) -> list[str]:
    names, *rest = (row.split(",") for row in rows)
    kept = [[rename(name, cell) for name, cell in zip(names, row, strict=True)] for row in rest]
    return [",".join(row) for row in (names, *kept)]


def as_text(column: str, cell: str) -> str:
    """Ids as words that sort as the numbers did."""
    return f"{column[0]}-{int(cell):06d}" if column.endswith("_id") else cell


def larger(column: str, cell: str) -> str:
    return str(3 * int(cell) + 7) if column.endswith("_id") else cell


@pytest.mark.parametrize("change", ["reordered rows", "larger numbers", "text"])
def test_files_through_the_command_line(
    change: str, files: object, call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same split, vectors to the bit, figures and lists, up to the names."""
    tables = (files.interactions, files.categories)  # type: ignore[attr-defined]
    how = {
        "reordered rows": shuffled,
        "larger numbers": lambda rows: renamed(rows, larger),
        "text": lambda rows: renamed(rows, as_text),
    }[change]
    lists, vectors, figures = [], [], []
    for name, both in (("before", tables), ("after", tuple(map(how, tables)))):
        data, categories = written(tmp_path / name, *both)
        run = tmp_path / name / "run"
        words = ("--data", data, "--categories", categories, "--device", "cpu", "--set", "epochs=4", "--set", "dim=5")
        assert call("train", "-o", run, *words) == 0, capsys.readouterr().err
        assert call("diversify", run, "--budget", "0.5", "-m", "subtopic_coverage@10") == 0, capsys.readouterr().err
        assert call("recommend", run, "-o", tmp_path / name / "lists.parquet") == 0
        assert call("evaluate", run, "--bootstrap", "0", "-o", tmp_path / name / "m.parquet") == 0
        vectors.append(Factors.load(run / "factors.safetensors"))
        lists.append(pl.read_parquet(tmp_path / name / "lists.parquet"))
        figures.append(pl.read_parquet(tmp_path / name / "m.parquet"))
    capsys.readouterr()
    before, after = vectors
    assert np.array_equal(before.user, after.user)
    assert np.array_equal(before.item, after.item)
    assert figures[0].equals(figures[1])
    assert lists[0]["score"].equals(lists[1]["score"])
    for side in ("user_id", "item_id"):
        numbers = [column.rank("dense") for column in (lists[0][side], lists[1][side])]
        assert numbers[0].equals(numbers[1])


def test_another_order_of_ids_gives_the_same_lists_by_id(factors: Factors, split: Split) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.permutation(factors.n_users), rng.permutation(factors.n_items)
    moved = factors.of_users(users).of_items(items)
    seen = split.of_users(users).of_items(items).seen_before("test")
    before, after = factors.rank(10, exclude=split.seen_before("test"))[0], moved.rank(10, exclude=seen)[0]
    assert np.array_equal(factors.item_ids[before[users]], moved.item_ids[after])


# -- users ------------------------------------------------------------------------------------------------------------


def test_users_counted_twice(problem: Problem, factors: Factors, split: Split, world: Dataset) -> None:
    """Every user's list, and every mean over users; a twin's list is the user's."""
    n = factors.n_users
    rows = np.concatenate([np.arange(n), np.arange(n)])
    ids = np.arange(2 * n)
    twice = replace(split.of_users(rows), user_ids=ids)
    doubled = replace(factors.of_users(rows), user_ids=ids)
    twins = Problem(doubled, twice, world.categories, "test")
    assert np.array_equal(twins.base_lists, np.tile(problem.base_lists, (2, 1)))
    for trade_off in (0.1, 0.3):
        rule = rule_at(problem, "subtopic_coverage", trade_off)
        assert rule_at(twins, "subtopic_coverage", trade_off) == rule
        by_dials = [it.rank(DialsForm().compile(it, rule))[0] for it in (problem, twins)]
        assert np.array_equal(by_dials[1], np.tile(by_dials[0], (2, 1)))
        one, two = (it.rank(rule)[0] for it in (problem, twins))
        assert np.array_equal(two, np.tile(one, (2, 1)))
        means = [
            {name: np.nanmean(value) for name, value in it.judge(lists, METRICS).items()}
            for it, lists in ((problem, one), (twins, two))
        ]
        assert means[0] == pytest.approx(means[1], rel=1e-9)


# -- axes and scale ---------------------------------------------------------------------------------------------------


def on_other_axes(dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An invertible matrix for users, not too near a singular one, and the one for items that undoes it."""
    rng = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(rng.normal(size=(dim, dim)))
    matrix = left @ np.diag(rng.uniform(0.3, 3.0, dim)) @ right
    return matrix, np.linalg.inv(matrix).T


def turned(factors: Factors, seed: int) -> Factors:
    user, item = on_other_axes(factors.dim, seed)
    return factors.with_vectors(
        user=(factors.user @ user).astype(np.float32), item=(factors.item @ item).astype(np.float32)
    )


@pytest.mark.parametrize("seed", range(5))
def test_axes_change_no_list_and_no_budget(seed: int, problem: Problem) -> None:
    other = Problem(turned(problem.factors, seed), problem.split, problem.categories, "test")
    assert np.array_equal(problem.base_lists, other.base_lists)
    one, two = (within_budget(it, BudgetQuestion.of("sc", {"ndcg@10": 0.3})) for it in (problem, other))
    assert one.rule is not None and two.rule is not None
    assert one.rule.trade_off == two.rule.trade_off > 0
    lists = [it.rank(kept.rule)[0] for kept, it in ((one, problem), (two, other))]
    # which of two items that are worth the same comes in may turn on the last digit
    assert np.mean(np.sort(lists[0]) == np.sort(lists[1])) > 0.995
    first, second = (kept.certificate.figures()["ndcg@10"] for kept in (one, two))
    assert first == pytest.approx(second, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_an_explanation_on_canonical_axes_stays(seed: int, problem: Problem, world: Dataset) -> None:
    model = CMB(diversity="subtopic_coverage", iterations=8, device="cpu").fit(
        problem.factors, problem.split, world.categories
    )
    user, item = on_other_axes(problem.factors.dim, seed)
    change = Change.of(model.base_, model.delta_)
    maps = {"user": user, "item": item}
    moved = {side: (values @ maps[side]).astype(np.float32) for side, values in change.sides.items()}
    same = Change(turned(problem.factors, seed), **moved)
    told = [
        explain(it, Evaluator.on(problem.split, "test", it.base, world.categories, METRICS), axes="svd", draws=0)
        for it in (change, same)
    ]
    assert told[0].base == pytest.approx(told[1].base, rel=1e-6)
    assert told[0].after == pytest.approx(told[1].after, rel=1e-6)
    one, two = (it.factors for it in told)
    assert [(row.label, row.side, row.raised, row.lowered) for row in one] == [
        (row.label, row.side, row.raised, row.lowered) for row in two
    ]
    assert [row.size for row in one] == pytest.approx([row.size for row in two], rel=1e-3)


@pytest.mark.parametrize("factor", [4.0, 0.125, 3.7, 1e-3])
def test_the_scale_of_scores_changes_nothing(factor: float, problem: Problem) -> None:
    scaled = problem.factors.with_vectors(user=(problem.factors.user * np.float32(factor)))
    other = Problem(scaled, problem.split, problem.categories, "test")
    assert np.array_equal(problem.base_lists, other.base_lists)
    judged = [it.judge(it.base_lists, METRICS) for it in (problem, other)]
    assert all(np.array_equal(judged[0][name], judged[1][name], equal_nan=True) for name in METRICS)
    one, two = (within_budget(it, BudgetQuestion.of("sc", {"ndcg@10": 0.3})) for it in (problem, other))
    assert one.rule is not None and one.rule == two.rule
    assert one.rule.trade_off > 0
    assert one.certificate.figures() == two.certificate.figures()
