"""`recprism explain` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recprism.runs.config import RunConfig
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def diversified(searched_run: Callable[..., Run]) -> Path:
    """With a perturbation for SC."""
    return searched_run(3, 16, iterations=15).path


def test_the_whole_story_then_one_user(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("explain", diversified, "--user", 1) == 0
    assert "Not checked against controls yet" in capsys.readouterr().out
    assert call("explain", diversified, "--draws", 49) == 0
    out, err = capsys.readouterr()
    assert "promotion alone" in out
    assert "shuffled within items" in out
    assert "Of the change of subtopic_coverage@10" in out
    assert "rank correlation" in out
    assert "next: recprism explain" in err
    kept = json.loads((diversified / "explanation.json").read_text(encoding="utf-8"))
    assert kept["sentences"][0] in out
    assert call("explain", diversified, "--user", 1) == 0
    out, _ = capsys.readouterr()
    assert "came (rank)" in out
    assert kept["verdict"]["sentence"] in out


def test_json_of_an_item(diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]) -> None:
    assert call("explain", diversified, "--item", 1, "--json") == 0
    view = json.loads(capsys.readouterr().out)
    assert view["title"] == "Toy Story (1995)"
    assert {"promotion", "entered", "left", "factors", "directions"} <= set(view)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--user", "unknown"), "user id 'unknown' is unknown"),
        (("--user", "987654321"), "987654321"),
        (("--user", "1", "--item", "1"), "--item has no effect with --user"),
        (("--goal", "beauty@10"), "beauty"),
        (("--draws", "19"), "fewer than 40"),
        (("--user", "1", "--draws", "49"), "--draws has no effect for a single user or item"),
        (("--axes", "sideways", "--draws", "0"), "axes are"),
    ],
)
def test_bad_questions_get_one_sentence(
    diversified: Path,
    capsys: pytest.CaptureFixture[str],
    call: Callable[..., int],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    assert call("explain", diversified, *words) == 2
    out, err = capsys.readouterr()
    assert complaint in err
    assert not out
    assert "Traceback" not in err


def test_a_run_without_perturbation_names_the_command_that_makes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    Run.create(tmp_path / "plain", RunConfig())
    assert call("explain", tmp_path / "plain") == 2
    assert "recprism diversify" in capsys.readouterr().err
