"""Workers that end: the service answers all the same, and no process stays behind. Their answers: see ``served``."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from serving_world import Served, Start, request_of, wait_until
from test_life import load_of

from recprism.errors import InputError
from recprism.service import Settings
from recprism.serving import load_rule

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the workers are found in /proc")


def workers_of(served: Served) -> set[int]:
    found = Path(f"/proc/{served.pid}/task").glob("*/children")
    return {int(it) for file in found for it in file.read_text(encoding="ascii").split()}


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False


@pytest.mark.parametrize("n", [1, 2])
def test_another_worker_replaces_one_that_ends(start: Start, export: Path, n: int) -> None:
    served, rule = start(export, "--workers", str(n)), load_rule(export)
    before = workers_of(served)
    assert len(before) == n
    with load_of(served.address) as answers:
        wait_until(lambda: len(answers) > 20)
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(workers_of(served) - {min(before)}) == n)
        after = len(answers)
        wait_until(lambda: len(answers) > after + 20)
    for found in answers:
        assert found.ids == rule.rerank(**request_of(int(found.request[1:]) % 7)).ids
    assert served.err.read_text(encoding="utf-8").count("a worker ended; another one is started") == 1
    assert 'status="503"' not in served.ask("/metrics")[1]


def test_without_workers_the_service_makes_lists_itself(start: Start, export: Path) -> None:
    served = start(export, "--workers", "1")
    ids = served.ask("/rerank", request_of())[1]["ids"]
    shutil.rmtree(export)  # so no worker can start
    os.kill(*workers_of(served), signal.SIGKILL)
    status, said, headers = served.ask("/rerank", request_of())
    if status != 200:
        assert status == 503 and headers["retry-after"] == "1", said
        assert said["detail"] == "the processes that make lists have ended; try again in 1 s"
    wait_until(lambda: "no other worker was started" in served.err.read_text(encoding="utf-8"))
    assert served.ask("/rerank", request_of())[1]["ids"] == ids


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_service_and_not_before(start: Start, export: Path, number: signal.Signals) -> None:
    served = start(export, "--workers", "2")
    workers = workers_of(served)
    for pid in workers:
        os.kill(pid, signal.SIGTERM)  # as a container would, while requests are in flight
    assert served.ask("/rerank", request_of())[0] == 200
    served.kill(number)
    assert served.wait() == (0 if number == signal.SIGTERM else -number)
    wait_until(lambda: not any(map(is_alive, workers)), 30)


def test_the_kill_switch_reaches_the_workers(start: Start, export: Path) -> None:
    served = start(export, "--workers", "1")
    assert served.ask("/enabled", {"enabled": False})[0] == 200
    assert served.ask("/rerank", request_of())[1]["fallback"] == "disabled"
    served.ask("/enabled", {"enabled": True})
    assert served.ask("/rerank", request_of())[1]["fallback"] is None


@pytest.mark.parametrize("n", [-1, 65])
def test_the_number_of_workers_is_checked(n: int) -> None:
    with pytest.raises(InputError, match="workers must be from 0 to 64"):
        Settings(workers=n)
