"""The verdict in worlds whose truth is known, and rankings of repeated searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from recprism.cmb import CMB
from recprism.cmb.factors.checks import Question, run_checks, stability
from recprism.cmb.factors.verdict import Verdict
from recprism.cmb.jobs._control_cache import kept_checks
from recprism.cmb.jobs.factors import explain_factors
from recprism.forms.dials.solve import lists_to_vectors
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.rule import Features, ListSearch
from recprism.runs.run import Run
from recprism.testing.planted import make_planted

NULL = {"n_planted": 0}


def searched(**world: Any) -> tuple[CMB, Any]:
    made = make_planted(**world)
    base = Factors.from_arrays(made.user, made.item)
    return CMB(diversity="subtopic_coverage", device="cpu").fit(base, made.split, made.categories), made


def as_if_found(base: Factors, change: Perturbation, side: Any) -> CMB:
    """A search that has this result."""
    model = CMB(diversity="subtopic_coverage", side=side, device="cpu")
    model.base_, model.delta_, model.factors_ = base, change, change.applied_to(base)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "holds"),
    [
        ({"seed": 0}, True),
        ({"seed": 1}, True),
        ({**NULL, "unrelated": "one", "seed": 0}, False),
        ({**NULL, "unrelated": "one", "seed": 1}, False),
        ({**NULL, "unrelated": "half", "seed": 0}, False),
    ],
    ids=["planted", "planted, another", "one category each", "one category each, another", "half of the categories"],
)
def test_factors_are_named_only_where_they_are_planted(world: dict[str, Any], holds: bool) -> None:
    """On held-out users: on its own users, the search also succeeds in a world with nothing planted."""
    model, made = searched(**world)
    found = run_checks(model, made.split, made.categories, Question("subtopic_coverage@10", "raw", draws=59))
    controls, notes = found.controls, found.notes
    verdict = Verdict.of(controls)
    assert verdict.holds == holds, verdict.sentence()
    assert "200 users, after a search that did not know them" in notes[0]
    if not holds:
        assert "explains nothing about factors" in verdict.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("side", ["user", "both"])
def test_vectors_that_were_fitted_to_lists_say_nothing_about_factors(side: str) -> None:
    """In a world with nothing planted, diverse lists beat every control on the users they were made for."""
    made = make_planted(n_users=300, n_items=200, n_planted=0, unrelated="one", seed=0)
    base = Factors.from_arrays(made.user, made.item)
    candidates, scores = base.rank(50, exclude=made.split.seen_before("test"))
    wanted = ListSearch(trade_off=0.3)(candidates, scores, 10, features=Features(categories=made.categories))
    found = lists_to_vectors(base, wanted, exclude=made.split.seen_before("test"))
    model = as_if_found(base, found.perturbation, side)
    asked = Question("subtopic_coverage@10", "raw", draws=49)
    verdict = Verdict.of(run_checks(model, made.split, made.categories, asked).controls)
    assert verdict.reason == "known users"
    assert "nothing about factors" in verdict.sentence()


@pytest.mark.slow
def test_rankings_found_again_agree_in_a_planted_world() -> None:
    model, made = searched(seed=2)
    found = stability(model, made.split, made.categories)
    assert found is not None
    assert found.mean > 0.3
    assert found.n_rankings == 4


def test_users_own_vectors_are_compared_as_they_are() -> None:
    """No search is done again: factors that move by more in every group agree, factors that all move alike do not."""
    made = make_planted(n_users=200, seed=3)
    base = Factors.from_arrays(made.user, made.item)
    moves = torch.rand(base.user.shape, generator=torch.Generator().manual_seed(0))
    of_factor = torch.linspace(0.1, 1.0, base.dim)
    agreeing, chance = (
        stability(
            as_if_found(base, Perturbation(user=delta), "user"),
            made.split,
            made.categories,
        )
        for delta in (moves * of_factor, moves)
    )
    assert agreeing is not None
    assert chance is not None
    assert agreeing.n_rankings == 4
    assert agreeing.mean > 0.9
    assert abs(chance.mean) < 0.4
    both = as_if_found(base, Perturbation(item=torch.ones(base.item.shape), user=moves), "both")
    assert stability(both, made.split, made.categories) is None, "such a search cannot be repeated for some users"


@pytest.mark.slow
def test_controls_are_run_once_for_a_question(searched_run: Callable[..., Run]) -> None:
    """``report`` after ``erase`` does not run them again; another question does."""
    run, ran = searched_run(), list[int]()

    def asked() -> Any:
        ran.clear()
        return explain_factors(run, draws=40, on_step=lambda _what, done, _total: ran.append(done))

    first = asked()
    assert ran
    run.save_factors_explanation({**first.explanation.to_dict(), **first.kept})
    assert asked().explanation.to_dict() == first.explanation.to_dict()
    assert not ran
    question = first.kept["checked"]["asked"]
    assert kept_checks(run, question) is not None
    assert kept_checks(run, {**question, "seed": 1}) is None
    (run.path / "factors_explanation.json").write_text("{")
    assert kept_checks(run, question) is None
