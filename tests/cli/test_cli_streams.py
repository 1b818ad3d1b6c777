"""What goes where: results on stdout, with title, table and conclusion; progress and hints on stderr."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


Recprism = Callable[..., Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run, a diversified one, and a file of its lists."""
    folder = tmp_path_factory.mktemp("runs")
    for words in (
        ["train", "-o", "base", "--set", "epochs=2"],
        ["diversify", "diverse", "--budget", "10%"],
        ["recommend", "diverse", "-o", "lists.csv"],
    ):
        if words[0] == "diversify":
            shutil.copytree(folder / "base", folder / "diverse")
        subprocess.run([sys.executable, "-m", "recprism", *words], check=True, capture_output=True, cwd=folder)
    return folder


TABLES = [
    # command, title, conclusion
    ("evaluate diverse --bootstrap 0", r"diverse, on the test part", r""),
    ("evaluate-lists lists.csv", r"lists\.csv", r"note: "),
    ("evaluate diverse --against base --bootstrap 0", r"base against diverse, user by user", r""),
    ("recommend diverse --users 1", r"diverse: live lists: all known history$", r"Consumed items shown: 0"),
    (
        "recommend diverse",
        r"601 lists of up to 10 items \(live lists: all known history\) -> ",
        r"Gain of the live",
    ),
    (
        "recommend diverse --judged",
        r"601 lists of up to 10 items \(judged lists: history before the test part\) -> ",
        r"",
    ),
    ("check diverse --max-ndcg-loss 50%", r"diverse: limits, on the test part", r"holds: loss of ndcg@10"),
    (
        "explain diverse --draws 0",
        r"diverse: why the lists are as they are \(judged lists: history before the test",
        r"explains these",
    ),
    ("why diverse --user 1", r"diverse: why these items, for user 1", r"rank"),
    ("dials diverse", r"diverse: a few named weights per user", r"changed lists that the weights return"),
    ("experiment diverse", r"diverse: an A/B test, planned from the test part", r"guardrails"),
    (
        "monitor diverse --lists lists.csv",
        r"diverse: what is alive of its gain in subtopic_coverage@10",
        r"of the promised gain",
    ),
    ("export diverse -o vectors", r"-> vectors", r""),
    ("export diverse --form dials --to npz -o vectors", r"-> vectors", r"Of 601 lists, \d+ have the items of the rule"),
    ("data stats ml-latest-small", r"ml-latest-small, after cleaning", r""),
]


@pytest.mark.parametrize(("line", "title", "conclusion"), TABLES, ids=[row[0] for row in TABLES])
def test_a_result_is_whole_on_stdout(
    line: str, title: str, conclusion: str, runs: Path, recprism: Recprism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    found = recprism(*line.split())
    assert found.code == 0, found.err
    assert re.search(title, found.out.splitlines()[0]), found.out
    assert re.search(conclusion, found.out), found.out
    assert not re.search(r"^(next:|  or:|when |warning)", found.out, re.MULTILINE), "hints are no result"
    hints = re.compile(r"next:|  or:|when |kept in|rows written")
    assert [it for it in found.err.splitlines() if it and not hints.match(it)] == [], "a result is on stderr"
    shutil.rmtree("vectors", ignore_errors=True)


def test_an_audit_is_a_report_by_itself(runs: Path) -> None:
    """As a shell gives it: a table keeps its lines however narrow the screen is."""
    command = [sys.executable, "-m", "recprism", "audit", "base", "--goal", "subtopic_coverage"]
    environment = {**os.environ, "COLUMNS": "40"}
    done = subprocess.run(command, cwd=runs, capture_output=True, text=True, check=True, env=environment)
    lines = done.stdout.splitlines()
    assert lines[0] == "base: the lists now, on the test part"
    head = next(line for line in lines if line.startswith("trade-off"))
    assert head.split()[:2] == ["trade-off", "ndcg@10"]
    assert head.split()[-2:] == ["certified", "for"]
    assert any(line.startswith("who pays (NDCG@10, test part)") for line in lines)
    assert any(line.startswith("Who pays") for line in lines[-2:])  # the ledger of the folder may have the last word
    assert any(line.endswith("95 % interval") for line in lines)
    assert "\x1b" not in done.stdout
    assert done.stderr.splitlines()[0].startswith("next: ")


JSON = [
    "audit base --goal subtopic_coverage",
    "evaluate diverse --bootstrap 0",
    "evaluate diverse --against base --bootstrap 0",
    "recommend diverse",
    "check diverse --max-ndcg-loss 50%",
    "explain diverse --draws 0",
    "experiment diverse",
    "monitor diverse --lists lists.csv",
    "export diverse -o vectors",
    "export diverse --form user-vectors --to npz -o vectors",
    "report diverse --draws 0 -o page.html",
    "diversify base --budget 5% --overwrite",
    "data stats ml-latest-small",
]


@pytest.mark.parametrize("line", JSON)
def test_json_is_one_object_and_nothing_else(
    line: str, runs: Path, recprism: Recprism, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(runs)
    if line.startswith("diversify"):
        shutil.copytree(runs / "base", tmp_path / "base")
        monkeypatch.chdir(tmp_path)
    found = recprism(*line.split(), "--json")
    assert found.code == 0, found.err
    assert isinstance(json.loads(found.out), dict)
    shutil.rmtree("vectors", ignore_errors=True)


def test_diversify_concludes_on_stdout(runs: Path, recprism: Recprism, tmp_path: Path) -> None:
    shutil.copytree(runs / "base", tmp_path / "run")
    found = recprism("diversify", tmp_path / "run", "--budget", "10 %")
    assert found.out.splitlines()[0] == f"{tmp_path / 'run'}: lists before and after, on the test part"
    assert "Certified: at most 10 % of ndcg@10 (" in found.out
    assert "next:" in found.err
    assert "confidence" not in found.err


AT_ONCE = "import recprism.cli._output as output; output.QUICK = 0; from recprism.cli import main; main()"
"""A fast machine may be done before a bar would show."""


def on_a_terminal(words: list[str], folder: Path, python: tuple[str, ...] = ("-m", "recprism")) -> str:
    """All that a command writes to stderr where that is a terminal."""
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, *python, *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written = b""
        while process.poll() is None or select.select([mine], [], [], 0)[0]:
            if select.select([mine], [], [], 0.1)[0]:
                try:
                    written += os.read(mine, 65536)
                except OSError:  # the other end is closed
                    break
            else:
                time.sleep(0.01)
    os.close(mine)
    assert process.returncode == 0, written.decode()
    return written.decode()


@pytest.mark.parametrize(
    ("line", "doing"),
    [("audit run --goal subtopic_coverage", "measuring the paths"), ("diversify run --budget 10%", "walking the path")],
)
def test_a_terminal_shows_a_bar_with_the_time_left(line: str, doing: str, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "base", tmp_path / "run")
    shown = re.sub(r"\x1b\[[\d;?]*\w", "", on_a_terminal(line.split(), tmp_path, ("-c", AT_ONCE)))
    assert re.search(rf"{doing} ━.*left: \d:\d\d:\d\d", shown), shown


def test_no_bar_for_what_is_quick(runs: Path) -> None:
    assert "left:" not in on_a_terminal(["data", "list"], runs)
