"""A few kills, one for each command; tests/faults/kill.py has the long run."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("kill", Path(__file__).with_name("kill.py"))
assert spec is not None
assert spec.loader is not None
kill = importlib.util.module_from_spec(spec)
sys.modules["kill"] = kill
spec.loader.exec_module(kill)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> object:
    return kill.Harness(tmp_path_factory.mktemp("kills"))


@pytest.mark.parametrize("job", kill.JOBS, ids=lambda job: job.name)
def test_a_killed_command_leaves_whole_files_and_goes_on_to_the_same_bits(harness: object, job: object) -> None:
    outcome = harness.trial(job, random.Random(0))  # type: ignore[attr-defined]
    assert outcome.bad == "", outcome


def test_the_harness_notices(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    assert kill.damaged(run) == ""
    (run / "factors.json").write_text('{"user_ids": [1, 2', encoding="utf-8")
    assert "factors.json is half written" in kill.damaged(run)
    (run / "factors.json").unlink()
    (run / ".factors.json.abc.part").write_text("{", encoding="utf-8")
    assert kill.damaged(run) == "", "a temporary name is no promise"
