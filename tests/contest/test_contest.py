"""The contest: gains at equal losses, with settings chosen on validation in every draw; resumable."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from contest import certificates, verdict
from contest import contest as grid
from contest.cases import Case, World
from contest.curves import COST, Curve, curve
from contest.equal_loss import Curves, Weights, chosen, drawn_curves, gain_at, over_seeds, read, smooth_losses
from contest.verdict import Estimate, keep_verdicts, record_of, world_verdicts
from recprism.budget.path import lists_at, walk
from recprism.budget.problem import Problem
from recprism.common.executor import LocalExecutor
from recprism.contest.fronts import hypervolume, paired
from recprism.contest.methods import RIVALS, Method
from recprism.data import Dataset
from recprism.metrics.statistics import holm
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.registry import make_model

pytestmark = pytest.mark.slow


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(c >= p and c <= 1 for c, p in zip(corrected, p_values, strict=True))
    order = np.argsort(p_values)
    assert (np.diff(np.asarray(corrected)[order]) >= 0).all()
    assert corrected[int(order[0])] == min(1.0, min(p_values) * len(p_values))


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


@given(arrays(np.float64, (7, 3), elements=st.floats(-0.2, 0.3)))
def test_smoothed_losses_are_those_of_isotonic_regression(losses: np.ndarray) -> None:
    from sklearn.isotonic import isotonic_regression

    for column, smooth in zip(losses.T, smooth_losses(losses).T, strict=True):
        np.testing.assert_allclose(smooth, isotonic_regression(column), atol=1e-12)


def test_gains_are_read_where_the_loss_is_reached() -> None:
    losses, gains = np.array([0.0, 0.01, 0.03]), np.array([0.0, 0.2, 0.4])
    assert gain_at(losses, gains, 0.02) == pytest.approx(0.3)
    assert gain_at(losses, gains, 0.05) == pytest.approx(0.4), "a method that never loses as much"
    assert gain_at(np.array([0.04, 0.06]), gains[1:], 0.02) == pytest.approx(0.1), "halfway from the base lists"
    assert gain_at(np.array([-0.02, 0.02]), gains[1:], 0.02) == pytest.approx(0.4), "a gain in accuracy is no loss"


def world_of(n_users: int, seed: int) -> tuple[dict[int, Curve], dict[str, np.ndarray]]:
    """Two choices with known gains at a loss of 2 %: 0.2 and 0.3, each with the noise of users."""
    rng = np.random.default_rng(seed)
    base = {COST: rng.gamma(1.0, 0.3, n_users), "subtopic_coverage@10": rng.random(n_users) + 0.5}
    trade_offs = np.array([0.1, 0.2, 0.4])
    found = {}
    for choice, slope in enumerate((10.0, 15.0)):
        noise = rng.normal(0, 0.02, (2, 3, n_users))
        cost = base[COST] * (1 - trade_offs[:, None] / 10 + noise[0])
        goal = base["subtopic_coverage@10"] * (1 + slope * trade_offs[:, None] / 10 + noise[1])
        values = {COST: cost.astype(np.float32), "subtopic_coverage@10": goal.astype(np.float32)}
        found[choice] = Curve(trade_offs, values)
    return found, base


def test_a_known_gain_is_within_its_interval_and_the_better_choice_is_made() -> None:
    inside = 0
    for seed in range(40):
        weights = Weights.drawn(600, 1, 200)
        validation, test = world_of(600, 2 * seed), world_of(600, 2 * seed + 1)
        drawn = [
            {at: drawn_curves(it, base, "subtopic_coverage@10", weights.users) for at, it in own.items()}
            for own, base in (validation, test)
        ]
        picks = chosen(drawn[0], 0.02)
        assert picks[0] == 1
        found = Estimate.of(read(drawn[1], picks, 0.02))
        inside += found.low <= 0.3 <= found.high
    assert inside >= 34, "95 % intervals hold the gain in most of 40 worlds"


def test_means_of_draws_are_those_of_repeated_users() -> None:
    (own, _), base = world_of(50, 0)[0].values(), world_of(50, 0)[1]
    base[COST][:5] = np.nan  # users who cannot be judged, whatever the lists
    own.values[COST][:, :5] = np.nan
    weights = Weights.drawn(50, 2, 3)
    found = drawn_curves(own, base, "subtopic_coverage@10", weights.users)
    rows = np.repeat(np.arange(50), weights.users[:, 2].astype(int))
    expected = 1 - np.nanmean(own.values[COST][:, rows].astype(float), 1) / np.nanmean(base[COST][rows])
    np.testing.assert_allclose(found.losses[:, 2], expected)
    twice = over_seeds([found, Curves(found.losses + 1, found.gains)], np.array([[1.0, 1.0], [2.0, 0.0]] * 2))
    np.testing.assert_allclose(twice.losses[:, 0], found.losses[:, 0] + 0.5)
    np.testing.assert_allclose(twice.losses[:, 1], found.losses[:, 1])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small contest: two rivals with two choices, two goals."""
    rivals = {
        name: Method(name, it.make, (it.space[0], it.space[-1]), it.together)
        for name, it in RIVALS.items()
        if name in ("xquad_uniform", "exposure")
    }
    monkeypatch.setattr(grid, "RIVALS", rivals)
    for module in (grid, verdict):
        monkeypatch.setattr(module, "GOALS", ("subtopic_coverage@10", "gini@10"))


def test_the_interval_of_a_mean_takes_worlds_of_one_data_set_to_err_together() -> None:
    generator = np.random.default_rng(0)
    shared, other = generator.normal(size=(2, 40_000))
    of_one = [np.append(m, m + sd * shared) for m, sd in ((0.0, 1.0), (2.0, 3.0))]
    of_two = [np.append(1.0, 1.0 + 2.0 * other)]
    several = {"one": [*map(Estimate.of, of_one)], "two": [*map(Estimate.of, of_two)]}
    found, expected = Estimate.mean_of(several), Estimate.of(np.mean([*of_one, *of_two], 0))
    assert [found.value, found.low, found.high] == pytest.approx(
        [expected.value, expected.low, expected.high], abs=0.05
    )


def test_a_small_world_runs_and_is_resumed(small: Dataset, tmp_path: Path, few: None) -> None:
    world = World("ml-latest-small", "bprmf")

    def run() -> list[str]:
        steps: list[str] = []
        grid.curves_of_world(
            [Case(world, seed, small, tmp_path, "cpu") for seed in range(2)], steps.append, LocalExecutor()
        )
        return steps

    steps = run()
    assert len(steps) == len(set(steps)) > 15
    found = world_verdicts(tmp_path, world, 2)
    assert [(cell.goal, cell.level) for cell in found] == [
        (goal, level) for goal in verdict.GOALS for level in (0.01, 0.02, 0.05)
    ]
    covered = found[2]
    assert covered.ours.gain.low > 0
    assert [it.method for it in covered.rivals] == ["greedy:subtopic_coverage", "xquad_uniform"]
    assert covered.best_name == "xquad_uniform"
    assert covered.scores_alone.choice["history_weight"] == 0
    assert {it.method for it in covered.others} >= {"popularity", "paper's CMB, learned"}
    keep_verdicts(tmp_path, world, found)
    elsewhere = World("ml-1m", "bprmf")
    record = record_of(tmp_path, [world, elsewhere], {})
    assert [it["world"] for it in record["worlds"]] == [world.slug], "a world that is not decided is left out"
    pooled = next(it for it in record["pooled"] if (it["goal"], it["level"]) == (covered.goal, covered.level))
    assert pooled["lead"] == pytest.approx(asdict(covered.greedy)), "the mean of one world is this world"
    earlier = {"worlds": [record["worlds"][0] | {"world": it.slug, "version": "0"} for it in (elsewhere, world)]}
    both = record_of(tmp_path, [world, elsewhere], earlier)["worlds"]
    assert [it["world"] for it in both] == [world.slug, elsewhere.slug], "a world that was decided elsewhere stays"
    assert both[0] == record["worlds"][0], "a world that is decided again replaces its record"
    assert run() == [], "finished pieces are not made again"
    lost = tmp_path / world.slug / "seed-1" / "test" / "exposure.npz"
    before = dict(np.load(lost))
    lost.unlink()
    assert len(run()) == 1
    assert all(np.array_equal(array, before[name], equal_nan=True) for name, array in np.load(lost).items())


def test_trade_offs_lie_where_losses_cross_the_levels(small: Dataset) -> None:
    split = small.split("random", seed=0)
    problem = Problem(
        make_model("bprmf", epochs=3, patience=None).fit(split, seed=0), split, small.categories, "validation"
    )
    method = RIVALS["xquad_uniform"]
    found = curve(method, method.space[0], problem, ("subtopic_coverage@10",))
    assert (np.diff(found.trade_offs) > 0).all()
    again = curve(method, method.space[0], problem, ("subtopic_coverage@10",), found.trade_offs.tolist())
    for name, values in found.values.items():
        np.testing.assert_array_equal(values, again.values[name])


def test_a_second_stage_knows_history_and_popularity(small: Dataset, tmp_path: Path) -> None:
    plain, second = (
        Case(World("ml-latest-small", name), 0, small, tmp_path, "cpu") for name in ("bprmf", "bprmf+history")
    )
    assert isinstance(second.model, ScoredCandidates)
    before, after = (
        np.nanmean(case.validation.judge(case.validation.base_lists, (COST,))[COST]) for case in (plain, second)
    )
    assert after >= before, "weights of 0 are among those that validation chooses from"


def test_hypervolume() -> None:
    assert hypervolume([], 0.1) == 0
    assert hypervolume([(0.02, 0.1)], 0.1) == pytest.approx(80)
    assert hypervolume([(0.02, 0.1), (0.3, 5.0)], 0.1) == pytest.approx(80), "a point beyond the limit does not count"
    assert hypervolume([(0.0, 0.1), (0.05, 0.05)], 0.1) == pytest.approx(100), "a dominated point adds nothing"


def test_a_model_trained_elsewhere_is_used(small: Dataset, tmp_path: Path) -> None:
    """Scores without vectors, put into the folder: nothing is trained."""
    case = Case(World("ml-latest-small", "elsewhere"), 0, small, tmp_path)
    items = np.argsort(np.random.default_rng(0).random((case.split.n_users, case.split.n_items)), 1)[:, :60]
    case.folder.mkdir(parents=True)
    np.savez(case.folder / "model.npz", items=items, scores=np.tile(-np.arange(60, dtype=np.float32), (len(items), 1)))
    assert isinstance(case.model, ScoredCandidates)
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
