"""A command that fails or refuses leaves the run as it was, byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.parts.questions import ASKED
from recprism.runs.run import Run

pytestmark = pytest.mark.slow
Call = Callable[..., int]


@pytest.fixture(scope="module")
def certified(trained_run: Callable[..., Run]) -> Run:
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}))
    return run


@pytest.fixture
def run(certified: Run, tmp_path: Path) -> Run:
    shutil.copytree(certified.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def contents(run: Run) -> dict[str, bytes]:
    """Every file, without paths: lists that are kept for the next command destroy nothing.

    The log keeps the questions to the labels, because labels that refused were asked all the same.
    """
    files = (file for file in run.path.rglob("*") if file.is_file() and not file.name.startswith("path."))
    lines = {file.relative_to(run.path).as_posix(): file.read_bytes().splitlines(keepends=True) for file in files}
    return {name: b"".join(it for it in of if ASKED.encode() not in it) for name, of in lines.items()}


NOT_CERTIFIABLE = "--budget 0.0001 --goal catalogue_coverage --confidence 0.9999"
REFUSED = {
    "resume of a finished budget": (2, "resume RUN"),
    "resume of a result that does not exist": (2, "resume RUN --name nobody"),
    "not certifiable": (1, f"diversify RUN --overwrite {NOT_CERTIFIABLE}"),
    "not certifiable as JSON": (1, f"diversify RUN --overwrite {NOT_CERTIFIABLE} --json"),
    "pins that cannot be kept": (1, "diversify RUN --overwrite --budget 0.5 --pin 1=318"),
    "shares that cannot be kept": (1, "diversify RUN --overwrite --budget 0.5 --min-share IMAX=90%"),
    "an unknown goal": (2, "diversify RUN --overwrite --budget 0.1 --goal nothing"),
    "an unknown reward": (2, "search RUN --overwrite --goal nothing"),
    "lists that are too long": (2, "search RUN --overwrite --set k=100000"),
    "a setting that does not exist": (2, "search RUN --overwrite --set nothing=1"),
    "a model that does not exist": (2, "train -o RUN --overwrite --model nothing"),
    "a setting of the model": (2, "train -o RUN --overwrite --set nothing=1"),
    "no such data": (2, "train -o RUN --overwrite --data nothing.csv"),
    "refit like itself": (2, "refit RUN --like nothing --overwrite"),
    "a report somewhere else": (1, "report RUN -o /proc/nothing/report.html --draws 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_command_changes_no_byte(run: Run, call: Call, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = REFUSED[name]
    before = contents(run)
    found = call(*line.replace("RUN", str(run.path)).split())
    said = capsys.readouterr().err
    assert (found, contents(run) == before) == (code, True), said
    assert "Traceback" not in said
    assert not [it for it in run.path.iterdir() if it.name.startswith(".")]


def test_what_is_not_certified_is_said_and_serves_nothing_new(
    run: Run, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("diversify", run.path, "--overwrite", *NOT_CERTIFIABLE.split()) == 1
    assert "Nothing was certified, so the run stays as it was" in capsys.readouterr().out
    assert call("recommend", run.path, "--users", "1") == 0


@pytest.mark.parametrize("command", ["evaluate RUN", "report RUN --draws 0", "recommend RUN", "export RUN -o OUT"])
def test_a_result_without_its_file_is_not_taken_for_the_base(
    run: Run, call: Call, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run.file("delta.safetensors").unlink()
    words = command.replace("RUN", str(run.path)).replace("OUT", str(tmp_path / "out")).split()
    assert call(*words) == 2
    said = capsys.readouterr().err
    assert "delta.safetensors: is missing, and the result of" in said
    assert call("evaluate", run.path, "--base", "-m", "ndcg@10", "--bootstrap", "0") == 0
    assert call("diversify", run.path, "--budget", "0.3", "--overwrite", "-m", "ndcg@10") == 0
    assert call(*words) == 0


def test_training_again_keeps_the_old_run_until_it_has_ended(
    run: Run, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the middle, the old run serves on, and ``resume`` ends the new training."""
    before = contents(run)
    words = ("train", "-o", run.path, "--overwrite", "--set", "dim=4", "--set", "epochs=3")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("recprism.runs.run.Run.commit", stop)
        assert call(*words) == 130
    assert {name: it for name, it in contents(run).items() if not name.startswith(".training/")} == before
    assert run.is_diversified()
    assert call("resume", run.path) == 0
    assert not run.is_diversified()
    assert run.factors().dim == 4
    assert not (run.path / ".training").exists()


def test_a_result_without_its_certificate_is_refused(run: Run, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    run.file("certificate.json").unlink()
    for command in ("report", "evaluate", "recommend"):
        assert call(command, run.path) == 2
        assert "certificate.json: is missing" in capsys.readouterr().err
    assert call("evaluate", run.path, "--base", "-m", "ndcg@10", "--bootstrap", "0") == 0


def test_a_certificate_with_missing_entries_is_refused(
    run: Run, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.file("certificate.json")
    path.write_text(path.read_text(encoding="utf-8").replace('"p_value"', '"p_valu"'), encoding="utf-8")
    assert call("recommend", run.path) == 2
    said = capsys.readouterr().err
    assert f"{path}: damaged" in said and "make the result again with --overwrite" in said


@pytest.mark.parametrize("name", ["factors.safetensors", "delta.safetensors", "categories.parquet", "items.parquet"])
def test_one_changed_byte_is_noticed(run: Run, call: Call, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = run.file(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert call("evaluate", run.path, "-m", "subtopic_coverage@10", "--bootstrap", "0") == 2
    assert name in capsys.readouterr().err


def test_lists_that_are_kept_and_damaged_are_made_again(
    run: Run, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """One byte changed in a stored path changes no answer."""
    assert call("audit", run.path, "--goal", "sc", "--json") == 0
    wanted = json.loads(capsys.readouterr().out)
    path = run.file("path.subtopic_coverage.safetensors")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    assert run.load_path("subtopic_coverage") is None
    assert call("audit", run.path, "--goal", "sc", "--json") == 0
    assert json.loads(capsys.readouterr().out) == wanted
