"""The page of a served log: the figures of the monitor, computed again once the log has changed."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from fastapi.testclient import TestClient

from recprism.forms import RuleFile
from recprism.operate import monitor_served
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.operate.traffic.certificate import LiveAnswer
from recprism.operate.traffic.governor import Governor
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.studio.app import create_app


@pytest.fixture
def served(small_rule: RuleFile, tmp_path: Path) -> tuple[Path, Path]:
    """The folders of a rule and of a log of two days."""
    small_rule.write(tmp_path / "rule")
    (tmp_path / "log").mkdir()
    write(tmp_path / "log" / "a.parquet", 600, "rule")
    return tmp_path / "rule", tmp_path / "log"


def write(file: Path, rows: int, shown: str) -> None:
    """Base lists have one category, those of the rule five."""
    start = datetime(2026, 2, 1, tzinfo=UTC)
    pl.DataFrame(
        [
            {
                "time": start + timedelta(days=2 * at / rows),
                "request": f"{file.stem}{at}",
                "user": f"{file.stem}{at}",
                "segment": None,
                "price": 0.3,
                "holdout": False,
                "shown": shown,
                "rule": [str(it) for it in (0, 1, 2, 3, 4)],
                "base": [str(it) for it in (0, 10, 20, 30)],
                "fallback": None,
                "unmet": 0,
                "milliseconds": 2.0,
            }
            for at in range(rows)
        ],
        schema=dict(SERVED_LOG_COLUMNS),
    ).write_parquet(file)


def test_the_page_has_the_figures_of_the_monitor(shelf: Path, served: tuple[Path, Path]) -> None:
    with TestClient(create_app([shelf / "empty"], served=served), base_url="http://127.0.0.1") as client:
        assert client.get("/api/visitor").json()["has_log"] is True
        found, expected = client.get("/api/monitor").json(), monitor_served(*served)
        assert found["verdict"] == expected.verdict() and found["passed"]
        assert [row["retained"] for row in found["days"]] == [row.retained for row in expected.days]
        assert found["total"]["base"] == pytest.approx(0.1) and found["total"]["shown"] == pytest.approx(0.5)
        write(served[1] / "b.parquet", 2000, "base")
        os.utime(served[1] / "b.parquet")
        changed = client.get("/api/monitor").json()
        assert changed["verdict"].startswith("FAILS: gain kept: 23") and not changed["passed"]
        assert {it["state"] for it in changed["alarms"]} == {"fires", "holds"}


def test_another_export_in_the_same_folder_is_read(shelf: Path, served: tuple[Path, Path]) -> None:
    with TestClient(create_app([shelf / "empty"], served=served), base_url="http://127.0.0.1") as client:
        assert client.get("/api/monitor").json()["metric"] == "subtopic_coverage@5"
        rule = RuleFile.read(served[0])
        shutil.rmtree(served[0])
        replace(rule, k=3).write(served[0])
        found = client.get("/api/monitor").json()
        assert found["metric"] == "subtopic_coverage@3" and found["total"]["shown"] == pytest.approx(0.3)


def test_the_page_says_what_the_governor_did_and_why(shelf: Path, served: tuple[Path, Path]) -> None:
    plan = GovernorPlan(prices=(0.0, 0.1, 0.2), share=0.1, budgets={"clicks": "5%"}, outcomes="outcomes.csv")
    measured = LiveAnswer("clicks", 0.05, "certified", 0.2, 0.2, 0.0, -0.04, 0.04, 900, 90, None, None, None)
    asked = replace(measured, answer="undecided", loss=0.03, high=0.08, needed=400, days=2)
    broken = replace(measured, answer="broken", loss=0.12, low=0.07, high=0.2, since="2026-02-03")

    def evidence(*answers: LiveAnswer) -> list[dict[str, object]]:
        every = zip(plan.prices[1:], answers, strict=True)
        return [{"price": price, **asdict(it), "sentence": it.sentence()} for price, it in every]

    with TestClient(create_app([shelf / "empty"], served=served), base_url="http://127.0.0.1") as client:
        assert client.get("/api/governor").json() is None
        governor = Governor(plan, served[1], "export")
        assert client.get("/api/governor").json()["verdict"].endswith("No traffic has been tested since.")
        governor._note("raise", evidence(measured, asked), ["7 clusters wait"], place=1)
        governor._note("keep", evidence(measured, asked), ["8 clusters wait"])
        found = client.get("/api/governor").json()
        assert found["price"] == 0.1 and found["notes"][-1] == "8 clusters wait"
        assert found["verdict"].startswith("The price is 0.1, raised at 20")
        rises = "It rises to 0.2 once every outcome is certified there: clicks undecided (about 2 more days)."
        assert found["verdict"].endswith(rises)
        assert [(it["price"], it["answer"]) for it in found["prices"]] == [(0.1, "certified"), (0.2, "undecided")]
        assert [it["what"] for it in found["changes"]] == ["raised to 0.1", "began at 0"]
        assert found["changes"][0]["why"].startswith("certified: clicks: at most 5 % may be lost; 0 %")
        governor._note("lower", evidence(broken, asked), place=0)
        lowered = client.get("/api/governor").json()["changes"][0]
        assert lowered["what"] == "lowered to 0" and "above the budget since 2026-02-03" in lowered["why"]
        governor.switch(False)
        off = client.get("/api/governor").json()
        assert (
            off["verdict"].startswith("The governor is off since 20") and off["changes"][0]["what"] == "switched off: 0"
        )


def test_a_studio_without_a_log_says_so(client: TestClient) -> None:
    assert client.get("/api/governor").json() is None
    answer = client.get("/api/monitor")
    assert answer.status_code == 404 and "--served and --export" in answer.json()["detail"]
