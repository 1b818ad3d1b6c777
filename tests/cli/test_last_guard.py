"""What nobody foresaw ends in one sentence and a log file; Ctrl-C ends in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """An error -> a machine on which numpy's random numbers raise it."""
    (tmp_path / "a.csv").write_text("user_id,item_id\n" + "".join(f"{u},{i}\n" for u in range(9) for i in range(9)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def break_with(problem: BaseException) -> None:
        def raising(*_: Any, **__: Any) -> Any:
            raise problem

        monkeypatch.setattr(np.random, "default_rng", raising)

    return break_with


def test_an_unforeseen_error_is_one_sentence_with_a_log(
    broken: Callable[[BaseException], None], recprism: Callable[..., Any], tmp_path: Path
) -> None:
    broken(RuntimeError("the numbers are gone\nall of them"))
    failed = recprism("data", "stats", "a.csv", "--seed", "3")
    (log,) = tmp_path.glob("recprism-*.log")
    wanted = (
        "error: unexpected RuntimeError: the numbers are gone; this is a fault of recprism, so please report it with"
    )
    assert (failed.code, failed.out) == (1, "")
    assert " ".join(failed.err.split()) == f"{wanted} the log {log}"
    text = log.read_text(encoding="utf-8")
    assert text.startswith("recprism data stats a.csv --seed 3\n")
    assert "Traceback (most recent call last)" in text and "all of them" in text and "polars " in text


def test_the_log_holds_no_token() -> None:
    from recprism.cli._crash import _without_secrets

    words = ["recprism", "studio", "run", "--token", "secret", "--token=secret", "--port", "1"]
    assert _without_secrets(words) == ["recprism", "studio", "run", "--token", "...", "--token=...", "--port", "1"]


def test_a_disk_without_room_for_the_log(
    broken: Callable[[BaseException], None],
    recprism: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(RuntimeError("gone"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    failed = recprism("data", "stats", "a.csv")
    assert failed.code == 1
    assert "unexpected RuntimeError: gone; no log could be written" in " ".join(failed.err.split())


def test_ctrl_c_is_one_line(broken: Callable[[BaseException], None], recprism: Callable[..., Any]) -> None:
    broken(KeyboardInterrupt())
    stopped = recprism("data", "stats", "a.csv")
    assert (stopped.code, stopped.out, stopped.err.strip()) == (130, "", "stopped")


def test_a_host_that_does_not_exist(recprism: Callable[..., Any], tmp_path: Path) -> None:
    from recprism.runs.config import RunConfig
    from recprism.runs.run import Run

    Run.create(tmp_path / "run", RunConfig())
    refused = recprism("studio", tmp_path / "run", "--host", "no.such.host.invalid")
    assert (refused.code, "--host no.such.host.invalid: no such name" in refused.err) == (2, True)
