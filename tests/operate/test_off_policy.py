"""Estimates of another policy: by hand, without bias, with intervals that cover, and on the Open Bandit Dataset."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import polars as pl
import pytest

from recprism.operate.traffic.off_policy import off_policy, predictions


def test_estimates_are_those_of_the_definition() -> None:
    generator = np.random.default_rng(0)
    outcome, weight, logged, target = generator.random((4, 400)) * np.array([[1], [2], [1], [1]])
    found = off_policy(outcome, weight, logged, target)
    assert found.effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert found.ips is not None and found.dr is not None
    assert found.ips[0] == pytest.approx(np.mean([w * y for w, y in zip(weight, outcome, strict=True)]))
    assert found.dr[0] == pytest.approx((target + weight * (outcome - logged)).mean())
    assert found.ips[1] < found.ips[0] < found.ips[2]


def test_intervals_cover_and_a_good_prediction_narrows_them() -> None:
    """Two actions, of which the second is drawn one time in five; users of two kinds."""
    generator, covered, widths = np.random.default_rng(1), np.zeros(2), np.zeros(2)
    for _ in range(300):
        kind = generator.integers(0, 2, 2_000)
        drawn = generator.random(2_000) < 0.2
        y = (generator.random(2_000) < np.where(kind == 1, 0.8, 0.1)).astype(float)
        predicted = predictions(y, kind, drawn, 2)[np.arange(2_000), kind]
        found = off_policy(y, drawn / 0.2, predicted, predicted)
        for at, it in enumerate((found.ips, found.dr)):
            assert it is not None
            covered[at] += it[1] <= 0.45 <= it[2]
            widths[at] += it[2] - it[1]
    assert (covered / 300 > 0.92).all() and widths[1] < 0.8 * widths[0]


def test_a_prediction_comes_from_other_rows() -> None:
    outcome, group = np.array([1.0, 0.0, 1.0, 0.0]), np.zeros(4, np.int64)
    assert predictions(outcome, group, np.ones(4, np.bool_), 1)[:, 0].tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("rows", [50, 5_000])
def test_too_small_a_sample_is_refused(rows: int) -> None:
    outcome = (np.arange(rows) < 9).astype(float)
    found = off_policy(outcome, np.ones(rows), np.zeros(rows), np.zeros(rows))
    assert found.ips is None and found.dr is None
    assert found.refused == f"the log has an effective sample of {rows} rows and 9 outcomes; 100 and 10 are needed"
    one = np.r_[1e4, np.ones(rows)]
    assert off_policy(np.ones(rows + 1), one, 0 * one, 0 * one).refused, "one row decides everything"


def test_a_price_that_some_users_could_not_have_is_refused() -> None:
    """Half of the rows come from a time when the action was not drawn: its estimate would be half as large."""
    drawn = (np.random.default_rng(2).random(4_000) < 0.2) & (np.arange(4_000) < 2_000)
    found = off_policy(np.ones(4_000), drawn / 0.2, np.zeros(4_000), np.zeros(4_000))
    assert found.ips is None and found.refused.startswith("the weights have a mean of 0.5")
    assert not off_policy(np.ones(2_000), drawn[:2_000] / 0.2, np.zeros(2_000), np.zeros(2_000)).refused


def test_real_logs_of_two_policies_estimate_each_other(real_data: Path) -> None:
    """Of four estimates, one has an effective sample of two rows, and is refused; the others cover what was logged."""
    path = real_data / "open-bandit-small.zip"
    if not path.exists():
        pytest.skip("no open-bandit-small.zip")
    archive, refused = ZipFile(path), []
    for campaign in ("men", "women"):
        logs = {
            it: pl.read_csv(io.BytesIO(archive.read(f"obd/{it}/{campaign}/{campaign}.csv"))) for it in ("random", "bts")
        }
        n = int(logs["random"]["item_id"].n_unique())
        place, item = (logs["bts"][it].to_numpy() for it in ("position", "item_id"))
        shown = np.zeros((4, n))
        np.add.at(shown, (place, item), 1.0)
        policies = {"random": np.full((4, n), 1 / n), "bts": shown / np.maximum(shown.sum(1, keepdims=True), 1)}
        for logged, other in (("random", "bts"), ("bts", "random")):
            place, item = (logs[logged][it].to_numpy() for it in ("position", "item_id"))
            clicks = logs[logged]["click"].to_numpy().astype(float)
            by_item = predictions(clicks, item, np.ones(len(item), np.bool_), n)
            weight = policies[other][place, item] / logs[logged]["propensity_score"].to_numpy()
            target = (policies[other][place] * by_item).sum(1)
            found = off_policy(clicks, weight, by_item[np.arange(len(item)), item], target)
            truth = float(np.mean(logs[other]["click"].to_numpy()))
            if found.refused:
                refused.append((campaign, logged, round(found.effective)))
                continue
            assert found.ips is not None and found.dr is not None
            assert found.ips[1] <= truth <= found.ips[2] and found.dr[1] <= truth <= found.dr[2]
    assert refused == [("women", "bts", 2)]
