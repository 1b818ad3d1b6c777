"""The live certificate: its capitals by brute force and where nothing may be found, its clusters, its answers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.errors import InputError
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.operate.traffic.capital import (
    BETS,
    differences,
    earlier_means,
    evidence,
    log_growths,
    log_mixture,
)
from recprism.operate.traffic.certificate import LiveAnswer, certify_live, questions_of

ALPHA, RUNS, LENGTH = 0.1, 500, 3_000
START = datetime(2026, 3, 2, tzinfo=UTC)


def streams(rule: np.ndarray, holdout: np.ndarray, share: float, budget: float, seed: int = 0) -> np.ndarray:
    """Differences of clusters with these chances of an outcome in both arms, (RUNS, LENGTH)."""
    generator = np.random.default_rng(seed)
    held = generator.random((RUNS, LENGTH)) < share
    outcome = (generator.random((RUNS, LENGTH)) < np.where(held, holdout, rule)).astype(float)
    predicted = (np.cumsum(outcome, 1) - outcome) / np.arange(1, LENGTH + 1)
    arm, probability = np.where(held, -1.0, 1.0), np.where(held, share, 1 - share)
    return differences(outcome, arm, probability, predicted, budget)


def capital_paths(w: np.ndarray, share: float) -> np.ndarray:
    """The mean capital after each cluster, (RUNS, LENGTH), one cluster and one bet after the other."""
    found = np.zeros(w.shape)
    for bet in BETS:
        found += np.cumprod(1 + bet * share * w, 1) / len(BETS)
    return found


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_under_the_null_the_capital_rarely_reaches_the_limit_at_any_time(share: float) -> None:
    """At the edge of the budget, in both directions, read after every cluster."""
    at = np.full(LENGTH, 0.3)
    w = streams(0.9 * at, at, share, 0.1)
    assert abs(w.mean()) < 4 * w.std() / math.sqrt(w.size), "the difference has no bias"
    for sign in (1, -1):
        reached = (capital_paths(sign * w, share) >= 2 / ALPHA).any(1).mean()
        assert reached <= ALPHA / 2
    lost = capital_paths(-streams(0.4 * at, at, share, 0.1), share)
    assert (lost[:, -1] >= 2 / ALPHA).mean() > 0.9, "a test that never finds anything would pass, too"


def test_the_mean_over_time_may_drift_where_bets_that_adapt_would_be_wrong() -> None:
    """The rule loses first and gains later; its running mean is below the budget all the time."""
    holdout = np.full(LENGTH, 0.3)
    rule = np.where(np.arange(LENGTH) < 0.6 * LENGTH, 0.15, 0.4)
    assert (np.cumsum(rule - 0.9 * holdout) < 0).all()
    w = streams(rule, holdout, 0.5, 0.1)
    assert (capital_paths(w, 0.5) >= 2 / ALPHA).any(1).mean() <= ALPHA / 2
    recent = np.cumsum(w, 1)
    recent[:, 200:] -= recent[:, :-200].copy()
    bets = np.clip(recent / 200 / w.var(), 0, 0.25)  # those of the last 200 clusters
    adaptive = np.cumprod(1 + np.append(np.zeros((RUNS, 1)), bets[:, :-1], 1) * w, 1)
    assert (adaptive >= 2 / ALPHA).any(1).mean() > 0.5


def test_growths_are_those_of_the_definition() -> None:
    generator = np.random.default_rng(1)
    outcome, arm = generator.random(60), generator.choice([1.0, -1.0, 0.0], 60)
    probability, budget = np.where(arm < 0, 0.2, 0.4), 0.05
    predicted = earlier_means(outcome)
    assert predicted[:3] == pytest.approx([0, outcome[0] / 2, outcome[:2].sum() / 3])
    w = differences(outcome, arm, probability, predicted, budget)
    for at in range(60):
        error = outcome[at] - predicted[at]
        weight = {1: error / 0.4, -1: -0.95 * error / 0.2, 0: 0.0}[int(arm[at])]
        assert w[at] == pytest.approx(weight + budget * predicted[at])
    assert np.abs(w).max() <= 1 / 0.2
    starts = np.array([0, 25, 31])
    found = log_growths(w, starts, 0.2, budget)
    for sign, side in zip((1, -1), found, strict=True):
        for bet, parts in zip(BETS, side, strict=True):
            logs = [math.log(1 + sign * bet * 0.2 * it) for it in w]
            assert parts == pytest.approx([sum(logs[:25]), sum(logs[25:31]), sum(logs[31:])])
    total = found.sum(2)[0]
    assert log_mixture(total) == pytest.approx(math.log(np.exp(total).mean()))


def test_a_loss_that_begins_late_is_dated() -> None:
    w = np.concatenate([np.full(300, 0.05), np.full(100, -0.8)])
    found = evidence(log_growths(w, np.arange(0, 400, 50), 0.5, 0.0), 400, 0.05)
    assert (found.answer, found.since) == ("broken", 6)
    kept = evidence(log_growths(w[:300], np.arange(0, 300, 50), 0.5, 0.0), 300, 0.05)
    assert kept.answer == "undecided" and kept.since is None and kept.needed is not None
    more = np.full(300 + kept.needed, 0.05)
    assert evidence(log_growths(more, np.array([0]), 0.5, 0.0), len(more), 0.05).answer == "certified"
    none = evidence(log_growths(np.zeros(10), np.array([0]), 0.5, 0.0), 10, 0.05)
    assert none.needed is None, "capitals that do not grow promise no answer"


# -- logs -------------------------------------------------------------------------------------------------------------


def log_of(held: np.ndarray, share: float, *, drawn: str | None = "once", **columns: Any) -> pl.DataFrame:
    """One request of each user, 200 a day."""
    n = len(held)
    return pl.DataFrame(
        {
            "time": [START + timedelta(days=at / 200) for at in range(n)],
            "request": [f"r{at}" for at in range(n)],
            "user": [f"u{at}" for at in range(n)],
            "holdout": held,
            "shown": "rule",
            "probability": np.where(held, share, 1 - share),
            "drawn": drawn,
            **columns,
        }
    ).with_columns(
        pl.lit(None, kind).alias(name)
        for name, kind in SERVED_LOG_COLUMNS.items()
        if name not in {"time", "request", "user", "holdout", "shown", "probability", "drawn", *columns}
    )


def asked(folder: Path, log: pl.DataFrame, labels: pl.DataFrame, **options: Any) -> dict[str, LiveAnswer]:
    log.select(pl.col(name).cast(kind) for name, kind in SERVED_LOG_COLUMNS.items()).write_parquet(
        folder / "log.parquet"
    )
    labels.write_parquet(folder / "outcomes.parquet")
    budgets = options.pop("budgets", {"clicks": "10%"})
    found = certify_live(folder, folder / "log.parquet", folder / "outcomes.parquet", budgets, **options)
    asked.notes = found.notes  # type: ignore[attr-defined]
    return {it.question: it for it in found.rows}


@pytest.mark.parametrize(("rate", "answer"), [(0.5, "certified"), (0.3, "broken"), (0.44, "undecided")])
def test_the_three_answers(rate: float, answer: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    held = generator.random(8_000) < 0.5
    clicked = generator.random(8_000) < np.where(held, 0.5, rate)
    log = log_of(held, 0.5)
    found = asked(tmp_path, log, log.filter(pl.Series(clicked)).select("request", clicks=1.0))["clicks"]
    assert found.answer == answer, found.sentence()
    assert (found.rule, found.holdout) == (
        pytest.approx(clicked[~held][: found.clusters].mean(), abs=0.02),
        pytest.approx(clicked[held].mean(), abs=0.02),
    )
    assert found.low is not None and found.high is not None and found.low < found.loss < found.high
    assert found.low <= 1 - rate / 0.5 <= found.high
    assert (found.high <= 0.1) == (answer == "certified"), "the interval and the answer are one test"
    if answer == "broken":
        assert found.low > 0.1 and found.since == "2026-03-02"
    assert (found.needed is None) == (answer != "undecided")


def test_questions_share_the_error_and_a_group_is_asked_alone(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    held, rare = generator.random((2, 9_000)) < 0.5
    rare = generator.random(9_000) < 0.1
    clicked = generator.random(9_000) < np.where(rare & ~held, 0.0, 0.5)
    log = log_of(held, 0.5, segment=np.where(rare, "rare", "usual"))
    labels = log.filter(pl.Series(clicked)).select("request", clicks=1.0)
    budgets = {"clicks": "20%", "clicks@rare": "20%"}
    found = asked(tmp_path, log, labels, budgets=budgets)
    assert {name: it.answer for name, it in found.items()} == {"clicks": "certified", "clicks@rare": "broken"}
    assert found["clicks@rare"].clusters == int(rare[:8_800].sum()), "those of the last day wait"
    alone = asked(tmp_path, log, labels, budgets={"clicks": "20%"})["clicks"]
    assert alone.high < found["clicks"].high


def test_a_cluster_is_the_mean_of_its_window_and_is_counted_once(tmp_path: Path) -> None:
    """Users with three requests a day apart: two within the window of 1.5 days; the last users have not closed."""
    held = np.arange(400) % 2 == 0
    first = log_of(held, 0.5)
    log = pl.concat(
        [first.with_columns(pl.col("time") + pl.duration(days=day), pl.col("request") + f" {day}") for day in range(3)]
    )
    labels = log.filter(pl.col("request").str.ends_with(" 1") & pl.col("holdout")).select("request", clicks=1.0)
    found = asked(tmp_path, log, labels, window=1.5)["clicks"]
    assert (found.clusters, found.holdout, found.rule) == (400, 0.5, 0.0)
    assert asked(tmp_path, log, labels, window=3.5)["clicks"].clusters == 100
    daily = log.with_columns(pl.col("time").dt.date().cast(pl.String).alias("drawn"))
    by_day = asked(tmp_path, daily, labels, window=0.5)["clicks"]
    assert by_day.clusters == 3 * 400 - 100 and by_day.holdout == pytest.approx(1 / 3, abs=0.05)


def test_outcomes_that_are_late_or_missing_count_as_0(tmp_path: Path) -> None:
    held = np.arange(2_000) % 2 == 0
    log = log_of(held, 0.5)
    late = pl.when(pl.int_range(pl.len()) % 4 < 2).then(pl.duration(days=2)).otherwise(pl.duration(hours=1))
    labels = log.select("request", clicks=1.0, time=pl.col("time") + late)
    found = asked(tmp_path, log, labels)["clicks"]
    assert (found.rule, found.holdout) == (0.5, 0.5)
    assert any("50 % of the requests have no outcome in the window: they count as 0" in it for it in asked.notes)  # type: ignore[attr-defined]
    assert asked(tmp_path, log, labels, window=3.0)["clicks"].rule == 1
    text = labels.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert asked(tmp_path, log, text)["clicks"].rule == 0.5


def test_a_late_row_does_not_change_what_arrived_in_the_window(tmp_path: Path) -> None:
    log = log_of(np.arange(2_000) % 2 == 0, 0.5)
    early = log.select("request", clicks=1.0, time=pl.col("time") + timedelta(hours=1))
    late = early.with_columns(pl.col("time") + timedelta(days=3), clicks=pl.lit(0.5))
    found = asked(tmp_path, log, pl.concat([early, late]))["clicks"]
    assert (found.rule, found.holdout) == (1.0, 1.0)


def test_clusters_wait_until_the_outcomes_reach_the_end_of_their_window(tmp_path: Path) -> None:
    """A table of outcomes that is older than the log says nothing about the last clusters."""
    log = log_of(np.arange(2_000) % 2 == 0, 0.5)
    labels = log.select("request", clicks=1.0, time=pl.col("time") + timedelta(hours=1))
    whole = asked(tmp_path, log, labels)["clicks"]
    old = asked(tmp_path, log, labels.filter(pl.col("time") <= START + timedelta(days=5)))["clicks"]
    assert (whole.clusters, old.clusters) == (1_800, 800)
    assert (old.rule, old.holdout) == (1.0, 1.0)
    assert any("1,200 clusters wait" in it for it in asked.notes)  # type: ignore[attr-defined]


def test_arms_that_were_not_drawn_as_logged_are_refused(tmp_path: Path) -> None:
    held = np.random.default_rng(6).random(3_000) < 0.2
    log = log_of(held, 0.2)
    labels = log.select("request", clicks=1.0)
    assert asked(tmp_path, log, labels)["clicks"].answer == "certified"
    lost = log.filter(~pl.col("holdout") | (pl.int_range(pl.len()) % 3 > 0))
    with pytest.raises(
        InputError, match=r"clicks: [\d,]+ of 2,\d+ clusters are under the rule, and [\d,]+ are expected"
    ):
        asked(tmp_path, lost, labels)
    with pytest.raises(InputError, match="are expected"):
        asked(tmp_path, log.with_columns(probability=pl.lit(0.2)), labels)


def test_a_log_of_a_governor_has_more_than_two_arms_and_is_refused(tmp_path: Path) -> None:
    place = np.random.default_rng(7).integers(0, 3, 3_000)
    log = log_of(place == 0, 1 / 3, place=place).with_columns(probability=pl.lit(1 / 3))
    with pytest.raises(InputError, match="a governor drew these prices"):
        asked(tmp_path, log, log.select("request", clicks=1.0))


def test_a_group_that_never_occurs_is_named(tmp_path: Path) -> None:
    log = log_of(np.arange(2_000) % 2 == 0, 0.5, segment="new")
    found = asked(tmp_path, log, log.select("request", clicks=1.0), budgets={"clicks@nwe": "5%"})["clicks@nwe"]
    assert found.sentence() == "undecided: clicks@nwe: at most 5 % may be lost, and no cluster is in this segment"


def test_requests_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rule.json").write_text("{}", encoding="utf-8")
    at, held = pl.int_range(pl.len()), np.arange(1_000) % 2 == 0
    log = log_of(held, 0.5).with_columns(
        pl.when(at < 100).then(None).otherwise("probability").alias("probability"),
        pl.when(at.is_between(100, 149)).then(pl.lit("base")).otherwise("shown").alias("shown"),
        pl.when(at.is_between(150, 169)).then(pl.lit("another")).otherwise(None).alias("export"),
        pl.when(at.is_between(170, 199)).then(pl.lit("disabled")).otherwise(None).alias("fallback"),
    )
    again = pl.concat([log, log.tail(5)])
    found = asked(tmp_path, again, again.select("request", clicks=0.5).unique())["clicks"]
    assert found.clusters == 1_000 - 200 - 200
    said = " ".join(asked.notes)  # type: ignore[attr-defined]
    assert all(it in said for it in ("100 requests were served without a draw", "50 requests were in shadow"))
    assert all(it in said for it in ("30 requests were answered while the rule was switched off", "20 requests"))
    assert (
        asked(tmp_path, log.head(300), log.select("request", clicks=0.0))["clicks"].sentence().startswith("undecided")
    )


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ({"clicks": 2.0}, {}, "has the value 2.0; outcomes are from 0 to 1"),
        ({"plays": 1.0}, {}, "no column 'clicks'"),
        ({"clicks": 1.0, "time": "noon"}, {}, "values that are no time"),
        ({"clicks": 1.0}, {"window": 0}, "the window must be above 0"),
        ({"clicks": 1.0}, {"budgets": {"@new": "2%"}}, "name an outcome"),
        ({"clicks": 1.0}, {"budgets": {"clicks": "2"}}, "did you mean 2%?"),
        ({"clicks": 1.0}, {"drawn": False}, "no request says with which probability"),
    ],
)
def test_bad_questions_are_one_sentence(
    labels: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    log = log_of(np.arange(10) % 2 == 0, 0.5)
    if not options.pop("drawn", True):
        log = log.with_columns(pl.lit(None).alias("probability"))
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        asked(
            tmp_path,
            log,
            log.select("request").with_columns(pl.lit(it).alias(name) for name, it in labels.items()),
            **options,
        )


def test_a_question_is_an_outcome_and_perhaps_a_group() -> None:
    found = questions_of({"clicks": "2%", "plays@new": 0.1}, "--certify")
    assert [(it.outcome, it.group, it.budget) for it in found] == [("clicks", None, 0.02), ("plays", "new", 0.1)]
    assert [it.name for it in found] == ["clicks", "plays@new"]
