"""A few kills, one for each command, and disks that are full; kill.py and disk.py have the long runs."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from commands import finish
from disk import judged
from kill import JOBS, Harness, Job, damaged, seen
from long_run import Noted, handles_grow, slope, told
from phases import PHASES

import recprism

SOURCE = Path(recprism.__file__).parent
SHORT = tuple(job for job in JOBS if job.name not in ("diversify --overwrite", "frontier"))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(tmp_path_factory.mktemp("kills"), SHORT)


@pytest.mark.parametrize("job", SHORT, ids=lambda job: job.name)
def test_a_killed_command_leaves_whole_files_and_goes_on_to_the_same_bits(harness: Harness, job: Job) -> None:
    luck = random.Random(0)
    for _ in range(5):  # it may be faster than it was when nobody disturbed it, and end before
        outcome = harness.trial(job, luck)
        assert outcome.bad == "", outcome
        if outcome.killed:
            return
    pytest.fail("five kills came too late")


@pytest.mark.parametrize("name", ["report", "diversify --budget"])
def test_the_lists_of_a_path_are_stored_in_one_step(harness: Harness, name: str) -> None:
    """They are those of two parts. A command that is killed after it has written some of them has written all."""
    job = next(job for job in SHORT if job.name == name)
    written = [at for at, (phase, _) in enumerate(harness.taken[name]) if phase == "writing the path"]
    assert written
    for number in written:
        outcome = harness.trial(job, random.Random(0), at=number + 1)
        assert outcome.killed
        assert outcome.bad == ""


def test_every_phase_is_that_of_a_function() -> None:
    for file, function in PHASES:
        assert f"def {function}(" in (SOURCE / file).read_text(encoding="utf-8"), (file, function)


@pytest.mark.parametrize(("name", "largest"), [("train", 900), ("diversify --budget", 3000), ("report", 50_000)])
def test_a_full_disk_is_one_sentence_and_no_end(harness: Harness, name: str, largest: int) -> None:
    """No file may be larger: the system answers as a full disk does."""
    job = next(job for job in SHORT if job.name == name)
    harness.fresh(job)
    code, _, err = finish(harness.words(job.start), harness.told, largest_file=largest)
    assert code == 1
    assert judged(code, err) == ""
    assert damaged(harness.run) == ""
    assert harness.goes_on(job) == ""


def test_a_run_between_old_and_new_is_noticed(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    job = next(job for job in SHORT if job.name == "search --overwrite")
    harness.fresh(job)
    old = seen(harness.run)
    new = {**old, **dict.fromkeys(("delta.safetensors", "cmb.json"), hashlib.sha256(b"new").hexdigest())}
    monkeypatch.setitem(harness.after, job.name, new)
    assert harness.between(job, old) == ""
    (harness.run / "delta.safetensors").write_bytes(b"new")
    assert harness.between(job, old) == "in between: cmb.json old, delta.safetensors new"
    (harness.run / "cmb.json").write_bytes(b"new")
    assert harness.between(job, old) == ""
    (harness.run / "delta.safetensors").unlink()
    assert harness.between(job, old) == "neither old nor new: delta.safetensors"


def test_the_harness_notices(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    assert damaged(run) == ""
    (run / "factors.json").write_text('{"user_ids": [1, 2', encoding="utf-8")
    assert "factors.json is half written" in damaged(run)
    (run / "factors.json").unlink()
    (run / "config.toml").write_text("seed = 0\n", encoding="utf-8")
    assert "config.toml is half written" in damaged(run)
    (run / "config.toml").unlink()
    (run / ".factors.json.abc.part").write_text("{", encoding="utf-8")
    assert damaged(run) == "", "a temporary name is no promise"
    assert judged(1, "Traceback (most recent call last)") != ""
    assert judged(1, "error: something else\n") != ""
    assert judged(0, "") == ""


def test_a_leak_is_seen_and_noise_is_not() -> None:
    noise = np.random.default_rng(0).normal(600, 20, 200)
    flat, leaking = slope(noise), slope(noise + np.arange(200) / 2)
    assert flat.low < 0 < flat.high
    assert leaking.low < 50 < leaking.high
    assert leaking.low > 0
    level = slope(np.full(200, 9.0))
    assert level.low == level.value == level.high == 0
    rising_at_first = np.minimum(np.arange(200), 80) + noise / 100
    assert slope(rising_at_first).low > 0
    settled = slope(rising_at_first, after=0.5)
    assert settled.rounds == 100
    assert settled.low < 0 < settled.high
    open_files = [Noted(0, 0, 0, handles, 1) for handles in (9, 10, 9, 10, 10, 9)]
    assert not handles_grow(open_files)
    assert handles_grow([*open_files, Noted(0, 0, 0, 12, 1)])
    sentences = list(told([*open_files, Noted(60, 0, 0, 12, 1)] * 10))
    assert sentences[0] == "70 rounds in 1 minutes"
    assert "file handles, after the first and the last: 9.0, 12.0; most 12.0" in sentences
    assert (
        "threads, second half: +0.00 per 100 rounds (+0.00 to +0.00), over 35 rounds: no growth to be seen" in sentences
    )
