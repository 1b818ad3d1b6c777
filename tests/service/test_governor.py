"""A service with a governor: it draws prices, logs them, takes steps, and is the same after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from serving_world import Served, Start, request_of, wait_until
from test_workers import is_alive, workers_of

from recprism.errors import InputError
from recprism.operate.served_log import SWITCHED_OFF
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.service import Settings
from recprism.service._service import Service

PRICES = GovernorPlan(prices=(0.0, 0.5), share=0.5, budgets={"clicks": "50%"}, outcomes="outcomes.csv", every=0.01)
PLAN = """
prices = [0, 0.5]
share = "50%"
outcomes = "{outcomes}"
window = 0.00001
every = 1
[budgets]
clicks = "50%"
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_service_raises_its_price_and_keeps_it_over_a_kill(
    start: Start, export: Path, tmp_path: Path, workers: str
) -> None:
    outcomes, plan, log = (tmp_path / name for name in ("outcomes.csv", "governor.toml", "log"))
    plan.write_text(PLAN.format(outcomes=outcomes), encoding="utf-8")
    words = ("--log", str(log), "--log-users", "--governor", str(plan), "--workers", workers)
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
    for wrong in ({}, {"enabled": "perhaps"}, {"on": True}, []):
        assert again.ask("/governor", wrong)[0] == 422
    assert again.ask("/governor", {"enabled": False})[1]["price"] == 0
    assert "recprism_governor_price 0.0" in again.ask("/metrics")[1]
    with again.client() as client:
        assert {client.rerank(**request_of(), user=f"u{at}").trade_off for at in range(20)} == {0}


def test_a_service_without_a_governor_says_so(served: Served) -> None:
    assert served.ask("/governor")[0] == 404
    assert served.ask("/governor", {"enabled": False})[:2] == (
        422,
        {"detail": "this service has no governor (--governor)"},
    )


def test_a_governor_needs_a_log_with_users_and_no_other_prices() -> None:
    with pytest.raises(InputError, match="it needs log and log_users"):
        Settings(governor=PRICES)
    with pytest.raises(InputError, match="a table of prices has no effect"):
        Settings(governor=PRICES, prices={"new": 0.1}, log="log", log_users=True, log_key="k" * 32)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the process of the step is found in /proc")
def test_the_end_of_a_service_ends_its_step(start: Start, export: Path, tmp_path: Path) -> None:
    plan, log = tmp_path / "governor.toml", tmp_path / "log"
    plan.write_text(PLAN.format(outcomes=tmp_path / "outcomes.csv"), encoding="utf-8")
    log.mkdir()
    os.mkfifo(log / "never.parquet")  # who reads it waits for ever
    served = start(export, "--log", str(log), "--log-users", "--governor", str(plan), RECPRISM_LOG_KEY="k" * 32)
    wait_until(lambda: len(workers_of(served)) == 1)
    (step,) = workers_of(served)
    served.kill(signal.SIGTERM)
    assert served.wait() == 0
    wait_until(lambda: not is_alive(step))


def test_the_log_names_a_rule_that_is_switched_off_as_its_reader_does(start: Start, shared_export: Path) -> None:
    served = start(shared_export)
    served.ask("/enabled", {"enabled": False})
    with served.client() as client:
        assert client.rerank(**request_of()).fallback == SWITCHED_OFF


def test_two_governors_cannot_share_a_log_and_a_broken_step_is_not_the_last(
    shared_export: Path, tmp_path: Path
) -> None:
    settings = Settings(governor=PRICES, log=tmp_path, log_users=True, log_key="k" * 32)
    service = Service(shared_export, settings)
    with ThreadPoolExecutor() as other, pytest.raises(InputError, match="another service with a governor writes here"):
        other.submit(Service, shared_export, settings).result()
    governor, steps = service.governor, iter([ValueError("broken"), "keep"])
    assert governor is not None

    def step() -> str:
        found = next(steps)
        if isinstance(found, Exception):
            raise found
        said.append(governor.problem)
        return found

    said: list[str] = []
    governor.step = step  # type: ignore[method-assign]

    async def two_steps() -> None:
        work = asyncio.ensure_future(service._govern(governor))
        while not said or governor.problem:
            await asyncio.sleep(0.01)
        work.cancel()

    asyncio.run(asyncio.wait_for(two_steps(), 60))
    assert said == ["broken"], "the next step comes, and the problem was shown until then"
    service.close()
    Service(shared_export, settings).close()
