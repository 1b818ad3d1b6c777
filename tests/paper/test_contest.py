"""The contest: resumable, paired, corrected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.data import Dataset
from recprism.metrics._statistics import holm
from recprism.paper import contest as grid
from recprism.paper import verdict
from recprism.paper.fronts import hypervolume
from recprism.paper.tuning import RIVALS, planned
from recprism.paper.verdict import MethodResult, paired, table

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


def test_gini_is_next_to_catalogue_coverage(tmp_path: Path) -> None:
    case = grid.ContestCase("data", "model", 0, "random")
    folder = tmp_path / case.slug / "seed-0" / "test"
    folder.mkdir(parents=True)
    for name, gini in (("base", 0.8), ("rival", 0.6)):
        values = {"ndcg@10": 0.5, "catalogue_coverage@10": 0.2, "subtopic_coverage@10": 0.3, "gini@10": gini}
        np.savez(folder / f"{name}.npz", **{f"/{metric}": np.array([value]) for metric, value in values.items()})
    np.savez(folder / "early.npz", **{f"/{metric}": np.array([0.5]) for metric in ("ndcg@10", "catalogue_coverage@10")})

    def result(name: str, goal: str) -> MethodResult:
        mine, base = (verdict._values([case], tmp_path, it, "", goal) for it in (name, "base"))
        return verdict._result(name, mine, base)

    assert result("rival", "catalogue_coverage@10").gini == pytest.approx(-0.25)
    assert result("rival", "subtopic_coverage@10").gini is None
    assert result("early", "catalogue_coverage@10").gini is None, "kept by an earlier version"


def test_hypervolume() -> None:
    assert hypervolume([], 0.1) == 0
    assert hypervolume([(0.02, 0.1)], 0.1) == pytest.approx(80)
    assert hypervolume([(0.02, 0.1), (0.3, 5.0)], 0.1) == pytest.approx(80), "a point beyond the limit does not count"
    assert hypervolume([(0.0, 0.1), (0.05, 0.05)], 0.1) == pytest.approx(100), "a dominated point adds nothing"


def test_a_small_grid_runs_and_is_resumed(small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: replace(RIVALS[name], choices=RIVALS[name].choices[:2]) for name in ("xquad_uniform", "exposure")}
    for module in (grid, verdict):
        monkeypatch.setattr(module, "RIVALS", few)
    monkeypatch.setattr(grid, "planned", lambda goal: replace(planned(goal), choices=planned(goal).choices[:1]))
    monkeypatch.setattr("recprism.paper.tuning.TRADE_OFFS", (0.1, 0.4))
    monkeypatch.setattr("recprism.paper.tuning.REFINEMENTS", 1)
    steps: list[str] = []
    cases = (("ml-latest-small", "bprmf"),)
    left = grid.pieces_left(cases, tmp_path, seeds=2)
    grid.compare(cases, lambda _: small, tmp_path, seeds=2, device="cpu", on_step=steps.append)
    assert len(steps) == left, "the progress bar has the right total"
    assert grid.pieces_left(cases, tmp_path, seeds=2) == 0
    assert any("tuning" in step for step in steps)
    cells = table(tmp_path, cases, seeds=2)
    assert len(cells) == 8
    for cell in cells:
        assert {duel.rival.method for duel in cell.duels} == set(few)
        assert cell.outcome in ("won", "tied", "lost")
        assert cell.to_dict()["ours"]["gain"] == cell.ours.gain
    covered = next(cell for cell in cells if (cell.goal, cell.budget) == ("subtopic_coverage@10", 0.05))
    assert covered.ours.gain > 0.1
    assert covered.share_of_ceiling > 0.9
    again: list[str] = []
    grid.compare(cases, lambda _: small, tmp_path, seeds=2, device="cpu", on_step=again.append)
    assert not again, "finished pieces are not run again"
