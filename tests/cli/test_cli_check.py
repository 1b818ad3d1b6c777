"""`recprism check` as a pipeline meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from recprism.runs.jobs.diversify import effect
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def diversified(searched_run: Callable[..., Run]) -> Run:
    return searched_run(3, 16, iterations=15)


def test_the_exit_code_follows_the_measured_change(
    diversified: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int], tmp_path: Path
) -> None:
    """Limits just within and just beyond what ``effect`` measures on the same labels."""
    change = effect(diversified, ("subtopic_coverage@10", "ndcg@10"), controls=False).change
    gain, loss = change["subtopic_coverage@10"].relative, -change["ndcg@10"].relative
    assert gain > 0.02
    kept = ("--min-gain", f"sc={gain - 0.01}", "--max-ndcg-loss", max(loss, 0) + 0.01)
    assert call("check", diversified.path, *kept) == 0
    assert capsys.readouterr().out.count("holds") == 2
    report = tmp_path / "check.xml"
    assert call("check", diversified.path, "--min-gain", f"subtopic_coverage@10={gain + 0.01}", "--junit", report) == 1
    assert "FAILS" in capsys.readouterr().out
    suite = ElementTree.fromstring(report.read_text(encoding="utf-8"))
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_confidence_asks_for_more(
    diversified: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    row = effect(diversified, ("subtopic_coverage@10",), controls=False).change["subtopic_coverage@10"]
    between = (row.relative + row.low / row.a) / 2
    assert call("check", diversified.path, "--min-gain", f"sc={between}", "--json") == 0
    assert json.loads(capsys.readouterr().out)["passed"]
    assert call("check", diversified.path, "--min-gain", f"sc={between}", "--confident", "--json") == 1
    assert not json.loads(capsys.readouterr().out)["passed"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "nothing to check"),
        (("--max-loss", "ndgc@10=0.1"), "did you mean"),
        (("--max-loss", "ndcg=0.1", "--max-ndcg-loss", "0.2"), "limit the same metric; give one of them"),
        (("--min-gain", "sc=0.1", "--min-gain", "subtopic_coverage@10=0.2"), "give it once"),
        (("--min-gain", "subtopic_coverage@10=x"), "share"),
    ],
)
def test_wrong_questions(
    diversified: Run,
    capsys: pytest.CaptureFixture[str],
    call: Callable[..., int],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    assert call("check", diversified.path, *words) == 2
    assert complaint in capsys.readouterr().err


def test_a_misspelt_goal_leaves_the_old_result_alone(
    searched_run: Callable[..., Run], capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    """`--overwrite` replaces a result by another one, not by a complaint."""
    run = searched_run(iterations=3)
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    assert call("search", run.path, "--goal", "sx", "--overwrite") == 2
    assert "unknown metric 'sx'" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before
