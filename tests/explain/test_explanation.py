"""The explanation as an object: its statements about planted data are known, and every number can be recomputed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recprism.cmb import CMB
from recprism.cmb.factors import Change, Evaluator, Explanation, Labels, explain, view_item, view_user
from recprism.cmb.factors.axes import canonical
from recprism.cmb.factors.controls import run_controls
from recprism.errors import InputError
from recprism.models import Factors
from recprism.testing.planted import make_planted

METRICS = ("ndcg@10", "subtopic_coverage@10", "catalogue_coverage@10")


@pytest.fixture(scope="module")
def world() -> tuple[Factors, Evaluator, Labels, np.ndarray, Change]:
    """Four of twenty factors are planted. Players moved the items for subtopic coverage of the first 800 users."""
    made = make_planted(seed=3)
    base = Factors.from_arrays(made.user, made.item)
    known = np.arange(800)
    model = CMB(diversity="subtopic_coverage", device="cpu").fit(
        base.of_users(known), made.split.of_users(known), made.categories
    )
    evaluator = Evaluator.on(made.split, "test", base, made.categories, METRICS)
    return base, evaluator, Labels.of(made.categories), made.planted, Change.of(base, model.delta_)


@pytest.fixture(scope="module")
def found(world: tuple[Factors, Evaluator, Labels, np.ndarray, Change]) -> Explanation:
    base, evaluator, labels, _, change = world
    others = np.arange(800, 1000)
    unseen = Evaluator.on(make_planted(seed=3).split, "test", base, evaluator.categories, METRICS, others)
    controls = run_controls(change, unseen, draws=99, unseen=True)
    return explain(change, evaluator, "subtopic_coverage@10", axes="raw", labels=labels, controls=controls)


def test_the_planted_factors_come_first_and_have_names(world: Any, found: Explanation) -> None:
    planted = world[3]
    assert found.verdict is not None
    assert found.verdict.holds
    assert set(planted) <= {row.number for row in found.factors}
    named = {row.number for row in found.factors if row.name is not None and row.name.reliable}
    assert named <= set(planted), "what is not planted has no name"
    assert len(named) >= 3


def test_taken_back_is_the_effect_of_erasing(world: Any, found: Explanation) -> None:
    _, evaluator, _, _, change = world
    row = found.factors[0]
    erased = change.sides["item"].copy()
    erased[:, row.number] = 0
    values = evaluator.means(replace(change, item=erased).after)
    assert row.erased == pytest.approx(values)
    base, after = (
        evaluator.means(change.base)["subtopic_coverage@10"],
        evaluator.means(change.after)["subtopic_coverage@10"],
    )
    assert found.taken_back(row.erased) == pytest.approx((after - values["subtopic_coverage@10"]) / (after - base))
    assert found.shared()[row.number] == pytest.approx(row.size)
    assert found.shared().argmax() == row.number
    lines = found.sentences()
    assert lines[0].startswith("Of the change of subtopic_coverage@10"), "promotion first"
    assert any(line.startswith(f"Factor {row.number} (") and "Erasing it alone takes back" in line for line in lines)


def test_without_controls_nothing_is_claimed(world: Any) -> None:
    _, evaluator, _, _, change = world
    found = explain(change, evaluator, draws=0)
    assert not found.says_something
    assert "No controls were run" in found.sentences()[1]
    assert all(row.words == "no reliable name" for row in found.factors), "no labels, no names"


def test_noise_is_refused_and_no_factor_is_described(world: Any) -> None:
    base, evaluator, labels, _, change = world
    generator = np.random.default_rng(0)
    noise = generator.permutation(change.sides["item"].ravel()).reshape(base.item.shape)
    found = explain(Change(base, item=noise), evaluator, labels=labels, draws=99)
    assert not found.says_something
    assert len(found.sentences()) == 2, "what is promotion, and the verdict"
    assert "explains nothing about factors" in found.sentences()[1] or "nothing to explain" in found.sentences()[1]


def test_on_known_users_nothing_is_claimed(world: Any) -> None:
    _, evaluator, _, _, change = world
    found = explain(change, evaluator, draws=49)
    assert not found.says_something
    assert any("describe these vectors" in line for line in found.sentences())


def test_metrics_without_inputs_are_left_out(world: Any) -> None:
    base, _, _, _, change = world
    bare = Evaluator.on(make_planted(seed=3).split, "test", base, metrics=(*METRICS, "ilad"))
    assert bare.metrics == ("ndcg@10", "catalogue_coverage@10", "ilad@10"), "no categories, no coverage of them"
    assert explain(change, bare, "PC", draws=0).objective == "catalogue_coverage@10"


def test_json_frames_and_html(found: Explanation) -> None:
    plain = json.loads(found.to_json())
    assert (plain["schema"], plain["version"]) == ("recprism.explanation", 2)
    assert len(plain["shared"]["item"]) == 20
    assert plain["sentences"] == found.sentences()
    assert set(plain["together"]) == set(found.after)
    assert found.to_frame()["label"].to_list() == [row.label for row in found.factors]
    assert "<table>" in found._repr_html_()
    assert found.individual().shape == (400, 20)


def test_axes_change_factors_and_nothing_else(world: Any, found: Explanation) -> None:
    _, evaluator, labels, _, change = world
    turned = explain(change, evaluator, axes="svd", labels=labels, draws=0)
    assert turned.after == pytest.approx(found.after)
    back = canonical(change.base).to_original(turned.change)
    np.testing.assert_allclose(back.sides["item"], change.sides["item"], atol=1e-4)


def test_a_user_and_an_item(world: Any, found: Explanation) -> None:
    _, evaluator, _, _, change = world
    user = int(found.swaps.users[0])
    view = view_user(found, evaluator, user)
    assert len(view.swaps) == (found.swaps.users == user).sum() > 0
    first = view.swaps[0]
    score = {name: factors.user[user] @ factors.item.T for name, factors in (("a", change.base), ("b", change.after))}
    came, went = int(first.came), int(first.went)
    assert first.rise == pytest.approx((score["b"] - score["a"])[came] - (score["b"] - score["a"])[went], abs=1e-5)
    assert set(first.effects) == {"ndcg@10", "subtopic_coverage@10"}, "metrics of all lists together have no list"
    item = view_item(found, came)
    assert item.entered == (found.swaps.came == came).sum()
    assert json.dumps([view.to_dict(), item.to_dict()])
    with pytest.raises(InputError, match="user"):
        view_user(found, evaluator, 10_000)


def test_singular_axes_are_the_default_and_named_features_stay(world: Any) -> None:
    base, evaluator, _, _, change = world
    assert explain(change, evaluator, draws=0).axes == "svd"
    named = replace(base, settings={"features": [f"feature {number}" for number in range(base.dim)]})
    found = explain(replace(change, base=named), evaluator, draws=0)
    assert found.axes == "raw"
    assert found.factors[0].label.startswith("feature ")
    empty = replace(
        base, user=np.hstack([base.user, 0 * base.user[:, :1]]), item=np.hstack([base.item, base.item[:, :1]])
    )
    moved = Change(empty, item=np.hstack([change.sides["item"], change.sides["item"][:, :1]]))
    assert explain(moved, evaluator, draws=0).axes == "raw"
    with pytest.raises(InputError, match="empty ones"):
        explain(moved, evaluator, axes="svd", draws=0)


def test_invalid_arguments_are_refused(world: Any) -> None:
    _, evaluator, _, _, change = world
    with pytest.raises(InputError, match="not among the evaluator's metrics"):
        explain(change, evaluator, "ilad@10")
    with pytest.raises(InputError, match="all users"):
        explain(change, replace(evaluator, users=np.arange(5)))
    with pytest.raises(InputError, match="axes are"):
        explain(change, evaluator, axes="sideways", draws=0)
