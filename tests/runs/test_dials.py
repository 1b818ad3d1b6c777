"""Dials of a run: stored, read, served, set by users, and carried over a retraining."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from recprism.budget.diversified import serve
from recprism.forms.live import live_model
from recprism.deploy.refitted_run import refit_run
from recprism.errors import InputError
from recprism.models import Factors
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.dials import dials_of, steer_run
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import evaluate_run, recommend
from recprism.runs.run import Run

ASKED = BudgetConfig(budgets={"ndcg@10": 0.2})


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    run = trained_run(3, 16)
    diversify_within(run, ASKED)
    return run


@pytest.mark.slow
def test_stored_dials_are_those_that_were_found(run: Run, trained_run: Callable[..., Run]) -> None:
    other = trained_run(3, 16)
    found = diversify_within(other, ASKED).dials
    read = Run.open(run.path).load_result().dials
    assert found is not None
    assert read is not None
    for name in ("weights", "lists", "base_lists", "given", "feasible", "score_range"):
        np.testing.assert_array_equal(getattr(read, name), getattr(found, name))
    assert (read.names, read.to_dict()) == (found.names, found.to_dict())


def test_an_inner_product_of_more_numbers_serves_the_lists(run: Run) -> None:
    found, scenario = run.load_result(), run.scenario()
    model = found.model
    assert isinstance(model, Factors)
    assert found.dials is not None
    assert model.dim == found.base.dim + len(found.dials.names)
    np.testing.assert_array_equal(scenario.rank(model)[0], found.dials.given)
    scores = found.base.user @ found.base.item.T + found.dials.weights @ found.dials.concepts.values.T
    np.testing.assert_allclose(model.user @ model.item.T, scores, atol=1e-4)


def test_the_figures_of_the_dials(run: Run) -> None:
    found = dials_of(run)
    facts = found.to_dict()
    assert facts["lists_held"] > 0.95
    assert facts["explained_gain"] > 0.98
    assert facts["unit"] == "share of the user's score range"
    assert abs(facts["ndcg_change"] - facts["wanted_ndcg_change"]) < 0.03
    ordered = dials_of(run, ordered=True)
    assert ordered.dials.ordered
    assert ordered.dials.lists_held < found.dials.lists_held, "order asks for more"


@pytest.mark.slow
def test_dials_of_user_vectors_are_compiled_from_the_lists(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    diversify_within(run, ASKED.model_copy(update={"into": "user-vectors"}))
    assert run.load_result().dials is None
    assert dials_of(run).dials.lists_held > 0.9
    with pytest.raises(InputError, match="served by user-vectors, and only dials can be set"):
        steer_run(run, 1, {"Animation": 0.2})


@pytest.mark.slow
def test_a_setting_is_kept_for_one_user_in_every_list(run: Run, trained_run: Callable[..., Run]) -> None:
    before = recommend(run, 10)
    shown = steer_run(run, "1", {"Animation": 0.3}, keep=True)  # as text, as the command line passes it
    after = recommend(run, 10)
    mine = after.filter(after["user_id"] == 1)["item_id"].to_list()
    assert mine == run.factors().item_ids[shown.after].tolist()
    others = before["user_id"] != 1
    assert after.filter(others).equals(before.filter(others)), "a setting of one user changed another's list"
    held_out, live = run.load_result().factors, live_model(run)
    assert isinstance(live, Factors)
    column = held_out.dim - len(run.subtopics()) + run.subtopics().names.index("Animation")
    row = int(np.flatnonzero(held_out.user_ids == 1)[0])
    assert live.user[row, column] > 0.2 * (run.factors().user[row] @ run.factors().item.T).std()
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
    assert recommend(run, 10).equals(before)


@pytest.mark.slow
def test_a_setting_deletes_what_was_made_without_it(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    diversify_within(run, ASKED)
    named = Run(run.path, "second")
    diversify_within(named, ASKED)
    for it in (run, named):
        it.save_metrics(evaluate_run(it, ("ndcg",), bootstrap=0).to_frame())
        it.save_recommendations(recommend(it, 5))
        it.report_path.write_text("a page")
        assert it.measured() == "diversified"
    steer_run(run, 1, {"Animation": 0.3}, keep=True)
    for it in (run, named):
        assert it.measured() is None, "the settings count for all results"
        assert not it.report_path.exists()
        assert not it.file("recommendations.parquet").exists()


@pytest.mark.slow
def test_settings_count_in_results_that_have_the_dial(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    diversify_within(run, ASKED)
    steer_run(run, 1, {"Animation": 0.3}, keep=True)
    other = Run(run.path, "clusters")
    diversify_within(other, ASKED.model_copy(update={"concepts": ["clusters=5"], "into": "dials"}))
    assert other.load_result().steering == {}
    cluster = other.load_result().dials.names[0]
    steer_run(other, 1, {cluster: 0.1}, keep=True)
    assert run.steering() == {1: {"Animation": 0.3, cluster: 0.1}}
    assert run.load_result().steering == {1: {"Animation": 0.3}}
    assert other.load_result().steering == {1: {cluster: 0.1}}


@pytest.mark.slow
def test_lifts_and_dials_together_serve_live_lists(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(goal="subtopic_coverage+shown_often", budgets={"ndcg@10": 0.3}))
    found, live = run.load_result(), run.scenario().live()
    assert found.rule is not None
    assert found.rule.lifts is not None
    model = live_model(run)
    assert isinstance(model, Factors)
    wanted = serve(live, found.goal, found.trade_off, "dials").model  # weights and lifts of one solve
    np.testing.assert_array_equal(live.rank(model)[0], live.rank(wanted)[0])


@pytest.mark.parametrize(
    ("user", "settings", "message"),
    [
        (1, {"Cooking": 0.1}, "there is no dial 'Cooking'; dials are Action"),
        (1, {"Animation": 2.0}, "the setting of Animation is 2.0; pass a number from -1 to 1"),
        (987654321, {"Animation": 0.1}, "987654321"),
    ],
)
def test_wrong_settings_are_refused(run: Run, user: int, settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        steer_run(run, user, settings)
