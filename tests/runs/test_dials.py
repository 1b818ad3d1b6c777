"""Dials of a run: compiled when they are asked for, set by users, exported, and carried over a retraining."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recprism.errors import InputError
from recprism.forms.compiled import agreement_of
from recprism.forms.form import DialsForm
from recprism.forms.vectors import load_export
from recprism.models import Factors
from recprism.operate.refitted_run import refit_run
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.dials import dials_of, steer_run
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.export import export_run
from recprism.runs.jobs.train import evaluate_run, recommend
from recprism.runs.run import Run

ASKED = BudgetConfig(budgets={"ndcg@10": 0.2})


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    run = trained_run(3, 16)
    diversify_within(run, ASKED)
    return run


def exported(run: Run, folder: Path, **options: object) -> Factors:
    export_run(run, folder, "dials", **options)
    return load_export(folder)


@pytest.mark.parametrize("live", [True, False])
def test_some_users_have_the_dials_that_they_have_among_all(run: Run, live: bool) -> None:
    found = run.load_result()
    whole, some = found.dials(live=live), found.dials([5, 1, 9], live=live)
    rows = found.rows_of([5, 1, 9])
    np.testing.assert_array_equal(some.users, rows)
    np.testing.assert_allclose(some.weights[rows], whole.weights[rows], rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(some.given, whole.given[rows])
    np.testing.assert_array_equal(some.lists, found.ranked(rows, live=live)[0])
    assert (np.flatnonzero(np.abs(some.weights).sum(1)) == np.sort(rows)).all()


def test_an_inner_product_of_more_numbers_returns_the_lists(run: Run) -> None:
    found, problem = run.load_result(), run.problem()
    dials, base = found.dials(live=False), problem.factors
    model = dials.applied_to(base)
    assert model.dim == base.dim + len(dials.names)
    np.testing.assert_array_equal(problem.rank(model)[0], dials.given)
    scores = base.user @ base.item.T + dials.weights @ dials.categories.dense().T
    np.testing.assert_allclose(model.user @ model.item.T, scores, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("live", [True, False])
def test_the_figures_of_the_dials(run: Run, live: bool) -> None:
    found = dials_of(run, live=live)
    facts = found.to_dict()
    assert facts["lists_held"] > 0.95
    assert facts["explained_gain"] > 0.98
    assert facts["unit"] == "share of the user's score range"
    np.testing.assert_array_equal(found.dials.lists, run.load_result().ranked(live=live)[0])
    if live:  # no labels are left
        assert facts["ndcg_change"] is facts["wanted_ndcg_change"] is None
        return
    assert abs(facts["ndcg_change"] - facts["wanted_ndcg_change"]) < 0.03


@pytest.mark.slow
def test_dials_of_players_are_compiled_from_their_lists(searched_run: Callable[..., Run]) -> None:
    run = searched_run(iterations=20, diversity="subtopic_coverage")
    found = dials_of(run, live=False)
    np.testing.assert_array_equal(found.dials.lists, run.problem().rank(run.load_result().model)[0])
    assert 0 < found.dials.lists_held < 1, "weights of categories do not hold all lists of other vectors"
    with pytest.raises(InputError, match="players found this change, and no rule made its lists"):
        steer_run(run, 1, {"Animation": 0.2})


@pytest.mark.slow
def test_a_setting_is_kept_for_one_user_in_exported_dials(
    run: Run, trained_run: Callable[..., Run], tmp_path: Path
) -> None:
    lists, live = recommend(run, 10)[0], run.problem().live()
    before = live.rank(exported(run, tmp_path / "before"))[0]
    shown = steer_run(run, "1", {"Animation": 0.3}, keep=True)  # as text, as the command line passes it
    assert recommend(run, 10)[0].equals(lists), "the lists of the rule do not use settings"
    model = exported(run, tmp_path / "after")
    after, row = live.rank(model)[0], int(np.flatnonzero(model.user_ids == 1)[0])
    np.testing.assert_array_equal(after[row], shown.after)
    assert set(shown.after) != set(shown.before)
    others = np.arange(len(after)) != row
    np.testing.assert_array_equal(after[others], before[others], "a setting of one user changed another's list")
    column = run.factors().dim + run.categories().names.index("Animation")
    assert model.user[row, column] > 0.2 * (run.factors().user[row] @ run.factors().item.T).std()
    again = trained_run(4, 16)
    refit_run(again, run)
    assert again.steering() == {1: {"Animation": 0.3}}
    settings = run.folder / "steering.json"
    kept = settings.read_bytes()
    settings.unlink()
    with pytest.raises(InputError, match=r"steering\.json: is missing, and holds dials that users set"):
        run.load_result()
    settings.write_text('{"settings": []}')
    assert run.load_result().steering == {}
    settings.write_bytes(kept)
    steer_run(run, 1, {"Animation": 0.0}, keep=True)
    assert run.steering() == {}
    np.testing.assert_array_equal(live.rank(exported(run, tmp_path / "again"))[0], before)


@pytest.mark.slow
def test_a_setting_leaves_figures_and_lists_of_the_rule_alone(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    diversify_within(run, ASKED)
    run.save_metrics(evaluate_run(run, ("ndcg",), bootstrap=0).to_frame())
    run.save_recommendations(recommend(run, 5)[0])
    steer_run(run, 1, {"Animation": 0.3}, keep=True)
    assert run.measured() == "diversified"
    assert run.metrics()["metric"].to_list() == ["ndcg"]
    assert run.file("recommendations.parquet").exists()


@pytest.mark.slow
def test_boosts_and_dials_together_return_live_lists(trained_run: Callable[..., Run], tmp_path: Path) -> None:
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(goal="subtopic_coverage+shown_often", budgets={"ndcg@10": 0.3}))
    found = run.load_result()
    rule, live = found.own_rule(), found.context()
    assert rule.boosts is not None
    _, folder, made = export_run(run, tmp_path / "dials", "dials")
    wanted = DialsForm().compile(live, rule)  # weights, and the boosts of the certificate
    np.testing.assert_array_equal(live.rank(load_export(folder))[0], live.rank(wanted)[0])
    agreement = agreement_of(live, rule, wanted)
    assert made.agreement == agreement  # type: ignore[attr-defined]
    assert agreement.same_items > 0.7 * agreement.users


@pytest.mark.parametrize(
    ("user", "settings", "message"),
    [
        (1, {"Cooking": 0.1}, "there is no dial 'Cooking'; dials are Action"),
        (1, {"Animation": 2.0}, "the setting of Animation is 2.0; pass a number from -1 to 1"),
        (987654321, {"Animation": 0.1}, "987654321"),
        (1, {"live": 0.1}, "there is no dial 'live'"),  # a category may have the name of an argument
        (1, {"user": 0.1}, "there is no dial 'user'"),
    ],
)
def test_wrong_settings_are_refused(run: Run, user: int, settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        steer_run(run, user, settings)
