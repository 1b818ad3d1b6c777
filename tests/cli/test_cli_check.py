"""`recprism check` as a pipeline meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY
from xml.etree import ElementTree

import numpy as np
import pytest

from recprism.budget.certifying import certify
from recprism.budget.evidence import possible_losses
from recprism.operate.check import _least_gained
from recprism.result.effect import effect
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def diversified(trained_run: Callable[..., Run]) -> Run:
    run = trained_run()
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}))
    return run


def test_the_exit_code_follows_the_measured_change(
    diversified: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int], tmp_path: Path
) -> None:
    """Limits just within and just beyond what ``effect`` measures on the same labels."""
    change = effect(diversified.load_result(), ("subtopic_coverage@10", "ndcg@10")).change
    gain, loss = change["subtopic_coverage@10"].relative, -change["ndcg@10"].relative
    assert gain > 0.02
    kept = ("--min-gain", f"sc={gain - 0.01}", "--max-ndcg-loss", max(loss, 0) + 0.01, "--measured")
    assert call("check", diversified.path, *kept) == 0
    out = capsys.readouterr().out
    assert (out.count("holds"), out.count("(measured)"), out.count("bound")) == (2, 2, 0)
    report = tmp_path / "check.xml"
    beyond = ("--min-gain", f"subtopic_coverage@10={gain + 0.01}", "--measured", "--junit", report)
    assert call("check", diversified.path, *beyond) == 1
    assert "FAILS" in capsys.readouterr().out
    suite = ElementTree.fromstring(report.read_text(encoding="utf-8"))
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


@pytest.fixture(scope="module")
def found(trained_run: Callable[..., Run]) -> Run:
    """A rule within a wide budget."""
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}))
    return run


@pytest.mark.slow
def test_a_loss_is_tested_as_the_certificate_tests_it(
    found: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    """The certified budget passes on the labels that certified it, and what these refuse does not."""
    result = found.load_result("validation")
    (test,) = result.certificate.points[result.certificate.last].checks
    words = ("check", found.path, "--part", "validation", "--json", "--max-ndcg-loss")
    assert call(*words, "30%") == 0
    (row,) = json.loads(capsys.readouterr().out)["limits"]
    assert row["value"] < row["bound"] <= 0.3
    assert (row["confidence"], row["users"], row["users_needed"]) == (0.95, test.users, None)
    names = ("ndcg@10",)
    before, after = (result.problem.evaluate(it, names) for it in (result.problem.base, result.model))
    lists = (result.problem.rank(it, 10)[0] for it in (result.problem.base, result.model))
    possible = [{"ndcg@10": possible_losses(*lists, "ndcg@10")}]
    for budget in (row["bound"], row["bound"] - 0.0002):  # the bound is the least budget that is certified
        made = certify(before.values, [after.values], {"ndcg@10": budget}, possible=possible)
        assert (made.last is not None) == (budget == row["bound"])
        assert call(*words, budget) == (0 if budget == row["bound"] else 1)


@pytest.mark.slow
def test_a_mean_within_its_limit_does_not_pass_without_evidence(
    found: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    """Between value and bound: passes as measured, fails with confidence, passes with less of it."""
    for option, metric in (("--max-loss", "ndcg@10"), ("--min-gain", "subtopic_coverage@10")):
        assert call("check", found.path, option, f"{metric}=0.01%", "--json") in (0, 1)
        (row,) = json.loads(capsys.readouterr().out)["limits"]
        between = (row["value"] + row["bound"]) / 2
        words = ("check", found.path, option, f"{metric}={between}")
        assert call(*words, "--measured") == 0
        capsys.readouterr()
        assert call(*words) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert f"95 % confidence, {row['users']} users), at {'most' if option == '--max-loss' else 'least'}" in out
        assert "wanted; that is not shown yet, about " in out
        assert "users are needed" in out
        assert call(*words, "--confidence", "50%") == 0
        beyond = row["value"] - 0.001 if option == "--max-loss" else row["value"] + 0.001
        capsys.readouterr()
        assert call("check", found.path, option, f"{metric}={beyond}") == 1
        assert f"; the measured {row['kind']} is" in " ".join(capsys.readouterr().out.split())


def test_metrics_of_all_lists_and_those_without_bounds_are_measured(
    found: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    words = ("--max-loss", "gini=99%", "--max-loss", "pc=99%", "--max-loss", "alpha_ndcg=99%", "--min-gain", "sc=1%")
    assert call("check", found.path, *words) == 0
    out = capsys.readouterr().out
    assert (out.count("(measured)"), out.count("lower bound")) == (3, 1)


@pytest.mark.slow
def test_a_gain_that_is_not_there_is_shown_in_at_most_a_twentieth() -> None:
    """The true gain is the limit: 400 draws of 300 users, of whom a few gain everything."""
    generator, shown = np.random.default_rng(0), 0
    for _ in range(400):
        old = generator.uniform(0.2, 0.4, 300)
        new = np.where(generator.random(300) < 0.05, 0.9, old)  # a gain of 10 % in the mean
        shown += _least_gained(old, new, 0.1, new.mean() / old.mean() - 1, 0.05)[0] >= 0.1
        assert _least_gained(*(np.repeat(it, 2) for it in (old, new)), 0.1, 0.2, 0.05, np.repeat(range(300), 2)) == (
            pytest.approx(_least_gained(old, new, 0.1, 0.2, 0.05)[0]),
            ANY,
        ), "two users of one household are one observation"
    assert shown <= 32  # the 99 % point of 5 % of 400
    sure = _least_gained(old, old * 1.2, 0.1, 0.2, 0.05)[0]
    assert 0.15 < sure < 0.2


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
