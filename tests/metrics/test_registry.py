"""Names, cuts, and user-defined metrics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.metrics import METRICS, Context, Lists, Metric, evaluate, register
from recprism.metrics.registry import ALIASES, parse
from recprism.metrics.suite import PAPER_METRICS, deepest_cut


@pytest.fixture
def own_metric() -> Iterator[Metric]:
    metric = register(Metric("first_item", lambda lists, _: lists.items[:, 0], bounds=(0, np.inf)))
    yield metric
    del METRICS["first_item"]


def test_names_find_metrics_however_they_are_spelt() -> None:
    for text in ("alpha_ndcg@10", "alpha-nDCG@10", " Alpha nDCG@10 "):
        metric, k = parse(text)
        assert (metric.name, k) == ("alpha_ndcg", 10)
    assert parse("catalogue_coverage") == (METRICS["catalogue_coverage"], None)


def test_aliases_lead_to_one_canonical_name(world: Context, items: NDArray[np.int64]) -> None:
    assert all(target in METRICS and alias not in METRICS for alias, target in ALIASES.items())
    result = evaluate(items, world, ["coverage@4", "catalogue_coverage@4", "personalization@4"], bootstrap=0)
    assert [score.name for score in result.scores] == ["catalogue_coverage@4", "personalisation@4"]
    assert result["coverage@4"] == result["catalogue_coverage@4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@10", "unknown metric 'ndgc'; did you mean 'ndcg'"),
        ("xyzzy", "unknown metric 'xyzzy'; there are alpha_ndcg, "),
        ("ndcg@0", "'ndcg@0' asks for a cut at '0'; write a whole number above 0, such as ndcg@10"),
        ("ndcg@ten", "cut at 'ten'"),
        ("ndcg@", "cut at ''"),
        ("ndcg@-5", "cut at '-5'"),
        ("ndcg@5@5", "cut at '5@5'"),
    ],
)
def test_bad_names_get_helpful_answers(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_declares_its_direction(name: str) -> None:
    assert METRICS[name].name == name
    assert METRICS[name].higher_is_better is (name not in ("gini", "calibration"))


def test_a_user_defined_metric_is_one_line(own_metric: Metric, world: Context, items: NDArray[np.int64]) -> None:
    result = evaluate(items, world, ["first_item@2"], bootstrap=0)
    assert result.values["first_item@2"].tolist() == [0, 2, 5]
    with pytest.raises(InputError, match="there is a metric called 'first_item' already"):
        register(own_metric)
    assert register(own_metric, replace=True) is own_metric


@pytest.mark.parametrize("name", ["ndcg@10", "Big", "with space", "a-b"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="lower case"):
        register(Metric(name, lambda lists, _: lists.lengths))


def test_an_alias_cannot_be_taken() -> None:
    with pytest.raises(InputError, match="already"):
        register(Metric("coverage", lambda lists, _: lists.lengths))


def test_an_unregistered_metric_can_be_passed_itself(world: Context, items: NDArray[np.int64]) -> None:
    metric = Metric("own", lambda lists, _: torch.where(lists.lengths > 2, 1.0, torch.nan), empties="Too short.")
    result = evaluate(items, world, [(metric, 4)])
    assert result["own@4"].n_users == 2
    assert result.notes == ("own@4: 1 of 3 users left out. Too short.",)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            Metric("scalar", lambda _lists, _context: torch.tensor(1.0)),
            "one value per user, shape .3,.; its function gave",
        ),
        (Metric("vector", lambda lists, _: lists.lengths, per_user=False), "one value for all lists"),
    ],
)
def test_a_function_of_the_wrong_shape_is_named(
    metric: Metric, message: str, world: Context, items: NDArray[np.int64]
) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(items, world, [(metric, 4)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, "alpha must lie between 0"),
        ({"ideal": "moon"}, "unknown ideal 'moon'; choose one of catalogue, list"),
        ({"ideal": "list", "ideal_depth": 2}, "ideal_depth=2 is less than the cut at 4"),
        ({"ideal": "list", "ideal_depth": 9}, "an ideal over 9 places needs lists that long; these have 4"),
    ],
)
def test_options_are_checked(
    options: dict[str, object], message: str, world: Context, items: NDArray[np.int64]
) -> None:
    with pytest.raises(InputError, match=message):
        METRICS["alpha_ndcg"].variant("here", options)(Lists(items, world))


def test_the_share_of_the_head_is_an_option(world: Context, items: NDArray[np.int64]) -> None:
    half = METRICS["tail_share"].variant("here", {"head_share": 0.5})
    assert half(Lists(items, world)).tolist() == [0.75, 1, 0.75]
    with pytest.raises(InputError, match="head_share"):
        METRICS["tail_share"].variant("here", {"head_share": 1.5})(Lists(items, world))


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_calibration_must_mix_something_in(alpha: float, world: Context, items: NDArray[np.int64]) -> None:
    with pytest.raises(InputError, match="alpha is the part of the user's own distribution mixed in"):
        METRICS["calibration"].variant("here", {"alpha": alpha})(Lists(items, world))


def test_paper_variants_declare_the_length_of_lists(world: Context, items: NDArray[np.int64]) -> None:
    assert deepest_cut(PAPER_METRICS) == deepest_cut(["alpha_ndcg_paper@10"]) == 20
    assert deepest_cut() == deepest_cut(["ndcg@3", "recall"]) == 10
    assert deepest_cut([]) == 10
    assert deepest_cut([(METRICS["ndcg"], 30)]) == 30
    with pytest.raises(InputError, match="alpha_ndcg_paper@4 needs lists of at least 20 places; these have 4"):
        evaluate(items, world, ["alpha_ndcg_paper@4"])
