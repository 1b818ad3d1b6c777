"""Excessive requests are refused with a reason; no request ends in a 5xx."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from recprism.service.limits import Allowed, Bucket, address
from recprism.studio.app import create_app
from recprism.studio.opened import BusyError
from recprism.studio.studio import MOST_WAITING, Studio

pytestmark = pytest.mark.slow


def test_a_bucket_accepts_its_size_and_rate() -> None:
    now = 0.0
    bucket = Bucket(per_second=10, at_once=5, clock=lambda: now)
    assert [bucket.wait("a") > 0 for _ in range(7)] == [False] * 5 + [True] * 2
    assert bucket.wait("b") == 0, "each address has its own bucket"
    assert bucket.wait("a") == pytest.approx(0.1)
    now = 0.2
    assert bucket.look("a") == bucket.look("a") == 0, "looking takes nothing"
    assert [bucket.wait("a") > 0 for _ in range(3)] == [False, False, True]
    assert bucket.look("a") == pytest.approx(0.1)


def test_a_network_of_version_6_counts_as_one_address() -> None:
    of = {host: address({"client": (host, 1)}) for host in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "1.2.3.4")}
    assert of["2001:db8::1"] == of["2001:db8::2"] != of["2001:db8:0:1::1"]
    assert address({"client": ("::ffff:1.2.3.4", 1)}) == of["1.2.3.4"] == "1.2.3.4"
    assert address({"client": ("fe80::1%eth0", 1)})
    assert address({"client": None}) == address({}) == ""


def test_it_forgets_addresses_instead_of_growing() -> None:
    bucket = Bucket(per_second=1, at_once=1)
    for number in range(5000):
        bucket.wait(str(number))
    assert len(bucket._room) <= 1024


def test_too_many_requests_are_answered_429(shelf: Path) -> None:
    app = create_app([shelf / "empty"], allowed=Allowed(per_second=1, at_once=3))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answers = [client.get("/api/runs") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_a_large_request_is_refused(client: TestClient) -> None:
    assert client.post("/api/runs/plain/paths/subtopic_coverage", content=b"x" * 100_000).status_code == 413
    assert client.get("/api/runs/plain/search", params={"q": "x" * 10_000}).status_code == 414


def test_work_that_takes_time_does_not_pile_up(shelf: Path) -> None:
    studio, held = Studio([shelf / "empty"]), threading.Event()

    async def many() -> list[Any]:
        waiting = [asyncio.ensure_future(studio.ranked(held.wait)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await studio.ranked(held.wait)
        held.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(many()) == [True] * MOST_WAITING
    studio.close()


def test_no_request_ends_in_a_server_error(client: TestClient) -> None:
    """Valid and invalid requests to every route: never a 5xx."""
    described = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json())
    asked = {"n": 0}
    for found in described.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue  # an endless stream

        anything = st.one_of(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

        @settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
        @given(case=anything)
        def ask(case: Any) -> None:
            given_run = {**(case.path_parameters or {}), "run": "changed"}
            path = case.operation.path.format(**{name: quote(str(value), safe="") for name, value in given_run.items()})
            answer = client.request(case.method, path, params=dict(case.query or {}))
            asked["n"] += 1
            assert answer.status_code < 500, f"{case.method} {path} {case.query}: {answer.text}"

        ask()
    assert asked["n"] > 200
