"""The contest: resumable, paired, corrected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contest import ceilings, certificates, promotion, verdict
from contest import contest as grid
from contest.cases import Case, World
from contest.record import contest_record
from contest.verdict import MethodResult, effect, table
from recprism.budget.path import lists_at, walk
from recprism.budget.problem import Problem
from recprism.contest import tuning
from recprism.contest.fronts import hypervolume, paired
from recprism.contest.methods import RIVALS
from recprism.data import Dataset
from recprism.metrics.statistics import holm
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.registry import make_model
from recprism.rule.goal import GoalTerm, ShownOften

pytestmark = pytest.mark.slow


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(c >= p and c <= 1 for c, p in zip(corrected, p_values, strict=True))
    order = np.argsort(p_values)
    assert (np.diff(np.asarray(corrected)[order]) >= 0).all()
    assert corrected[int(order[0])] == min(1.0, min(p_values) * len(p_values))


def test_a_gain_counts_only_within_the_budget() -> None:
    kept, over = MethodResult("a", 0.01, 0.3), MethodResult("b", 0.03, 0.4)
    assert verdict._outcome(kept, over, 0.01, -0.1, 0.001) == "tied", "the rival is better but overspent"
    assert verdict._outcome(over, kept, 0.01, 0.1, 0.001) == "tied", "ours are better but overspent"
    assert verdict._outcome(kept, MethodResult("b", 0.0, 0.2), 0.01, 0.1, 0.001) == "won"
    assert verdict._outcome(MethodResult("a", 0.0, 0.1), kept, 0.01, -0.2, 0.001) == "lost"
    assert verdict._outcome(kept, kept, 0.01, 0.0, 0.9) == "tied"


def test_pairs_are_users_or_seeds() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(500)
    p, lead = paired([base + 0.01, base + 0.02], [base, base])
    assert lead == pytest.approx(0.015)
    assert p < 1e-9
    p, lead = paired([np.array([0.5]), np.array([0.6])], [np.array([0.4]), np.array([0.45])])
    assert lead == pytest.approx(0.125)
    assert 0.05 < p < 0.5, "two seeds give a wide interval"
    assert paired([np.array([0.5])], [np.array([0.4])])[0] == 1.0, "one seed cannot be tested"


def test_intervals_hold_users_together() -> None:
    """A user who is in every seed is one unit: twice the same seed gives no narrower interval."""
    rng = np.random.default_rng(1)
    differences = rng.normal(0.1, 1.0, 400)
    one, two = effect([differences]), effect([differences, differences])
    assert one == two
    assert one.low is not None
    assert one.high is not None
    assert one.high - one.low == pytest.approx(2 * 1.96 * differences.std() / 20, rel=0.1)
    gaps = np.where(np.arange(400) < 40, np.nan, differences)
    assert effect([gaps]).mean == pytest.approx(np.nanmean(gaps))


def test_intervals_of_one_value_per_seed() -> None:
    assert effect([np.array([0.1])]).low is None
    found = effect([np.array([it]) for it in (0.1, 0.2, 0.3)])
    assert found.mean == pytest.approx(0.2)
    assert found.high == pytest.approx(0.2 + 4.303 * 0.1 / 3**0.5, rel=1e-3)


@pytest.mark.parametrize(("goal", "sign"), [("gini@10", -1), ("shown_often@10", 1)])
def test_a_cell_of_all_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: str, sign: int) -> None:
    """Ours move the goal by a tenth of the base, greedy by a twentieth, the rival by nothing."""
    world = World("data", "model")
    monkeypatch.setattr(verdict, "RIVALS", {"mmr": RIVALS["mmr"]})
    label, cell = goal.partition("@")[0], grid.key(goal, 0.01)
    for seed in range(3):
        folder = tmp_path / world.slug / f"seed-{seed}" / "test"
        folder.mkdir(parents=True)
        shift = {"base": 0.0, f"ours_{label}": 0.1 + 0.001 * seed, f"greedy_{label}": 0.05, "mmr": 0.0}
        for name, moved in shift.items():
            at = "" if name == "base" else cell
            values = {f"{at}/{goal}": np.array([0.5 * (1 + sign * moved)]), f"{at}/ndcg@10": np.full(9, 0.3)}
            np.savez(folder / f"{name}.npz", **values)
        np.savez(folder / "popularity.npz", **{f"/{goal}": np.array([0.5]), "/ndcg@10": np.full(9, 0.1)})
    found = verdict._Cell(tmp_path, world, 3, goal, 0.01).verdict()
    assert found.unit == "seeds"
    assert found.ours.gain == pytest.approx(0.101)
    assert found.greedy.effect.mean == pytest.approx(0.051)
    assert found.best.rival.method == "greedy"
    assert found.outcome == "won"
    assert found.served is None
    assert found.popularity.loss == pytest.approx(2 / 3)
    assert [it.method for it in found.others] == ["popularity"], "what was not judged is left out"


def test_hypervolume() -> None:
    assert hypervolume([], 0.1) == 0
    assert hypervolume([(0.02, 0.1)], 0.1) == pytest.approx(80)
    assert hypervolume([(0.02, 0.1), (0.3, 5.0)], 0.1) == pytest.approx(80), "a point beyond the limit does not count"
    assert hypervolume([(0.0, 0.1), (0.05, 0.05)], 0.1) == pytest.approx(100), "a dominated point adds nothing"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small contest: two rivals, four trials, one ceiling, two stops of a path."""
    rivals = {name: RIVALS[name] for name in ("xquad_uniform", "exposure")}
    for module in (grid, verdict):
        monkeypatch.setattr(module, "RIVALS", rivals)
    monkeypatch.setattr(tuning, "CHOICES", 2)
    monkeypatch.setattr(grid, "STRENGTHS", (0.5, 2.0))
    monkeypatch.setattr(promotion, "GOALS", ("subtopic_coverage",))
    monkeypatch.setattr(promotion, "RELEVANCE", (0.5,))
    monkeypatch.setattr(grid, "ceilings", lambda problem: [ceilings.coverage_ceiling(problem, 0.3)])
    for term in (GoalTerm, ShownOften):
        monkeypatch.setattr(term, "steps", (0.05, 0.2))


def test_a_small_grid_runs_and_is_resumed(small: Dataset, tmp_path: Path, few: None) -> None:
    steps: list[str] = []
    worlds = (World("ml-latest-small", "bprmf"),)

    def run(note: Any, seeds: int = 2) -> None:
        grid.compare(
            worlds,
            lambda _: small,
            tmp_path,
            seeds=seeds,
            trials=4,
            device="cpu",
            on_step=note,
        )

    run(steps.append)
    assert len(steps) == len(set(steps)) > 20
    cells = table(tmp_path, worlds, seeds=2)
    assert len(cells) == 10
    for cell in cells:
        assert {duel.rival.method for duel in cell.duels} == {"greedy", "xquad_uniform", "exposure", "reweighted_bpr"}
        assert cell.outcome in ("won", "tied", "lost")
        assert cell.served is not None
        assert cell.to_dict()["ours"]["gain"] == cell.ours.gain
    covered = next(cell for cell in cells if (cell.goal, cell.budget) == ("subtopic_coverage@10", 0.05))
    assert covered.ours.gain > 0.1
    assert covered.served.gain > 0.9 * covered.ours.gain  # type: ignore[union-attr]
    assert covered.unit == "users"
    kept = contest_record(tmp_path, worlds, cells, seeds=2)
    assert len(json.loads(json.dumps(kept))["cells"]) == 10
    assert len(kept["certificates"]) == 5 * 3
    for row in kept["certificates"]:
        assert row["trade_off"] is None or row["loss"] <= row["budget"]
    assert kept["seconds"]["ml-latest-small-bprmf-random"] > 0
    again: list[str] = []
    run(again.append)
    assert not again, "finished pieces are not run again"
    lost = tmp_path / "ml-latest-small-bprmf-random" / "seed-1" / "test" / "exposure.npz"
    before = dict(np.load(lost))
    lost.unlink()
    run(again.append)
    assert len(again) == 1
    assert all(np.array_equal(array, before[name], equal_nan=True) for name, array in np.load(lost).items())


def test_a_model_trained_elsewhere_is_used(small: Dataset, tmp_path: Path) -> None:
    """Scores without vectors, put into the folder: nothing is trained, and dials are not judged."""
    case = Case(World("ml-latest-small", "elsewhere"), 0, small, tmp_path)
    items = np.argsort(np.random.default_rng(0).random((case.split.n_users, case.split.n_items)), 1)[:, :60]
    case.folder.mkdir(parents=True)
    np.savez(case.folder / "model.npz", items=items, scores=np.tile(-np.arange(60, dtype=np.float32), (len(items), 1)))
    assert isinstance(case.model, ScoredCandidates)
    assert not case.has_vectors
    assert "promotion" not in grid.methods(case)
    np.testing.assert_array_equal(case.model.items, items)


def test_random_splits_have_new_seeds(small: Dataset, tmp_path: Path) -> None:
    found = Case(World("ml-latest-small", "bprmf"), 3, small, tmp_path).split
    assert found.settings["seed"] == 203
    np.testing.assert_array_equal(found.test.keys, small.split("random", seed=203).test.keys)


def test_certificates_need_no_stop_after_a_refusal(small: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of the whole path, and the test's loss is that of the certified lists."""
    split = small.split("random", seed=0)
    factors = make_model("bprmf", epochs=3, patience=None).fit(split, seed=0)
    validation, test = (Problem(factors, split, small.categories, part) for part in ("validation", "test"))
    goal, metric = "subtopic_coverage", "ndcg@10"
    monkeypatch.setattr(certificates, "AT_ONCE", 3)
    rows = certificates.certificate_outcomes(validation, test, (f"{goal}@10",), (0.05, 0.3))
    path = walk(validation, goal, (metric,))
    for row in rows:
        last = path.certificate({metric: row["budget"]}).last
        assert row["trade_off"] == (None if last is None else path.points[last].trade_off)
    certified = rows[-1]
    assert certified["trade_off"] is not None
    base, new = (
        np.nanmean(test.judge(lists, (metric,))[metric])
        for lists in (test.base_lists, lists_at(test, goal, certified["trade_off"]))
    )
    assert certified["test_loss"] == pytest.approx(1 - new / base)
    assert certified["test_users"] == int((split.test.row_counts > 0).sum())
