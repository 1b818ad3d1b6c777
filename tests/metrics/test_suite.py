"""Evaluations: rows, intervals, notes, tables."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.metrics import DEFAULT_METRICS, METRICS, Context, Lists, evaluate
from recprism.metrics.registry import parse
from recprism.metrics.suite import PAPER_METRICS


def test_rows_come_in_the_order_they_were_asked_for(world: Context, items: NDArray[np.int64]) -> None:
    names = ["catalogue_coverage@4", "ndcg@2", "subtopic_coverage@4", "ndcg@4"]
    result = evaluate(items, world, names)
    assert [score.name for score in result.scores] == names
    assert len(result) == 4
    assert result["ndcg@2"].k == 2
    assert set(result.values) == {"ndcg@2", "subtopic_coverage@4", "ndcg@4"}


def test_a_name_without_a_cut_takes_the_whole_list(world: Context, items: NDArray[np.int64]) -> None:
    assert [score.name for score in evaluate(items, world, ["subtopic_coverage"]).scores] == ["subtopic_coverage@4"]


def test_users_without_held_out_items_are_left_out_and_counted(world: Context, items: NDArray[np.int64]) -> None:
    result = evaluate(items, world, ["recall@4", "subtopic_coverage@4"])
    assert (result["recall@4"].n_users, result["recall@4"].left_out) == (2, 1)
    assert (result["subtopic_coverage@4"].n_users, result["subtopic_coverage@4"].left_out) == (3, 0)
    assert result["recall@4"].mean == 1.0
    [note] = result.notes
    assert note.startswith("recall@4: 1 of 3 users left out. Users without held-out items")


def test_without_labels_there_is_no_mean(items: NDArray[np.int64]) -> None:
    result = evaluate(items, Context(relevant=np.zeros((3, 6))), ["recall@4"])
    assert math.isnan(result["recall@4"].mean)
    assert result["recall@4"].low is None
    assert result.to_dict()["scores"][0]["mean"] is None


def test_empty_lists(world: Context) -> None:
    names = [name for name in METRICS if METRICS[name].min_places == 1]
    result = evaluate(np.full((3, 4), -1), world, names)
    for name, values in result.values.items():
        judged = values[~np.isnan(values)]
        worst = METRICS["calibration"].bounds[1] if name == "calibration@4" else 0.0
        assert judged == pytest.approx(worst), name
    assert result["recall@4"].n_users == 2
    assert result["novelty@4"].n_users == 0
    assert result["catalogue_coverage@4"].mean == 0
    assert all(math.isnan(result[name].mean) for name in ("gini@4", "exposure_entropy@4", "personalisation@4"))


def test_no_users() -> None:
    context = Context(relevant=np.zeros((0, 6)), categories=np.eye(6))
    result = evaluate(np.zeros((0, 4), int), context, ["recall@4", "alpha_ndcg@4", "catalogue_coverage@4"])
    assert [score.n_users for score in result.scores] == [0, 0, 0]


def test_defaults_are_what_the_context_allows(items: NDArray[np.int64]) -> None:
    long_lists = np.argsort(np.random.default_rng(0).random((3, 30)), axis=1)[:, :12]
    result = evaluate(long_lists, Context(n_items=30))
    assert [score.name for score in result.scores] == ["catalogue_coverage@10", "gini@10", "personalisation@10"]
    assert len(result.notes) == len(DEFAULT_METRICS) - 3
    assert all("skipped: it needs" in note for note in result.notes)
    assert len(evaluate(long_lists[:, :5], Context(n_items=30))) == 0


def test_missing_parts_can_be_skipped_and_are_named(items: NDArray[np.int64]) -> None:
    result = evaluate(items, Context(n_items=6), ["catalogue_coverage@4", "ilad@4"], missing="skip")
    assert [score.name for score in result.scores] == ["catalogue_coverage@4"]
    assert result.notes == (
        "ilad@4 skipped: it needs item vectors to take distances between: Context(vectors=<n_items x d>)",
    )


def test_presets_exist() -> None:
    assert all(parse(name)[1] for name in (*DEFAULT_METRICS, *PAPER_METRICS))
    assert {parse(name)[1] for name in PAPER_METRICS} == {10, 20}


def test_intervals_hold_the_mean_and_depend_on_the_seed_alone(world: Context, items: NDArray[np.int64]) -> None:
    first, second, other = (
        evaluate(items, world, ["ndcg@4", "subtopic_coverage@4", "catalogue_coverage@4"], seed=seed)
        for seed in (1, 1, 2)
    )
    assert first.to_dict() == second.to_dict()
    for score in first.scores[:2]:
        assert score.low <= score.mean <= score.high
    assert (first["catalogue_coverage@4"].low, first["catalogue_coverage@4"].high) == (None, None)
    assert first["ndcg@4"].mean == other["ndcg@4"].mean
    assert evaluate(items, world, ["subtopic_coverage@4"], bootstrap=0)["subtopic_coverage@4"].low is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bootstrap": -1}, "bootstrap is a number of resamples"),
        ({"level": 95}, "such as 0.95; got 95"),
        ({"users": ["a"]}, "users must name each of the 3 lists"),
        ({"metrics": ["ndcg@5"]}, "ndcg@5 needs lists of at least 5 places; these have 4"),
        ({"metrics": [(METRICS["ndcg"], 0)]}, "ndcg@0"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: dict[str, object], message: str, world: Context, items: NDArray[np.int64]
) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(items, world, **arguments)


def test_lists_alone_cannot_be_judged(world: Context, items: NDArray[np.int64]) -> None:
    with pytest.raises(InputError, match="pass a Context as well"):
        evaluate(items)
    assert evaluate(Lists(items, world), metrics=["catalogue_coverage@4"])["catalogue_coverage@4"].mean == 1


def test_a_row_that_was_not_asked_for_is_named(world: Context, items: NDArray[np.int64]) -> None:
    result = evaluate(items, world, ["subtopic_coverage@4", "catalogue_coverage@4"])
    with pytest.raises(
        InputError, match=r"ndcg@4 was not evaluated; there are subtopic_coverage@4, catalogue_coverage@4"
    ):
        result["ndcg@4"]


def test_tables(world: Context, items: NDArray[np.int64]) -> None:
    result = evaluate(items, world, ["recall@4", "catalogue_coverage@4"], users=["ann", "bob", "cy"])
    frame = result.to_frame()
    plain = ["metric", "k", "mean", "low", "high", "n_users", "left_out", "higher_is_better"]
    assert frame.columns == [*plain, "popularity"]
    assert frame.schema["low"] == pl.Float64
    assert frame.row(1, named=True) | {"mean": 1.0, "low": None, "metric": "catalogue_coverage"} == frame.row(
        1, named=True
    )
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["scores"][0]["n_users"] == 2


def test_a_frame_of_whole_rows_without_intervals_keeps_its_types(world: Context, items: NDArray[np.int64]) -> None:
    frame = evaluate(items, world, ["catalogue_coverage@4"]).to_frame()
    assert frame.schema["low"] == pl.Float64
    assert frame["low"].to_list() == [None]
