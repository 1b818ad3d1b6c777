"""The commands around a log of served requests: monitor, studio and the plan of a holdout."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recprism.forms.rule_file import RuleFile
from recprism.operate.served_log import SERVED_LOG_COLUMNS

Recprism = Callable[..., Any]


@pytest.fixture
def folder(small_rule: RuleFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An export and a log: ``rule``, ``log``, ``taken.csv``."""
    monkeypatch.chdir(tmp_path)
    small_rule.write("rule")
    Path("log").mkdir()
    write_log(Path("log/a.parquet"), 800)
    Path("taken.csv").write_text("request,what\n3,1\n8,4\n", encoding="utf-8")
    return tmp_path


def write_log(file: Path, rows: int) -> None:
    """Base lists have one category, those of the rule five; every tenth request is in the holdout."""
    start = datetime(2026, 2, 1, tzinfo=UTC)
    found = [
        {
            "time": start + timedelta(days=2 * at / rows),
            "request": str(at),
            "user": f"user {at}",
            "segment": None,
            "price": 0.0 if at % 10 == 0 else 0.3,
            "holdout": at % 10 == 0,
            "shown": "rule",
            "rule": ["0", "10", "20", "30"] if at % 10 == 0 else ["0", "1", "2", "3", "4"],
            "base": ["0", "10", "20", "30"],
            "fallback": None,
            "unmet": 0,
            "milliseconds": 2.0,
        }
        for at in range(rows)
    ]
    pl.DataFrame(found, schema=dict(SERVED_LOG_COLUMNS)).write_parquet(file)


def test_the_monitor_prints_days_alarms_and_a_verdict(recprism: Recprism, folder: Path) -> None:
    found = recprism("monitor-log", "rule", "--served", "log", "--holdout-share", "10%")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert lines[0] == "log: subtopic_coverage@5 of the lists that users saw"
    assert lines[2].split()[:5] == ["2026-02-01", "400", "0.1000", "0.5000", "0.5000"]
    assert any(line.startswith("Price 0.3 against 0: coverage +40.00 points") for line in lines)
    assert lines[-1].startswith("holds: 100% (") and lines[-1].endswith("in 800 requests, at least 80% wanted.")


def test_an_alarm_is_exit_code_1_in_every_form(recprism: Recprism, folder: Path) -> None:
    words = ("monitor-log", "rule", "--served", "log/a.parquet", "--max-milliseconds", "1", "--junit", "found.xml")
    found = recprism(*words, "--json", "-o", "rows.csv")
    assert found.code == 1
    said = json.loads(found.out)
    assert said["verdict"].startswith("FAILS: requests over 1 ms: 100%") and not said["passed"]
    assert pl.read_csv("rows.csv")["requests"].to_list() == [800, 400, 400]
    assert 'failures="3"' in Path("found.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--max-fallbacks", "--max-unmet"])
def test_an_eighth_of_the_requests_is_too_much_for_a_limit(recprism: Recprism, folder: Path, option: str) -> None:
    eighth = pl.int_range(pl.len()) % 8 == 0
    changed = {"fallback": pl.when(eighth).then(pl.lit("error")), "unmet": pl.when(eighth).then(1).otherwise(0)}
    pl.read_parquet("log/a.parquet").with_columns(**changed).cast(dict(SERVED_LOG_COLUMNS)).write_parquet(
        "some.parquet"
    )
    limits = {"--max-fallbacks": "50%", "--max-unmet": "50%", "--floor": "0.1%"}
    for limit, code in (("50%", 0), ("1%", 1)):
        words = [word for pair in {**limits, option: limit}.items() for word in pair]
        assert recprism("monitor-log", "rule", "--served", "some.parquet", *words).code == code


def test_columns_of_labels_are_mapped(recprism: Recprism, folder: Path) -> None:
    found = recprism(
        "monitor-log",
        "rule",
        "--served",
        "log",
        "--taken",
        "taken.csv",
        "--column",
        "item=what",
        "--max-hit-loss",
        "5%",
    )
    assert found.code == 0, found.err
    assert "not decided: loss of the hit rate is unknown, at most 5% wanted" in found.out


def test_a_budget_is_certified_by_the_holdout(recprism: Recprism, folder: Path) -> None:
    """Every tenth user is in the holdout and clicks half of the time; the others do so, or never."""
    held = pl.col("holdout")
    log = pl.read_parquet("log/a.parquet")
    drawn = log.with_columns(pl.when(held).then(0.1).otherwise(0.9).alias("probability"), pl.lit("once").alias("drawn"))
    many = [
        drawn.with_columns(pl.col("time") + pl.duration(days=2 * n), pl.col("request", "user") + f"-{n}")
        for n in range(12)
    ]
    every = pl.concat(many)
    every.write_parquet("log/a.parquet")
    clicks = every.filter(pl.int_range(pl.len()) // 10 % 2 == 0).select("request", held, clicks=1.0)
    clicks.drop("holdout").write_csv("kept.csv")
    clicks.filter("holdout").drop("holdout").write_csv("lost.csv")
    words = ("monitor-log", "rule", "--served", "log", "--certify", "clicks=30%", "--outcomes")
    found = recprism(*words, "kept.csv", "-o", "rows.csv")
    assert found.code == 0, found.err
    assert found.out.splitlines()[-1] == "certified: every budget is kept (95 % confidence at all times together)."
    assert pl.read_csv("rows.csv")["answer"].to_list() == ["certified"]
    lost = recprism(*words, "lost.csv", "--json", "--junit", "found.xml")
    assert lost.code == 1
    said = json.loads(lost.out)["rows"][0]
    assert (said["answer"], said["loss"], said["since"]) == ("broken", 1.0, "2026-02-01")
    assert 'failures="1"' in Path("found.xml").read_text(encoding="utf-8")
    surer = json.loads(recprism(*words, "kept.csv", "--json", "--confidence", "99.9%").out)["rows"][0]
    later = json.loads(recprism(*words, "kept.csv", "--json", "--window", "2").out)["rows"][0]
    usual = json.loads(recprism(*words, "kept.csv", "--json").out)["rows"][0]
    assert surer["high"] > usual["high"] and later["clusters"] == usual["clusters"] - 400


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("monitor-log log --served log", "log is no export of a rule; write one with `recprism export RUN`"),
        ("monitor-log rule --served nowhere", "nowhere: there is no .parquet file"),
        ("monitor-log rule --served log --taken taken.csv", "no column 'item'"),
        ("monitor-log rule --served log --floor 80", "did you mean 80%?"),
        ("monitor-log rule --served log -o rows.xls", "rows.xls"),
        ("monitor-log rule --served log --certify clicks=2%", "--certify needs --outcomes FILE"),
        ("studio rule --served log", "--served and --export go together"),
        ("studio rule --export rule", "--served and --export go together"),
        ("studio rule --served nowhere --export rule", "there is no .parquet file"),
        ("studio rule --served log --export log", "is no export of a rule"),
        ("holdout rule --share 5%", "--click-rate is missing"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(line: str, message: str, recprism: Recprism, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    found = recprism(*line.split())
    assert (found.code, message in found.err) == (2, True), found.err
    assert sorted(folder.rglob("*")) == before
