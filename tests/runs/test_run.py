"""The run directory: it reads what was written, and errors name the right step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recprism.common.files import atomic_path
from recprism.errors import InputError
from recprism.runs.config import RunConfig
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path


def test_an_event_is_read_whatever_letters_it_holds(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RunConfig())
    name = "one\u2028two\u2029three\x85four\nfive"
    run.event("data", name=name)
    run.event("trained")
    assert [event.get("name") for event in run.events()] == [name, None]


@pytest.mark.parametrize("step", ["training", "search"])
def test_a_damaged_checkpoint_names_the_command_that_starts_again(step: str, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RunConfig())
    run.save_checkpoint({"a": np.zeros(3, np.float32)}, {"epoch": 1}, step)
    path = run.path / f"{step}.checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="delete it, and `recprism resume"):
        run.load_checkpoint(step)


@pytest.mark.slow
def test_a_path_is_bound_to_the_vectors_it_was_made_from(trained_run: Callable[..., Run]) -> None:
    run = trained_run()
    others = trained_run(epochs=1).factors()

    def meanwhile(_what: str, done: int, total: int) -> None:
        if done == total - 1:
            run.save_factors(others)

    stored_path(run, "catalogue_coverage", meanwhile)
    assert run.load_path("catalogue_coverage") is None, "it is not of the vectors that the run has now"


def test_a_run_can_be_made_where_one_was_killed_before_it_had_settings(tmp_path: Path) -> None:
    """Killed between the first temporary file and its name, a process leaves that file and its lock."""
    written: list[str] = []
    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "run" / "config.toml") as temporary:
        written.append(temporary.name)
        raise KeyboardInterrupt
    left = tmp_path / "run" / written[0]
    left.write_text("seed", encoding="utf-8")
    Run.create(tmp_path / "run", RunConfig())
    assert not left.exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.part").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="not empty and holds no run"):
        Run.create(tmp_path / "other", RunConfig())
