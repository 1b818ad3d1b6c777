"""`recprism explain` as a user meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from recprism.cli import main
from recprism.counterfactual import CMB
from recprism.data import load_dataset
from recprism.models import BPRMF
from recprism.study.config import DiversifyConfig, RunConfig
from recprism.study.run import Run


@pytest.fixture(scope="module")
def diversified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quickly trained run on the embedded data with a perturbation for SC."""
    data = load_dataset("ml-latest-small")
    split = data.split(seed=0)
    run = Run.create(tmp_path_factory.mktemp("runs") / "sc", RunConfig())
    run.save_data(data, split)
    factors = BPRMF(epochs=3, dim=16).fit(split, seed=0, device="cpu")
    run.set_diversify(DiversifyConfig(settings={"iterations": 15}))
    run.save_factors(factors)
    run.save_cmb(CMB(iterations=15, device="cpu").fit(factors, split, data.subtopics))
    return run.path


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["recprism", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_the_whole_story_then_one_user(
    diversified: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(monkeypatch, "explain", diversified, "--user", 1) == 0
    assert "Not checked against controls yet" in capsys.readouterr().out
    assert call(monkeypatch, "explain", diversified, "--draws", 49) == 0
    out, err = capsys.readouterr()
    assert "promotion alone" in out
    assert "shuffled within items" in out
    assert "Of the change of sc@10" in out
    assert "rank correlation" in out
    assert "next: recprism explain" in err
    kept = json.loads((diversified / "explanation.json").read_text(encoding="utf-8"))
    assert kept["sentences"][0] in out
    assert call(monkeypatch, "explain", diversified, "--user", 1) == 0
    out, _ = capsys.readouterr()
    assert "came (rank)" in out
    assert kept["verdict"]["sentence"] in out


def test_json_of_an_item(
    diversified: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(monkeypatch, "explain", diversified, "--item", 1, "--json") == 0
    view = json.loads(capsys.readouterr().out)
    assert view["title"] == "Toy Story (1995)"
    assert {"promotion", "entered", "left", "factors", "directions"} <= set(view)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--user", "nobody"), "whole numbers"),
        (("--user", "987654321"), "987654321"),
        (("--user", "1", "--item", "1"), "one of them"),
        (("--objective", "beauty@10"), "beauty"),
        (("--draws", "19"), "fewer than 40"),
        (("--axes", "sideways", "--draws", "0"), "axes are"),
    ],
)
def test_bad_questions_get_one_sentence(
    diversified: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    complaint: str,
) -> None:
    assert call(monkeypatch, "explain", diversified, *words) == 2
    out, err = capsys.readouterr()
    assert complaint in err
    assert not out
    assert "Traceback" not in err


def test_a_run_without_perturbation_is_told_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.create(tmp_path / "plain", RunConfig())
    assert call(monkeypatch, "explain", tmp_path / "plain") == 2
    assert "recprism diversify" in capsys.readouterr().err
