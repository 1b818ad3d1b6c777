"""A service with a governor: it draws prices, logs them, takes steps, and is the same after a kill."""

from __future__ import annotations

import signal
from pathlib import Path

import polars as pl
import pytest
from serving_world import Served, Start, request_of, wait_until

from recprism.errors import InputError
from recprism.service import Settings

PLAN = """
prices = [0, 0.5]
share = "50%"
outcomes = "{outcomes}"
window = 0.00001
every = 1
[budgets]
clicks = "50%"
"""


def test_a_service_raises_its_price_and_keeps_it_over_a_kill(start: Start, export: Path, tmp_path: Path) -> None:
    outcomes, plan, log = (tmp_path / name for name in ("outcomes.csv", "governor.toml", "log"))
    plan.write_text(PLAN.format(outcomes=outcomes), encoding="utf-8")
    words = ("--log", str(log), "--log-users", "--governor", str(plan))
    served = start(export, *words, RECPRISM_LOG_KEY="k" * 32)
    assert served.ask("/governor")[1]["price"] == 0
    with served.client() as client:
        prices = [client.rerank(**request_of(), user=f"u{at}", request_id=f"r{at}").trade_off for at in range(200)]
    assert set(prices) == {0, 0.5}
    outcomes.write_text("request,clicks\n" + "".join(f"r{at},1\n" for at in range(200)), encoding="utf-8")

    def is_raised() -> bool:
        with served.client() as client:  # clusters close at the time of the last request
            client.rerank(**request_of(), user="late")
        return bool(served.ask("/governor")[1]["price"] == 0.5)

    wait_until(is_raised, 60)
    found = pl.read_parquet(log / "*.parquet").sort("time").head(200)
    assert found["price"].to_list() == prices
    assert set(found.select("holdout", "place", "probability").iter_rows()) == {(True, 0, 0.5), (False, 1, 0.5)}
    metrics = served.ask("/metrics")[1]
    assert "recprism_governor_price 0.5" in metrics and 'recprism_governor_steps_total{step="raise"} 1.0' in metrics
    served.kill(signal.SIGKILL)
    served.wait()
    again = start(export, *words, RECPRISM_LOG_KEY="k" * 32)
    state = again.ask("/governor")[1]
    assert state["price"] == 0.5 and state["last"]["state"]["place"] == 1
    assert again.ask("/governor", {"enabled": False})[1]["price"] == 0
    with again.client() as client:
        assert {client.rerank(**request_of(), user=f"u{at}").trade_off for at in range(20)} == {0}


def test_a_service_without_a_governor_says_so(served: Served) -> None:
    assert served.ask("/governor")[0] == 404
    assert served.ask("/governor", {"enabled": False})[:2] == (
        422,
        {"detail": "this service has no governor (--governor)"},
    )


def test_a_governor_needs_a_log_with_users() -> None:
    plan = object()
    with pytest.raises(InputError, match="it needs log and log_users"):
        Settings(governor=plan)  # type: ignore[arg-type]
