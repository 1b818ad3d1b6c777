"""The command that estimates outcomes at other prices."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.operate.served_log import SERVED_LOG_COLUMNS

Recprism = Callable[..., Any]


def test_the_command_estimates_prices_and_refuses_others(
    recprism: Recprism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rule").mkdir()
    generator, n = np.random.default_rng(2), 3_000
    place = generator.choice(3, n, p=[0.1, 0.88, 0.02])
    begin = datetime(2026, 3, 2, tzinfo=UTC)
    log = pl.DataFrame(
        {
            "time": [begin + timedelta(minutes=at) for at in range(n)],
            "request": [f"r{at}" for at in range(n)],
            "user": [f"u{at}" for at in range(n)],
            "holdout": place == 0,
            "place": place,
            "price": np.array([0.0, 0.1, 0.2])[place],
            "probability": np.array([0.1, 0.88, 0.02])[place],
            "drawn": "day",
            "shown": "rule",
        }
    )
    missing = [pl.lit(None, kind).alias(name) for name, kind in SERVED_LOG_COLUMNS.items() if name not in log.columns]
    log.with_columns(missing).write_parquet("log.parquet")
    clicks = generator.random(n) < np.array([0.5, 0.4, 0.3])[place]
    log.select("request", clicks=pl.Series(clicks.astype(float))).write_parquet("outcomes.parquet")
    words = ("monitor-log", "rule", "--served", "log.parquet", "--outcomes", "outcomes.parquet", "--window", "0.1")
    found = recprism(*words, "--what-if", "price=0,0.1,0.2", "--json")
    assert found.code == 0, found.err
    rows = {it["price"]: it for it in json.loads(found.out)["rows"]}
    for price, truth in ((0.0, 0.5), (0.1, 0.4)):
        for kind in ("ips", "dr"):
            assert rows[price][f"{kind}_low"] <= truth <= rows[price][f"{kind}_high"]
    assert rows[0.2]["ips"] is None and "100 and 10 are needed" in rows[0.2]["refused"]
    assert "refused: clicks at price 0.2" in recprism(*words, "--what-if", "price=0.2").out
    wrong = recprism(*words, "--what-if", "price=0.3")
    assert wrong.code == 2 and "the price 0.3 was not drawn" in wrong.err
    assert "write price=PRICE" in recprism(*words, "--what-if", "dials=1").err
    assert (
        "--what-if needs --outcomes"
        in recprism("monitor-log", "rule", "--served", "log.parquet", "--what-if", "price=0").err
    )
