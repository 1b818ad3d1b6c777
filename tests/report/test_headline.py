"""The first words: every number is one that the command line prints, and nothing is said that a control refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recprism.explain.explained import ExplanationInShort, kept_in_short
from recprism.report.collect import gather
from recprism.report.content import Change, Content, FrontPoint
from recprism.report.headline import Basis, headline
from recprism.report.html import render
from recprism.runs.run import Run


def change(name: str, relative: float, better: bool | None = True, spread: float = 0.01) -> Change:
    return Change(name, "", 100, 0.5, 0.5, 0.0, relative, relative - spread, relative + spread, 0.01, better)


@pytest.fixture
def basis(rule: ExplanationInShort) -> Basis:
    return Basis(
        run="runs/x",
        goal="subtopic_coverage@10",
        cost="ndcg@10",
        asked=0.05,
        diversified=True,
        labelled=True,
        changes=(
            change("subtopic_coverage@10", 0.27),
            change("ndcg@10", -0.028, False),
            change("tail_share@10", -0.16, False),
            change("recall@10", -0.03, False, spread=0.04),
            change("novelty@10", -0.002, False, spread=0.001),
        ),
        certified=0.05,
        payers=(change("everyone", -0.028, False), change("light", -0.06, False)),
        rule=rule,
    )


def texts(basis: Basis) -> list[str]:
    return [it.text for it in headline(basis).statements]


def test_a_manager_reads_what_changes_and_what_it_costs(basis: Basis) -> None:
    assert texts(basis) == [
        "Lists cover 27.0 % more categories.",
        "Accuracy falls 2.8 % (certified: at most 5 %).",
        "One rule explains 80 % of the changes that scores leave open.",
        "No user group clearly pays more.",
        "Side effect: items outside the most popular get 16.0 % fewer places.",
    ]
    told = headline(basis)
    assert [it.figure for it in told.statements] == [0.27, -0.028, 0.8, None, -0.16]
    assert "recprism experiment runs/x" in told.next_steps[0]
    assert "recprism export runs/x" in told.next_steps[1]
    assert "--tail-floor" in told.next_steps[2]


def test_metrics_of_all_lists_together_can_be_side_effects(basis: Basis) -> None:
    whole = replace(change("catalogue_coverage@10", -0.3, False), low=None, high=None)
    assert "Side effect: 30.0 % fewer items are shown to someone." in texts(
        replace(basis, changes=(*basis.changes, whole))
    )


@pytest.mark.parametrize("relative", [-0.001, 0.001])
def test_a_goal_that_does_not_clearly_change_is_not_served(basis: Basis, relative: float) -> None:
    unclear = change("subtopic_coverage@10", relative, relative > 0, spread=0.02)
    (said,) = headline(replace(basis, changes=(unclear, *basis.changes[1:]), goals="sc+ilad")).next_steps
    assert "does not clearly change" in said
    assert "--goal sc+ilad" in said


def test_what_a_control_refuses_is_withheld(basis: Basis, rule: ExplanationInShort) -> None:
    unclear = replace(basis, changes=(change("subtopic_coverage@10", 0.01, spread=0.02), change("ndcg@10", -0.001)))
    assert texts(unclear)[:2] == [
        "subtopic_coverage@10 does not clearly change.",
        "Accuracy does not clearly change (certified: at most 5 %).",
    ]
    assert all(it.figure is None for it in headline(unclear).statements[:2])
    assert texts(unclear)[-1] == "Side effects: no other metric gets clearly worse."
    for refused in (replace(rule, p_value=0.4), replace(rule, verdict="does not explain")):
        assert "No simple rule on categories explains the changes." in texts(replace(basis, rule=refused))
    assert "Whether one rule explains the changes was not tested." in texts(
        replace(basis, rule=replace(rule, p_value=None))
    )


def test_every_state_has_its_advice(basis: Basis) -> None:
    def first(**state: object) -> str:
        return headline(replace(basis, **state)).next_steps[0]  # type: ignore[arg-type]

    assert "watch the light ones" in first(paying=("light",))
    assert "light users lose 6.0 %" in " ".join(texts(replace(basis, paying=("light",))))
    assert "ask for a certified price" in first(certified=None)
    assert "(measured, not certified)" in " ".join(texts(replace(basis, certified=None)))
    assert "(approximately certified: at most 5 %)" in " ".join(texts(replace(basis, approximate=True)))
    assert "hold out some interactions" in first(labelled=False, changes=basis.changes[:1])
    assert "not known" in " ".join(texts(replace(basis, labelled=False, changes=basis.changes[:1])))
    worse = (change("subtopic_coverage@10", -0.1, False), *basis.changes[1:])
    assert first(changes=worse).startswith("Do not serve this")

    trained = replace(basis, diversified=False, certified=None, rule=None, reach=FrontPoint(0.1, 0.02, 0.3, 0.05))
    assert "lists cover 30.0 % more categories" in " ".join(texts(trained))
    assert "`recprism diversify runs/x --budget 5%" in headline(trained).next_steps[0]
    assert "Try a larger budget" in headline(replace(trained, reach=None)).next_steps[0]
    assert "Hold out" in headline(replace(trained, labelled=False)).next_steps[0]


def test_exposure_has_its_own_words(basis: Basis, rule: ExplanationInShort) -> None:
    boosted = replace(rule, explained=None, verdict=None, p_value=None, boosted=12)
    gini = replace(
        basis, goal="gini@10", changes=(replace(change("gini@10", -0.05), low=None, high=None),), rule=boosted
    )
    assert texts(gini)[0] == "Places are shared more evenly (Gini falls 5.0 %)."
    assert "The same boosts for all users make the changes: 12 items." in texts(gini)


@pytest.mark.slow
def test_one_number_in_command_line_report_and_headline(
    by_rule: Callable[[str], Path], capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    run = Run.open(by_rule("subtopic_coverage"))
    assert call("explain", run.path, "--draws", 19) == 0
    printed = capsys.readouterr().out
    assert call("report", run.path, "--draws", 19, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    content = gather(run, draws=19)
    assert json.loads(json.dumps(content.headline.to_dict())) == told["headline"]
    rows = {row["name"]: row for row in told["changes"]}
    for statement in content.headline.statements:
        assert statement.text in _text(content)
        if statement.metric in rows and statement.figure is not None:
            assert statement.figure == rows[statement.metric]["relative"]
            assert f"{abs(100 * statement.figure):.1f} %" in statement.text
    (reason,) = content.headline.of("reason")
    if reason.figure is not None:
        share = f"{100 * reason.figure:.0f} %"
        assert f"explains {share} of what scores alone leave open" in printed.replace("\n", " ")
        assert f"One rule explains {share}" in reason.text


@pytest.mark.slow
def test_a_headline_agrees_with_the_audit_and_with_diversify(
    trained: Path, by_rule: Callable[[str], Path], capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("audit", trained, "--goal", "subtopic_coverage", "--budgets", "5%", "--show", "5%", "--json") == 0
    audit = json.loads(capsys.readouterr().out)
    found = gather(Run.open(trained)).headline
    front = audit["fronts"]["subtopic_coverage"]
    reached = front["budgets"][0]["certified_at"]
    point = next((it for it in front["points"] if it["trade_off"] == reached), None)
    gains = found.of("gain")
    assert bool(gains) == (point is not None)
    if point is not None:
        assert gains[0].figure == point["subtopic_coverage@10"]
        assert found.of("cost")[0].figure == pytest.approx(point["ndcg@10"])
    path = by_rule("subtopic_coverage")
    assert call("diversify", path, "--budget", "30%", "--name", "again", "--json") == 0
    told_change = json.loads(capsys.readouterr().out)["change"]
    rows = {f"{row['metric']}@{row['k']}": row["relative"] for row in told_change["rows"]}
    told = gather(Run.open(path, "again"), draws=0).headline
    (gain,) = told.of("gain")
    assert gain.figure == rows["subtopic_coverage@10"]


@pytest.mark.slow
def test_one_explanation_is_kept_for_one_question(by_rule: Callable[[str], Path], call: Callable[..., int]) -> None:
    run = Run.open(by_rule("subtopic_coverage"))
    assert call("explain", run.path, "--draws", 3, "--seed", 5) == 0
    kept = run.explanation()
    assert kept_in_short(kept, {"part": "test", "draws": 3, "seed": 5}) is not None
    assert kept_in_short(kept, {"part": "test", "draws": 4, "seed": 5}) is None


def _text(content: Content) -> str:
    return render(content)
