"""The monitor of served logs: figures known by construction, figures of the metrics, and alarms."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from recprism.budget.path import rule_at
from recprism.errors import InputError
from recprism.forms import RuleFile, collect_rule
from recprism.forms.rule_file import fingerprint_of
from recprism.metrics import Context, evaluate
from recprism.operate.served.alarms import AlarmLimits
from recprism.operate.served.confidence import confidence_interval
from recprism.operate.served.holdout import INTERVALS
from recprism.operate.served.holdout_plan import holdout_size, plan_holdout
from recprism.operate.served.monitored import ServedMonitored, monitor_served
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run
from recprism.serving import ServedRule

K, REQUESTS = 10, 1_200
COVERAGE = "subtopic_coverage@10"


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    made = trained_run(3, 16)
    assert diversify_within(made, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.3})).is_changed
    return made


@pytest.fixture(scope="module")
def rule(run: Run) -> RuleFile:
    return collect_rule(run.problem(), rule_at(run.problem(), "subtopic_coverage", 0.3))


@pytest.fixture(scope="module")
def export(rule: RuleFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "rule"
    rule.write(folder)
    return folder


@pytest.fixture(scope="module")
def log(rule: RuleFile) -> pl.DataFrame:
    """Three days of requests, each of another user, answered by the rule at its usual price."""
    served, generator = ServedRule(rule), np.random.default_rng(0)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = []
    for at in range(REQUESTS):
        candidates = generator.choice(rule.item_ids, 60, replace=False).tolist()
        answer = served.rerank(candidates, np.sort(generator.random(60))[::-1], k=K, history=[])
        rows.append(
            {
                "time": start + timedelta(days=3 * at / REQUESTS),
                "request": f"r{at}",
                "user": f"u{at}",
                "segment": None,
                "price": answer.trade_off,
                "holdout": False,
                "shown": "rule",
                "rule": [str(one) for one in answer.ids],
                "base": [str(one) for one in answer.base],
                "fallback": answer.fallback,
                "unmet": len(answer.unmet),
                "milliseconds": 1 + at % 7,
            }
        )
    return pl.DataFrame(rows, schema=dict(SERVED_LOG_COLUMNS))


def watched(log: pl.DataFrame, export: Path, folder: Path, **options: Any) -> ServedMonitored:
    log.write_parquet(folder / "log.parquet")
    return monitor_served(export, folder / "log.parquet", **options)


def numbers(lists: pl.Series, rule: RuleFile) -> np.ndarray:
    place = {str(one): at for at, one in enumerate(rule.item_ids.tolist())}
    return np.array([[place[one] for one in row] for row in lists.to_list()])


def falls_back(every: int) -> list[pl.Expr]:
    """One request of ``every`` has no list of the rule; the service then logs the base list for both."""
    chosen = pl.int_range(pl.len()) % every == 0
    return [
        pl.when(chosen).then(pl.lit("time limit")).alias("fallback"),
        pl.when(chosen).then(pl.lit("base")).otherwise("shown").alias("shown"),
        pl.when(chosen).then("base").otherwise("rule").alias("rule"),
    ]


def test_coverage_and_exposure_are_those_of_the_metrics(
    run: Run, rule: RuleFile, export: Path, log: pl.DataFrame, tmp_path: Path
) -> None:
    found = watched(log, export, tmp_path)
    context = Context(categories=run.problem().categories, popularity=np.ones(len(rule.item_ids)))
    for name in ("base", "rule"):
        expected = evaluate(numbers(log[name], rule), context, [COVERAGE, "gini@10"], bootstrap=0)
        assert getattr(found.rows[0], name) == pytest.approx(expected[COVERAGE].mean)
        gini = found.exposure.base_gini if name == "base" else found.exposure.shown_gini
        assert gini == pytest.approx(expected["gini@10"].mean)
    assert found.metric == COVERAGE
    assert found.exposure.shown_items == len(np.unique(numbers(log["rule"], rule)))
    swaps = [len(set(row["rule"]) - set(row["base"])) for row in log.iter_rows(named=True)]
    assert found.rows[0].swaps == pytest.approx(np.mean(swaps))
    shares = {it.category: it for it in found.exposure.categories}
    assert 0 < sum(it.base for it in shares.values()) <= 1 + 1e-9


def test_requests_of_another_export_are_named(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    """A service loads a new export and continues with the same log."""
    own = fingerprint_of(export)
    served_by = pl.when(pl.int_range(pl.len()) < 100).then(pl.lit("earlier")).otherwise(pl.lit(own))
    mixed = watched(log.with_columns(export=served_by), export, tmp_path)
    assert mixed.notes[0].startswith(f"100 of {REQUESTS:,} requests were answered by another export (earlier: 100)")
    alone = watched(log.with_columns(export=pl.lit(own)), export, tmp_path)
    assert alone.notes == watched(log, export, tmp_path).notes == mixed.notes[1:]


def test_the_whole_gain_is_kept_if_the_rule_is_shown(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    found = watched(log, export, tmp_path)
    first = found.rows[0]
    assert (first.requests, first.units, first.retained) == (REQUESTS, REQUESTS, pytest.approx(1))
    assert first.low is not None and 0.8 < first.low < 1
    assert [row.day for row in found.days] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert sum(row.requests for row in found.days) == REQUESTS
    assert found.passed and found.verdict().startswith("holds: 100% (")
    assert "accuracy is not known without a table of what users took" in found.notes
    assert (first.median_ms, first.holdout) == (pytest.approx(4), 0)


@pytest.mark.parametrize("why", ["fallback", "shadow"])
def test_fallbacks_and_shadow_lists_lower_what_is_kept(
    why: str, export: Path, log: pl.DataFrame, tmp_path: Path
) -> None:
    every = pl.int_range(pl.len()) % 3 == 0
    changed = pl.when(every).then(pl.lit("base")).otherwise("shown").alias("shown")
    lower = log.with_columns(falls_back(3) if why == "fallback" else [changed])
    found = watched(lower, export, tmp_path)
    row = found.rows[0]
    assert row.retained == pytest.approx(2 / 3, abs=0.05) and row.low < row.retained < row.high < 0.8
    assert not found.passed and found.verdict().startswith("FAILS: gain kept: 6")
    fired = {it.name for it in found.fired}
    assert fired == ({"gain kept", "fallbacks"} if why == "fallback" else {"gain kept"})
    assert dict(found.fallbacks) == ({"time limit": REQUESTS // 3} if why == "fallback" else {})


def test_a_single_bad_day_fires_on_that_day(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    third = pl.col("time").dt.day() == 3
    found = watched(
        log.with_columns(pl.when(third).then(pl.lit("base")).otherwise("shown").alias("shown")), export, tmp_path
    )
    assert "2026-01-03" in {it.day for it in found.fired}
    assert not {"2026-01-01", "2026-01-02"} & {it.day for it in found.fired}
    cases = ElementTree.fromstring(found.to_junit())
    failed = [case.get("name") for case in cases.iter("testcase") if case.find("failure") is not None]
    assert "gain kept, 2026-01-03" in failed and len(failed) == len(found.fired)


def test_few_requests_decide_nothing(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    few = watched(log.head(40).with_columns(pl.lit("base").alias("shown")), export, tmp_path)
    assert few.passed and few.verdict().startswith("not decided so far")
    assert {it.state for it in few.alarms} == {"not decided"}


def test_repeated_requests_of_a_user_do_not_narrow_the_interval(
    export: Path, log: pl.DataFrame, tmp_path: Path
) -> None:
    once = watched(log, export, tmp_path).rows[0]
    later = log.with_columns(pl.col("time") + pl.duration(seconds=1), pl.col("request") + " again")
    twice = pl.concat([log, later])
    again = watched(twice, export, tmp_path).rows[0]
    assert (again.requests, again.units) == (2 * REQUESTS, REQUESTS)
    assert (again.low, again.high) == (pytest.approx(once.low), pytest.approx(once.high))
    unknown = watched(twice.with_columns(pl.lit(None, pl.String).alias("user")), export, tmp_path)
    assert unknown.rows[0].units == 2 * REQUESTS
    assert any("names no users" in note for note in unknown.notes)


def test_a_repeated_request_counts_once(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    once = watched(log, export, tmp_path)
    later = log.with_columns(
        pl.col("time") + pl.duration(seconds=1), user=pl.lit(None, pl.String), shown=pl.lit("base")
    )
    again = watched(pl.concat([later, log]), export, tmp_path)
    assert again.rows == once.rows and again.exposure == once.exposure
    assert "1,200 rows repeat the id of a request: only its first row counts" in again.notes
    unnamed = watched(log.with_columns(request=pl.lit(None, pl.String)), export, tmp_path)
    assert unnamed.rows == once.rows and unnamed.notes == once.notes


def test_places_beyond_the_length_of_the_rule_are_noted(rule: RuleFile, log: pl.DataFrame, tmp_path: Path) -> None:
    replace(rule, k=4).write(tmp_path / "short")
    found = watched(log, tmp_path / "short", tmp_path)
    assert "2,400 lists are longer than 4, the length of the rule: places beyond are left out" in found.notes
    cut = log.with_columns(pl.col("rule", "base").list.head(4))
    assert watched(cut, tmp_path / "short", tmp_path).rows == found.rows


def test_a_holdout_without_users_is_not_compared(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    changed, _ = cheaper_holdout(log, (0, 0))
    unknown = changed.with_columns(user=pl.lit(None, pl.String))
    found = watched(unknown, export, tmp_path, limits=AlarmLimits(holdout=0.3, loss=0.1))
    assert found.holdout is None and found.passed
    assert [it.state for it in found.alarms if "hold" in it.name or "loss" in it.name] == ["not decided"] * 2
    assert any("requests of one user are not independent; log users as hashes" in note for note in found.notes)


@pytest.mark.slow
def test_the_intervals_of_a_holdout_hold_together(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    changed, taken = cheaper_holdout(log, (0.2, 0.6))
    taken.write_parquet(tmp_path / "taken.parquet")
    values = {}
    for labels, count in ((None, 2), (tmp_path / "taken.parquet", 6)):
        found = watched(changed, export, tmp_path, taken=labels).holdout
        assert found is not None
        values[count] = found
    assert values[2].hit_rate is None and values[6].hit_rate is not None
    since = changed[int(changed["holdout"].arg_max() or 0) :]
    clicked = since.join(taken, on="request", how="left").filter(~pl.col("holdout"))["item"].is_not_null()
    expected = confidence_interval(clicked.cast(pl.Float64).to_numpy(), alpha=0.05 / 6)
    assert values[6].usual.hit_rate == expected
    assert values[2].usual.coverage.low > values[6].usual.coverage.low


def test_labels_give_hit_rate_and_ndcg_by_request_or_user(
    rule: RuleFile, export: Path, log: pl.DataFrame, tmp_path: Path
) -> None:
    drawn = log.with_columns(pl.Series("holdout", np.random.default_rng(1).random(REQUESTS) < 0.3))
    taken = log.select("request", "user", pl.col("rule").list.get(2).alias("item"))[::4]
    for key in ("request", "user"):
        labels = pl.concat([taken.select(key, "item"), pl.DataFrame({key: ["nobody"], "item": ["1"]})])
        labels.write_csv(tmp_path / "taken.csv")
        found = watched(drawn, export, tmp_path, taken=tmp_path / "taken.csv").holdout
        assert found is not None and found.usual.hit_rate is not None and found.usual.ndcg is not None
        has = np.arange(REQUESTS) % 4 == 0
        held = drawn["holdout"].to_numpy()
        usual = ~held & (np.arange(REQUESTS) > held.argmax())
        assert found.usual.hit_rate.mean == pytest.approx(has[usual].mean())
        assert found.usual.ndcg.mean == pytest.approx(has[usual].mean() / np.log2(4))
        assert (found.holdout.requests, found.holdout.users, found.usual.users) == (held.sum(), held.sum(), usual.sum())
    noted = watched(drawn, export, tmp_path, taken=tmp_path / "taken.csv").notes
    assert any("1 users with labels are not in the log" in note for note in noted)


def cheaper_holdout(log: pl.DataFrame, clicks: tuple[float, float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Half of the requests at price 0, and clicks at two rates: at the usual price, and in the holdout."""
    generator = np.random.default_rng(2)
    drawn = generator.random(len(log)) < 0.5
    changed = log.with_columns(
        pl.Series("holdout", drawn),
        pl.Series("price", np.where(drawn, 0.0, 0.3)),
        pl.when(pl.Series(drawn)).then("base").otherwise("rule").alias("rule"),
    )
    clicked = generator.random(len(log)) < np.where(drawn, clicks[1], clicks[0])
    return changed, changed.filter(pl.Series(clicked)).select("request", pl.col("rule").list.first().alias("item"))


def test_the_holdout_shows_the_trade_off_once_it_is_decided(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    changed, taken = cheaper_holdout(log, (0.2, 0.6))
    taken.write_parquet(tmp_path / "taken.parquet")
    limits = AlarmLimits(loss=0.1, holdout=0.5)
    result = watched(changed, export, tmp_path, taken=tmp_path / "taken.parquet", limits=limits)
    found = result.holdout
    assert found is not None and found.hit_rate is not None and found.trade_off is not None
    assert found.hit_rate.low < -0.4 < found.hit_rate.high < 0 < found.coverage.low
    assert found.trade_off.mean == pytest.approx(found.coverage.mean / -found.hit_rate.mean)
    assert found.trade_off.low < found.trade_off.mean < found.trade_off.high
    assert "points of coverage per point of hit rate" in found.sentence()
    assert {it.name for it in result.fired} == {"loss of the hit rate"}
    assert result.rows[0].retained == pytest.approx(1), "the holdout does not count as lost gain"
    same, taken = cheaper_holdout(log, (0.4, 0.4))
    taken.write_parquet(tmp_path / "taken.parquet")
    undecided = watched(same, export, tmp_path, taken=tmp_path / "taken.parquet", limits=limits)
    assert undecided.passed and undecided.holdout is not None and undecided.holdout.trade_off is None
    assert undecided.holdout.sentence().endswith("the trade-off is not decided yet.")
    json.dumps(undecided.to_dict(), allow_nan=False)


def test_a_holdout_that_begins_later_is_compared_since_then(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    """The same users came before, at the usual price."""
    changed, _ = cheaper_holdout(log, (0, 0))
    earlier = log.with_columns(pl.col("time") - timedelta(days=9), request=pl.lit("earlier ") + pl.col("request"))
    alone, both = (watched(it, export, tmp_path).holdout for it in (changed, pl.concat([earlier, changed])))
    assert alone is not None and both is not None
    assert (both.usual.users, both.holdout, both.coverage) == (alone.usual.users, alone.holdout, alone.coverage)
    assert both.usual.requests == alone.usual.requests + REQUESTS


def test_requests_in_shadow_mode_are_not_compared(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    changed, _ = cheaper_holdout(log, (0, 0))
    shadow = changed.with_columns(shown=pl.lit("base"))
    found = watched(shadow, export, tmp_path)
    assert found.holdout is None
    assert any("the prices of the holdout are not compared" in note for note in found.notes)
    later = changed.with_columns(pl.col("time") + timedelta(days=9), request=pl.lit("later ") + pl.col("request"))
    live, both = (watched(it, export, tmp_path).holdout for it in (later, pl.concat([shadow, later])))
    assert live is not None and both is not None and both.coverage == live.coverage


def test_another_goal_than_coverage_is_noted(rule: RuleFile, export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    replace(rule, goals={"ilad": 1.0}).write(tmp_path / "distances")
    note = "the goal of the rule is ilad, and the gain here is that in subtopic coverage"
    assert note in watched(log, tmp_path / "distances", tmp_path).notes
    assert note not in watched(log, export, tmp_path).notes


def test_a_log_without_fingerprints_is_read(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    assert watched(log.drop("export", "segment"), export, tmp_path).rows == watched(log, export, tmp_path).rows
    with pytest.raises(InputError, match="no column 'price'"):
        watched(log.drop("price"), export, tmp_path)


def test_a_wrong_share_of_the_holdout_is_found(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    changed, _ = cheaper_holdout(log, (0, 0))
    wrong = watched(changed, export, tmp_path, limits=AlarmLimits(holdout=0.3))
    assert [it.name for it in wrong.fired] == ["share of the holdout"]
    assert watched(changed, export, tmp_path, limits=AlarmLimits(holdout=0.5)).passed


def test_short_lists_unknown_items_and_several_files(export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    (folder / "day").mkdir(parents=True)
    odd = pl.int_range(pl.len()) % 2 == 1
    strange = pl.concat_list(pl.lit("nothing"), pl.col("base").list.head(3))
    mixed = log.with_columns(pl.when(odd).then(strange).otherwise("base").alias("base"))
    mixed[REQUESTS // 2 :].write_parquet(folder / "a.parquet")
    mixed[: REQUESTS // 2].write_parquet(folder / "day" / "b.parquet")
    found = monitor_served(export, folder)
    whole = watched(mixed, export, tmp_path)
    assert found.rows == whole.rows, "the order of files does not matter"
    assert any("600 of 20,400 places hold items" in note for note in found.notes)
    empty = watched(log.with_columns(pl.lit([], pl.List(pl.String)).alias("base")), export, tmp_path)
    assert empty.rows[0].base == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log.drop("shown"), "no column 'shown'"),
        (lambda log: log.head(0), "the log has no requests yet"),
        (lambda log: log.with_columns(shown=pl.lit("both")), "'both' was shown"),
    ],
)
def test_a_wrong_log_is_refused(
    change: Callable[[pl.DataFrame], pl.DataFrame], message: str, export: Path, log: pl.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        watched(change(log), export, tmp_path)


def test_other_wrong_inputs_are_refused(run: Run, export: Path, log: pl.DataFrame, tmp_path: Path) -> None:
    log.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError, match="recprism export RUN"):
        monitor_served(run.path, tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"no \.parquet file"):
        monitor_served(export, tmp_path / "nowhere")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(InputError, match="damaged"):
        monitor_served(export, tmp_path / "damaged.parquet")
    (tmp_path / "taken.csv").write_text("customer,item\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column 'request' or 'user'"):
        monitor_served(export, tmp_path / "log.parquet", taken=tmp_path / "taken.csv")
    (tmp_path / "taken.csv").write_text("request,user,item\nr1,u1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="both columns 'request' and 'user'"):
        monitor_served(export, tmp_path / "log.parquet", taken=tmp_path / "taken.csv")


def test_the_planned_size_of_a_holdout_has_its_power() -> None:
    """Simulated streams: the sequences of both arms are apart at the planned size; so is the test with one look."""
    generator = np.random.default_rng(4)
    rates, share = (0.3, 0.45), 0.25
    size = holdout_size("click rate", *((it, np.sqrt(it * (1 - it))) for it in rates), share, 0.8, 0.05)
    assert size.fixed < size.anytime < 12 * size.fixed

    def arms(requests: int) -> list[np.ndarray]:
        drawn = generator.random(requests) < share
        return [
            (generator.random(int(n)) < rate).astype(float)
            for n, rate in zip((sum(~drawn), sum(drawn)), rates, strict=True)
        ]

    def is_seen(requests: int) -> bool:
        usual, holdout = (confidence_interval(it, alpha=0.05 / INTERVALS) for it in arms(requests))
        return holdout.minus(usual).low > 0

    def is_tested(requests: int) -> bool:
        usual, holdout = arms(requests)
        error = np.sqrt(usual.var() / len(usual) + holdout.var() / len(holdout))
        return bool(abs(holdout.mean() - usual.mean()) / error > norm.ppf(0.975))

    assert 0.7 < np.mean([is_seen(size.anytime) for _ in range(300)]) < 0.95
    assert 0.7 < np.mean([is_tested(size.fixed) for _ in range(300)]) < 0.9


def test_the_plan_of_a_holdout_covers_shares_and_the_goal(run: Run) -> None:
    plan = plan_holdout(run, "5%", "8%", change="10%")
    assert [it.question for it in plan.sizes[:2]] == ["click rate", COVERAGE]
    rate = {it.share: it.anytime for it in plan.sizes if it.question == "click rate"}
    assert rate[0.01] > rate[0.05] > rate[0.5] and plan.requests == rate[0.05]
    assert plan.sizes[1].anytime < plan.sizes[0].anytime
    assert f"{plan.requests:,} requests, read at any time" in plan.sentence()
    with pytest.raises(InputError, match="click_rate"):
        plan_holdout(run, "5%", 8)


def test_accuracy_needs_no_holdout(log: pl.DataFrame, export: Path, tmp_path: Path) -> None:
    taken = log.select("request", pl.col("rule").list.get(0).alias("item"))[::4]
    taken.write_csv(tmp_path / "taken.csv")
    found = watched(log, export, tmp_path, taken=tmp_path / "taken.csv")
    assert found.holdout is None
    assert found.accuracy["hit rate"].mean == pytest.approx(0.25)
    assert found.accuracy["NDCG"].mean == pytest.approx(0.25)
    assert watched(log, export, tmp_path).accuracy == {}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"request": ["no"], "item": ["1"]}, "no request of this file is in the log"),
        ({"user": ["no"], "item": ["1"]}, "users are hashes in the log"),
        ({"request": ["r0"], "item": ["no"]}, "no item of this file is in the export"),
    ],
)
def test_labels_that_match_nothing_are_refused(
    log: pl.DataFrame, export: Path, tmp_path: Path, columns: dict[str, list[str]], sentence: str
) -> None:
    pl.DataFrame(columns).write_csv(tmp_path / "taken.csv")
    with pytest.raises(InputError, match=sentence):
        watched(log, export, tmp_path, taken=tmp_path / "taken.csv")
