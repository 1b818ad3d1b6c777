"""Retention of a gain: known by construction; unknown users are counted, unclear rows are marked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from recprism.errors import InputError
from recprism.operate.monitor import monitor
from recprism.result.effect import effect
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    made = trained_run(3, 16)
    assert diversify_within(made, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.3})).is_changed
    return made


@pytest.fixture(scope="module")
def served(run: Run) -> pl.DataFrame:
    """Live lists of the result."""
    return recommend(run, 12)[0].drop("score")


@pytest.fixture(scope="module")
def base(run: Run) -> pl.DataFrame:
    """Live lists of the trained model."""
    return recommend(run, 12, base=True)[0].drop("score")


def values(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The goal of every user's live list, of the trained model and of the result."""
    found, name = run.load_result(), "subtopic_coverage@10"
    before, after = (found.context().judge(it, (name,))[name] for it in (found.context().base_lists, found.ranked()[0]))
    return before, after


def file(frame: pl.DataFrame, folder: Path, name: str = "today.parquet") -> Path:
    frame.write_parquet(folder / name)
    return folder / name


def mixed(served: pl.DataFrame, base: pl.DataFrame, every: int) -> pl.DataFrame:
    """One user of ``every`` gets the base's list."""
    users = served["user_id"].unique().sort()
    kept = users.gather_every(every)
    return pl.concat(
        [served.filter(~pl.col("user_id").is_in(kept.implode())), base.filter(pl.col("user_id").is_in(kept.implode()))]
    )


def test_the_lists_of_the_run_retain_the_whole_gain(run: Run, served: pl.DataFrame, tmp_path: Path) -> None:
    found = monitor(run, file(served, tmp_path))
    everyone = found.rows[0]
    means = [it.mean() for it in values(run)]
    assert (everyone.base, everyone.promised) == (pytest.approx(means[0]), pytest.approx(means[1]))
    assert everyone.share == pytest.approx(1) and found.passed and found.like_promised == 1.0
    assert [row.segment for row in found.segments[1:]] == ["light", "heavy", "niche", "mainstream", "focused", "broad"]
    assert all(row.share == pytest.approx(1) for row in found.segments)
    assert [row.segment for row in found.exposure] == ["head", "mid", "tail"]
    assert all(row.now == row.promised for row in found.exposure)
    assert found.verdict().startswith("holds: 100%")


def test_judged_lists_are_compared_with_judged_ones(run: Run, tmp_path: Path) -> None:
    lists = file(recommend(run, 10, live=False)[0], tmp_path)
    found, promise = monitor(run, lists, live=False), effect(run.load_result(), ("subtopic_coverage@10",)).change
    change, everyone = promise["subtopic_coverage@10"], found.rows[0]
    assert (everyone.base, everyone.promised) == (pytest.approx(change.a), pytest.approx(change.b))
    assert found.like_promised == 1.0
    assert monitor(run, lists).like_promised < 0.95, "live lists do not show what users have taken since"


def test_base_lists_retain_nothing_and_the_cause_is_reported(run: Run, base: pl.DataFrame, tmp_path: Path) -> None:
    found = monitor(run, file(base, tmp_path))
    assert found.rows[0].share == pytest.approx(0) and not found.passed
    assert "the rule is not in use" in found.verdict()


@pytest.mark.slow
def test_half_is_retained_if_half_of_the_users_get_the_new_lists(
    run: Run, served: pl.DataFrame, base: pl.DataFrame, tmp_path: Path
) -> None:
    found = monitor(run, file(mixed(served, base, 2), tmp_path), floor=0.4)
    row = found.rows[0]
    before, after = values(run)
    gain = after - before
    assert row.share == pytest.approx(gain[1::2].sum() / gain.sum()), "rows of users are in the order of their ids"
    assert row.low < row.share < row.high and row.high - row.low < 0.2
    assert found.passed and not monitor(run, file(mixed(served, base, 2), tmp_path), floor=0.7).passed
    between = (row.low + row.share) / 2
    assert monitor(run, file(mixed(served, base, 2), tmp_path), floor=between).passed
    assert not monitor(run, file(mixed(served, base, 2), tmp_path), floor=between, confident=True).passed


def test_days_are_judged_one_by_one(run: Run, served: pl.DataFrame, base: pl.DataFrame, tmp_path: Path) -> None:
    few = served["user_id"].unique().sort()[:7]
    frame = pl.concat(
        [
            served.with_columns(date=pl.lit(date(2024, 5, 1))),
            mixed(served, base, 3).with_columns(date=pl.lit(date(2024, 5, 2))),
            base.filter(pl.col("user_id").is_in(few.implode())).with_columns(date=pl.lit(date(2024, 5, 3))),
        ]
    )
    found = monitor(run, file(frame, tmp_path))
    assert [row.day for row in found.days] == ["2024-05-01", "2024-05-02", "2024-05-03"]
    assert [row.share for row in found.days[:2]] == [pytest.approx(1), pytest.approx(2 / 3, abs=0.1)]
    assert "only 7 lists" in found.days[2].doubt and found.days[2] not in found.judged
    assert not found.passed and "on 2024-05-02" in found.verdict()
    first, second = found.days[0], found.days[1]
    assert found.rows[0].lists == first.lists + second.lists + 7
    cells = [row for row in found.rows if row.segment == "heavy"]
    assert [row.day for row in cells] == ["all days", "2024-05-01", "2024-05-02", "2024-05-03"]
    moments = frame.with_columns(
        when=pl.col("date").cast(pl.Datetime) + pl.duration(hours=5), date=pl.lit(datetime(2020, 1, 1))
    )
    again = monitor(run, file(moments, tmp_path), day_column="when")
    assert [row.day for row in again.days] == [row.day for row in found.days]


def test_a_repeated_day_does_not_narrow_the_interval(
    run: Run, served: pl.DataFrame, base: pl.DataFrame, tmp_path: Path
) -> None:
    """The bootstrap resamples users, not lists: repeated lists add no information."""
    one = mixed(served, base, 2)
    two = pl.concat([one.with_columns(day=pl.lit("a")), one.with_columns(day=pl.lit("b"))])
    once, twice = monitor(run, file(one, tmp_path)).rows[0], monitor(run, file(two, tmp_path)).rows[0]
    assert twice.lists == 2 * once.lists
    assert (twice.share, twice.low, twice.high) == pytest.approx((once.share, once.low, once.high))


def test_unknown_users_and_items_are_counted(run: Run, served: pl.DataFrame, tmp_path: Path) -> None:
    stranger = served.filter(pl.col("user_id") == served["user_id"][0]).with_columns(user_id=pl.lit(10**9, pl.Int64))
    fresh = pl.when(pl.col("rank") == 1).then(pl.lit(10**9, pl.Int64)).otherwise(pl.col("item_id"))
    frame = pl.concat([served.with_columns(item_id=fresh), stranger])
    short = frame.filter((pl.col("user_id") != served["user_id"][0]) | (pl.col("rank") < 6))
    found = monitor(run, file(short, tmp_path), floor=0.1)
    notes, users = " ".join(found.notes), served["user_id"].n_unique()
    assert "1 lists are of users that the run does not know" in notes
    assert f"{users:,} of {users * 10 - 5:,} places hold items that the run does not know" in notes
    assert "1 lists have fewer than 10 places" in notes
    assert found.rows[0].share < 1, "a place with an unknown item covers nothing"


def test_ids_as_text_are_the_same_ids(run: Run, served: pl.DataFrame, tmp_path: Path) -> None:
    served.write_csv(tmp_path / "today.csv")
    assert monitor(run, tmp_path / "today.csv").rows[0].share == pytest.approx(1)


def test_a_file_without_known_users_is_refused(run: Run, served: pl.DataFrame, tmp_path: Path) -> None:
    frame = served.with_columns(pl.col("user_id") + 10**9)
    with pytest.raises(InputError, match="the same ids"):
        monitor(run, file(frame, tmp_path))
    with pytest.raises(InputError, match="more than once"):
        monitor(run, file(pl.concat([served, served]), tmp_path))
    with pytest.raises(InputError, match="no column 'when'"):
        monitor(run, file(served, tmp_path), day_column="when")


def test_too_few_lists_do_not_pass(run: Run, served: pl.DataFrame, tmp_path: Path) -> None:
    few = served.filter(pl.col("user_id").is_in(served["user_id"].unique().sort()[:5].implode()))
    found = monitor(run, file(few, tmp_path))
    assert not found.passed and "only 5 lists, 30 are needed" in found.verdict()
    assert monitor(run, file(few, tmp_path), fewest=2).passed


def test_other_metrics_follow_their_own_direction(run: Run, served: pl.DataFrame, tmp_path: Path) -> None:
    """Gini is better when it is lower; coverage has no value per user."""
    for metric in ("gini@10", "catalogue_coverage@10", "ilad@10"):
        found = monitor(run, file(served, tmp_path), metric=metric)
        row = found.rows[0]
        gained = row.promised < row.base if metric == "gini@10" else row.promised > row.base
        if gained and not row.doubt:
            assert row.share == pytest.approx(1) and found.passed
        else:
            assert "not clear of 0" in found.verdict() and not found.passed
        assert (row.low is None) == (metric != "ilad@10" or row.share is None)


@pytest.mark.slow
def test_labels_bring_accuracy_and_the_budget(run: Run, tmp_path: Path) -> None:
    """Held-out interactions judge the lists that were made before them."""
    split, served = run.split(), recommend(run, 12, live=False)[0].drop("score")
    user, item = split.test.row_of_entry, split.test.indices
    labels = pl.DataFrame({"user_id": split.user_ids[user], "item_id": split.item_ids[item]})
    strange = pl.DataFrame({"user_id": [10**9], "item_id": [1]})
    taken = file(pl.concat([labels, strange]), tmp_path, "taken.parquet")
    found = monitor(run, file(served, tmp_path), held_out=taken, live=False)
    measured = effect(run.load_result(), ("ndcg@10",)).change["ndcg@10"]
    row = found.accuracy["everyone"]
    assert (row.before, row.after) == (pytest.approx(measured.a), pytest.approx(measured.b))
    assert found.budget == 0.3 and found.passed
    assert any("rows are left out; 1 have an unknown user" in note for note in found.notes)
    # without a single hit
    hits = labels.with_columns(hit=pl.lit(value=True))
    spoiled = served.join(hits, on=["user_id", "item_id"], how="left").filter(pl.col("hit").is_null()).drop("hit")
    spoilt = monitor(run, file(spoiled, tmp_path), held_out=taken, floor=0.5, live=False)
    assert not spoilt.passed and "ndcg@10 fell by 100.00%" in spoilt.verdict()


# -- the command ------------------------------------------------------------------------------------------------------


def test_exit_codes_and_files(
    run: Run,
    served: pl.DataFrame,
    base: pl.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    call: Callable[..., int],
) -> None:
    good, bad = file(served, tmp_path), file(base, tmp_path, "base.parquet")
    assert call("monitor", run.path, "--lists", good) == 0
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith("holds:")
    rows, report = tmp_path / "rows.csv", tmp_path / "monitor.xml"
    words = ("--lists", bad, "--each-segment", "--json", "-o", rows, "--junit", report)
    assert call("monitor", run.path, *words) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["passed"] and found["rows"][0]["below_floor"]
    assert len(pl.read_csv(rows)) == len(found["rows"])
    assert ElementTree.fromstring(report.read_text(encoding="utf-8")).get("failures") == "7", (
        "everyone and six segments"
    )
    assert call("monitor", run.path, "--lists", tmp_path / "none.csv") == 2
    plain = Run.open(shutil.copytree(run.path, tmp_path / "plain"))
    (plain.path / "delta.safetensors").unlink()
    assert call("monitor", plain.path, "--lists", good) == 2
    assert "delta.safetensors: is missing" in capsys.readouterr().err
