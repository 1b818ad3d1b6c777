"""What an audit prints is what its next command makes, and it is one question to the labels."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recprism.runs.parts.questions import LEDGER, asked_of_labels
from recprism.runs.run import Run

Recprism = Callable[..., Any]
GOALS = ("subtopic_coverage", "ilad_subtopics", "catalogue_coverage")
BUDGETS = (0.2, 0.3)


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run()


def lines(run: Run) -> list[str]:
    return (run.path.parent / LEDGER).read_text(encoding="utf-8").splitlines()


def gain(outcome: Any, goal: str) -> float:
    found: dict[str, float] = {row["metric"]: row["relative"] for row in outcome.json["change"]["rows"]}
    return found[goal]


@pytest.mark.slow
def test_diversify_takes_over_what_the_audit_certified(run: Run, recprism: Recprism, ok: Recprism) -> None:
    words = ("audit", run.path, "--goal", ",".join(GOALS), "--budgets", "30%,20%")
    audit = ok(*words, "--json").json
    asked, printed = lines(run), ok(*words)
    assert lines(run) == asked, "the same audit again"
    assert audit["asked_before"] is None
    before = asked_of_labels(run, "validation").questions
    for goal in GOALS:
        front = audit["fronts"][goal]
        assert [it["budget"] for it in front["budgets"]] == list(BUDGETS)
        points = {it["trade_off"]: it for it in front["points"]}
        gains = [points[it["certified_at"]][f"{goal}@10"] for it in front["budgets"]]
        assert gains == sorted(gains)
        for stop, expected in zip(front["budgets"], gains, strict=True):
            name = f"{goal}-{stop['budget']:g}".replace(".", "_")
            about = ("--goal", goal, "--budget", stop["budget"], "-m", f"{goal}@10,ndcg@10", "--name", name)
            made = ok("diversify", run.path, *about, "--json")
            assert gain(made, goal) == pytest.approx(expected, abs=1e-12)
            assert made.json["trade_off"] == stop["certified_at"]
            assert made.json["certificate"]["sentence"] == stop["sentence"]
            assert made.json["certificate"]["questions"] == len(GOALS) * len(BUDGETS)
            said = f"{100 * expected:+.1f} % {goal}@10"
            assert f"Within a {100 * stop['budget']:g} % budget of NDCG@10: {said}" in " ".join(printed.out.split())
    assert lines(run) == asked
    assert asked_of_labels(run, "validation").questions == before
    following = shlex.split(re.findall(r"^next: recprism (.*)$", printed.err, re.MULTILINE)[0])
    last = ok(*following, "--json")
    assert last.json["trade_off"] == audit["fronts"][GOALS[0]]["budgets"][0]["certified_at"]
    assert lines(run) == asked
    ok("diversify", run.path, "--goal", GOALS[0], "--budget", "20%", "--guard", "recall@20=50%", "--name", "guarded")
    assert len(lines(run)) == len(asked) + 1, "a guard makes another question"


@pytest.mark.slow
def test_a_refused_question_stays_refused(run: Run, recprism: Recprism, ok: Recprism) -> None:
    words = ("--goal", "catalogue_coverage", "--confidence", "99.99%")
    audit = ok("audit", run.path, *words, "--budgets", "0.01%,40%")
    said = " ".join(audit.out.split())
    assert "Within a 0.01 % budget of NDCG@10: refused for catalogue_coverage@10, no step is certified. Step 1" in said
    assert "(measured" not in said
    assert "who pays (NDCG@10, test part), at the certified step of the 40 % budget:" in said
    asked = lines(run)
    refused = recprism("diversify", run.path, *words, "--budget", "0.01%", "--name", "refused", "--json")
    assert refused.code == 1
    assert "for 2 questions together" in refused.json["certificate"]["sentence"]
    assert lines(run) == asked


@pytest.mark.slow
def test_a_guard_judges_the_lists_that_are_served(run: Run, ok: Recprism) -> None:
    """The lists of a rule have a second page; recall@20 is not that of ten items and the old rest."""
    about = ("--goal", "subtopic_coverage", "--guard", "recall@20=50%", "--confidence", "90%")
    audit = ok("audit", run.path, *about, "--budgets", "25%", "--json").json
    (run.path / "audit.json").unlink()
    made = ok("diversify", run.path, *about, "--budget", "25%", "--name", "alone", "--json").json
    assert (
        made["certificate"]["sentence"].split(" This is")[0]
        == (audit["fronts"]["subtopic_coverage"]["budgets"][0]["sentence"].split(" This is")[0])
    )


@pytest.mark.slow
def test_other_models_ignore_the_audit(run: Run, ok: Recprism, trained_run: Callable[..., Run]) -> None:
    other = trained_run(3, 16)
    ok("audit", run.path, "--goal", "subtopic_coverage", "--budgets", "20%,25%")
    shutil.copy(run.path / "audit.json", other.path)
    made = ok("diversify", other.path, "--budget", "20%", "--json").json
    assert made["certificate"]["questions"] == 1


@pytest.mark.slow
def test_an_audit_of_a_form_agrees_with_its_export(run: Run, recprism: Recprism, ok: Recprism, tmp_path: Path) -> None:
    words = ("audit", run.path, "--form", "dials", "--goal", "sc", "--budgets", "20%,30%")
    ok("diversify", run.path, "--budget", "30%", "--name", "ruled")
    audit = ok(*words, "--json").json
    asked = lines(run)
    _, stop = audit["fronts"]["subtopic_coverage"]["budgets"]
    assert audit["form"] == "dials"
    assert "users without dials of their own" in audit["new_users"]
    ok("export", run.path, "--name", "ruled", "--form", "dials", "--budget", "30%", "-o", tmp_path / "dials")
    made = json.loads((tmp_path / "dials" / "export.json").read_text(encoding="utf-8"))["certificate"]
    assert made["trade_off"] == stop["certified_at"]
    assert lines(run) == asked, "the same question"
    ok("diversify", run.path, "--budget", "30%", "--name", "again")
    printed = ok(*words, "--show", "30%")
    assert "Each step below shows lists by dials" in printed.out
    (line,) = re.findall(r"recprism (export .*)", printed.err)
    assert "--form dials" in line
    ok(*shlex.split(line))


def test_unknown_forms_and_an_executor_are_refused(run: Run, recprism: Recprism) -> None:
    found = recprism("audit", run.path, "--form", "cards")
    assert (found.code, "a rule is compiled into dials, user-vectors, boosts, not into 'cards'" in found.err) == (
        2,
        True,
    )
    found = recprism("audit", run.path, "--form", "dials", "--executor", "ray")
    assert (found.code, "--executor has no effect with --form" in found.err) == (2, True)
