"""The first words: every number is one that the command line prints, and nothing is said that a control refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recprism.budget.certificate import Certificate, Check, Point
from recprism.budget.segments import SegmentChange, SegmentTable
from recprism.explain.explained import ExplanationInShort, kept_in_short
from recprism.metrics import Comparison
from recprism.metrics.comparison import Difference
from recprism.report.collect import gather
from recprism.report.content import Change, Content, FrontPoint
from recprism.report.headline import Basis, headline
from recprism.report.html import render, spoken
from recprism.result.summary import Sizes, summarise
from recprism.runs.run import Run

SIZES = Sizes(19, 2000)


def change(name: str, relative: float, better: bool | None = True, spread: float = 0.01) -> Change:
    ends = (relative - spread, relative + spread)
    return Change(name, "", 601, 0.5, 0.5 * (1 + relative), 0.5 * relative, relative, *ends, 0.01, better)


def compared(rows: tuple[Change, ...]) -> Comparison:
    """The same rows as a comparison."""
    found = []
    for row in rows:
        assert row.before is not None
        assert row.after is not None
        assert row.difference is not None
        ends = [None if end is None else end * row.before for end in (row.low, row.high)]
        about = (row.name.partition("@")[0], 10, row.before, row.after, row.difference, row.relative)
        found.append(Difference(*about, *ends, 0.01, row.n, row.better))
    return Comparison(tuple(found), 0.95)


def certificate(passed: bool = True, **about: object) -> Certificate:
    check = Check("ndcg@10", 0.05, 580, 0.2, 0.196, 0.02, None if passed else 0.06, 0.01, passed, "betting", None)
    kept = Certificate((Point((check,), passed),), 0.95, "betting", "validation")
    return replace(kept, **about)  # type: ignore[arg-type]


def payers(paying: bool = False) -> SegmentTable:
    light = SegmentChange("light", 200, 0.2, 0.188, -0.06, -0.09, -0.03, 0.001, 0.001 if paying else 0.6)
    heavy = SegmentChange("heavy", 200, 0.2, 0.196, -0.02, -0.04, 0.0, 0.05, 0.9)
    return SegmentTable((SegmentChange("everyone", 601, 0.2, 0.1944, -0.028, -0.04, -0.02, 0.01), light, heavy), 0.95)


def result(basis: Basis, kept: Certificate | None = None, segments: SegmentTable | None = None, **other: Any) -> Basis:
    """The basis of a result, with its summary."""
    basis = replace(basis, segments=segments, **other)
    about = {"part": basis.part, "sizes": basis.sizes, "certificate": kept, "segments": segments}
    return replace(basis, summary=summarise(compared(basis.changes), basis.goal, basis.cost, **about))


@pytest.fixture
def plain(rule: ExplanationInShort) -> Basis:
    return Basis(
        run="runs/x",
        goal="subtopic_coverage@10",
        cost="ndcg@10",
        asked=0.05,
        diversified=True,
        labelled=True,
        part="test",
        sizes=SIZES,
        changes=(
            change("subtopic_coverage@10", 0.27),
            change("ndcg@10", -0.028, False),
            change("tail_share@10", -0.16, False),
            change("recall@10", -0.03, False, spread=0.04),
            change("novelty@10", -0.002, False, spread=0.001),
        ),
        certified=0.05,
        rule=rule,
    )


@pytest.fixture
def basis(plain: Basis) -> Basis:
    return result(plain, certificate(), payers())


def texts(basis: Basis) -> list[str]:
    return [it.text for it in headline(basis).statements]


def test_a_manager_reads_what_changes_and_what_it_costs(basis: Basis) -> None:
    assert texts(basis) == [
        "Categories in a list: 9.5 -> 12.1 of 19, on 601 test users (2.5 to 2.7 more).",
        "Accuracy: 2.8 % lower on 601 test users (from 1.8 to 3.8 %). Promised: at most 5 % lower.",
        "The promise is for the mean of all users, not for each user (95 % confidence, 580 users of the validation "
        "part). Live lists were not tested: the promise is assumed to hold for them, too.",
        "Who pays: no group of users clearly loses more than the others (2 groups of 601 test users, 95 % confidence).",
        "The stated reasons predict 80 % of the changes in the lists of 500 users; with shuffled categories, 5 %.",
        "Side effect: Places for items outside the most popular: 50.0 -> 42.0 of 100.",
    ]
    told = headline(basis)
    assert [it.figure for it in told.statements] == [0.27, -0.028, None, None, 0.8, -0.16]
    assert "recprism experiment runs/x" in told.next_steps[0]
    assert "recprism export runs/x" in told.next_steps[1]
    assert "--tail-floor" in told.next_steps[2]


def test_the_joint_confidence_is_on_the_first_screen(plain: Basis) -> None:
    def promise(**about: object) -> str:
        return " ".join(it.text for it in headline(result(plain, certificate(**about))).of("promise"))  # type: ignore[arg-type]

    assert "(85 % confidence for 3 questions together, 580 users" in promise(confidence=0.85, questions=3)
    assert "(no joint confidence for 30 questions together, 580 users" in promise(confidence=0.0, questions=30)
    assert "(approximate 95 % confidence, 580 users" in promise(method="t")
    assert promise(passed=False).startswith("No change of the lists is certified")


def test_metrics_of_all_lists_together_can_be_side_effects(plain: Basis) -> None:
    whole = replace(change("catalogue_coverage@10", -0.3, False), low=None, high=None)
    told = texts(result(plain, changes=(*plain.changes, whole)))
    assert "Side effect: Items that are in a list at all: 1,000 -> 700 of 2,000." in told


@pytest.mark.parametrize("relative", [-0.001, 0.001])
def test_a_goal_that_does_not_clearly_change_is_not_served(plain: Basis, relative: float) -> None:
    unclear = change("subtopic_coverage@10", relative, relative > 0, spread=0.02)
    told = headline(result(plain, certificate(), changes=(unclear, *plain.changes[1:]), goals="sc+ilad"))
    assert told.statements[0].text.endswith(" This may be chance.")
    assert "does not clearly change" in told.next_steps[0]
    assert "--goal sc+ilad" in told.next_steps[0]


def test_what_a_control_refuses_is_withheld(basis: Basis, rule: ExplanationInShort) -> None:
    unclear = result(
        basis, certificate(), changes=(change("subtopic_coverage@10", 0.01, spread=0.02), change("ndcg@10", -0.001))
    )
    assert texts(unclear)[:2] == [
        "Categories in a list: 9.5 -> 9.6 of 19, on 601 test users (from 0.1 less to 0.3 more). This may be chance.",
        "Accuracy: about 0.1 % lower on 601 test users (from 1.1 % lower to 0.9 % higher). "
        "Promised: at most 5 % lower.",
    ]
    assert texts(unclear)[-1] == "Side effects: no other metric gets clearly worse."
    for refused in (replace(rule, p_value=0.4), replace(rule, verdict="does not explain")):
        assert "Categories of the items do not predict the changes." in texts(replace(basis, rule=refused))
    untested = replace(basis, rule=replace(rule, p_value=None))
    assert "Whether the stated reasons predict the changes was not tested." in texts(untested)


def test_every_state_has_its_advice(basis: Basis) -> None:
    def first(kept: Certificate | None = None, segments: SegmentTable | None = None, **state: Any) -> str:
        return headline(result(basis, kept, segments, **state)).next_steps[0]

    assert "watch the light ones" in first(segments=payers(paying=True))
    named = "light users (the third with the fewest training items), 6.0 % lower accuracy (from 3.0 to 9.0 %)"
    assert named in " ".join(texts(result(basis, certificate(), payers(paying=True))))
    assert "ask for a certified cost" in first(certified=None)
    assert "Promised: nothing" in " ".join(texts(result(basis)))
    assert "hold out some interactions" in first(labelled=False, changes=basis.changes[:1])
    assert "not known" in " ".join(texts(result(basis, changes=basis.changes[:1])))
    worse = (change("subtopic_coverage@10", -0.1, False), *basis.changes[1:])
    assert first(changes=worse).startswith("Do not serve this")

    trained = replace(basis, diversified=False, certified=None, rule=None, reach=FrontPoint(0.1, 0.02, 0.3, 0.05))
    said = texts(trained)
    assert "Categories in a list: 9.5 of 19 now, on 601 test users." in said
    assert "Categories in a list: 9.5 -> 12.3 of 19, if you spend 5 % of accuracy." in said
    assert "Accuracy would be measured 2.0 % lower, certified to be at most 5 % lower." in said
    assert "`recprism diversify runs/x --budget 5%" in headline(trained).next_steps[0]
    assert "Try a larger budget" in headline(replace(trained, reach=None)).next_steps[0]
    assert "Hold out" in headline(replace(trained, labelled=False)).next_steps[0]


def test_exposure_has_its_own_words(plain: Basis, rule: ExplanationInShort) -> None:
    boosted = replace(rule, explained=None, verdict=None, p_value=None, boosted=12)
    row = replace(change("gini@10", -0.05), low=None, high=None)
    gini = result(plain, goal="gini@10", changes=(row,), rule=boosted)
    assert texts(gini)[0] == (
        "Inequality of places among items (1 is all for one item): 0.500 -> 0.475, on 601 test users."
    )
    assert "12 items get a boost, which is the same for all users." in texts(gini)


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
        assert spoken(statement.text) in _text(content)
        if statement.metric in rows and statement.figure is not None:
            assert statement.figure == rows[statement.metric]["relative"]
    (cost,) = content.headline.of("cost")
    assert f"{abs(100 * (cost.figure or 0.0)):.1f} %" in cost.text
    (reason,) = content.headline.of("reason")
    if reason.figure is not None:
        share = f"{100 * reason.figure:.0f} %"
        assert f"explains {share} of what scores alone leave open" in printed.replace("\n", " ")
        assert f"The stated reasons predict {share}" in reason.text


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
