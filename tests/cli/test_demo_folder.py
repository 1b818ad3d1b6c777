"""The demo replaces its own run and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recprism.cli.start.demo import _note, require_own
from recprism.errors import InputError
from recprism.runs.config import DiversifyConfig, RunConfig
from recprism.runs.run import Run


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_of_somebody_else_is_refused_and_stays(tmp_path: Path, recprism: Callable[..., Any]) -> None:
    run = Run.create(tmp_path / "mine", RunConfig())
    run.event("trained")
    before = files_of(run.path)
    refused = recprism("demo", "-o", run.path)
    assert (refused.code, refused.out) == (2, "")
    assert "holds a run that the demo did not make or that was changed; use --overwrite or -o" in refused.err
    assert files_of(run.path) == before


def test_a_run_of_the_demo_is_its_own_until_it_is_changed(tmp_path: Path) -> None:
    require_own(tmp_path / "new")
    run = Run.create(tmp_path / "demo", RunConfig())
    _note(run, "begun")
    require_own(run.path)  # a demo that was interrupted
    run.event("trained")
    _note(run, "finished")
    require_own(run.path)
    run.event("diversified")
    with pytest.raises(InputError, match="was changed"):
        require_own(run.path)


def test_a_changed_config_or_a_named_result_is_the_users(tmp_path: Path) -> None:
    for change in ("config", "result"):
        run = Run.create(tmp_path / change, RunConfig())
        _note(run, "begun")
        _note(run, "finished")
        if change == "config":
            file = run.path / "config.toml"
            file.write_text(file.read_text().replace("seed = 0", "seed = 1"))
        else:
            run.named("bold").set_diversify(DiversifyConfig())
        with pytest.raises(InputError, match="was changed"):
            require_own(run.path)
