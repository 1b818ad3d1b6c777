"""A small synthetic content, and small runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from recprism.cmb import CMB
from recprism.data import load_dataset
from recprism.explain.explained import ExplanationInShort
from recprism.models import BPRMF
from recprism.report.content import (
    Cell,
    Change,
    Chosen,
    Content,
    Control,
    Dial,
    Entry,
    ErasedPoint,
    Explained,
    Feature,
    FrontPoint,
    Headline,
    User,
)
from recprism.result.result import Result
from recprism.result.summary import Sizes, Statement
from recprism.runs.config import BudgetConfig, DiversifyConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run


def change(name: str, relative: float | None = 0.1, better: bool | None = True) -> Change:
    ends = (None, None) if relative is None else (relative - 0.02, relative + 0.02)
    return Change(name, "what it is", 100, 0.5, 0.55, 0.05, relative, *ends, 0.01, better)


@pytest.fixture
def explained() -> Explained:
    """Hostile names: none of them may become markup."""
    return Explained(
        objective="subtopic_coverage@10",
        holds=True,
        checked=True,
        known_users=False,
        sentence="Factors matter to it.",
        notes=("Controls were judged on 20 users.",),
        promotion="Promotion makes 4%.",
        stability="",
        gain=0.1,
        controls=(
            Control("shuffled within items", 0.01, 0.1, 0.02),
            Control("plain promotion of items", 0.04, 0.4, 0.01),
        ),
        features=(
            Feature("Factor 1", "Comedy <b>", "Factor 1 was raised for 3 items.", 0.5, 0.6),
            Feature("Factor 3", "no reliable name", "Factor 3 was raised.", 0.1, 0.2),
        ),
        nulls=(("a random direction", 0.55),),
        together=("All of them together.",),
        erased=tuple(
            ErasedPoint(by, which, n, 1 - n / 4, 1 - n / 4, 1 - n / 4)
            for by in ("individual", "shared")
            for which in ("top", "matched", "squares")
            for n in (0, 2, 4)
        ),
        erasure_sentences=("Erasing two entries takes back 50%.", "Erasing two factors takes back 50%."),
        heat=tuple(Cell(item, factor, 0.1) for item in ("</script>", "B") for factor in ("Factor 1", "Factor 3")),
        heat_side="item",
    )


@pytest.fixture
def users() -> tuple[User, ...]:
    """Hostile and very long names, too."""
    return (
        User(
            "17",
            "typical",
            {"subtopic_coverage@10": (0.1, 0.4)},
            (Entry(1, "Old & gone", "1999", ("Drama",), "gone"), Entry(2, "Diversified", "", (), "moved")),
            (
                Entry(1, "Diversified", "", (), "moved"),
                Entry(2, "<script>alert(1)</script>", "2001", ("War",), "new", ("Adds War; replaces Old & gone.",)),
            ),
            (Dial("War", 0.05, 1.0), Dial("Drama", -0.02, 0.4)),
        ),
        User(
            "18" * 60,
            "pays most",
            {"ndcg@10": (None, None)},
            (),
            (Entry(1, "Long" * 100, "", (), "new", ("x" * 300,)),),
        ),
    )


@pytest.fixture
def rule() -> ExplanationInShort:
    """Hostile names, too."""
    shares = {"candidates": 0.1, "base lists": 0.2, "lists": 0.6, "gain of subtopic_coverage": 0.4}
    return ExplanationInShort(
        sentences=("The lists follow a rule.", "It explains 80 %."),
        explained=0.8,
        verdict="explains",
        users=500,
        shuffled=0.05,
        p_value=0.005,
        boosted=0,
        categories=({"category": "War <i>", **shares}, {"category": "Drama", **shares, "lists": 0.1}),
    )


@pytest.fixture
def content(explained: Explained, users: tuple[User, ...]) -> Content:
    return Content(
        title="made up",
        run="runs/made-up",
        part="test",
        goal="subtopic_coverage@10",
        cost="ndcg@10",
        budget=0.01,
        sizes=Sizes(19, 100),
        headline=Headline(
            (Statement("Lists cover 10.0 % more categories.", "gain", 0.1, "subtopic_coverage@10"),),
            ("Serve it: `recprism export runs/made-up`.",),
        ),
        diversified=True,
        front=(FrontPoint(0.1, 0.005, 0.1, 0.01), FrontPoint(0.2, 0.02, 0.2, 0.05), FrontPoint(0.3, 0.2, 0.3, None)),
        decided_on="validation",
        front_sentences=("For 1 %: -3 %.",),
        chosen=Chosen(0.005, 0.1, 0.01, "With 95 % confidence, at most 1 %."),
        changes=(
            change("subtopic_coverage@10"),
            change("ndcg@10", -0.005, False),
            change("catalogue_coverage@10", None, None),
        ),
        payers=(change("everyone", -0.005, False), change("light", -0.03, False)),
        paying=("light",),
        payers_sentence="Who pays more than the others, beyond chance: light users.",
        exposure=(change("head"), change("tail")),
        payers_of="the vectors of this run",
        explained=explained,
        rule=None,
        users=users,
        notes=("3 users were left out",),
        facts={"Settings": [("seed", "0")], "Versions": [("python", "3")]},
    )


@pytest.fixture(scope="session")
def trained(trained_run: Callable[..., Run]) -> Path:
    """A quickly trained run on the embedded data, not diversified."""
    return trained_run().path


@pytest.fixture(scope="session")
def diversified(searched_run: Callable[..., Run]) -> Path:
    """The same with a perturbation of the item vectors that players found."""
    return searched_run(iterations=10).path


@pytest.fixture(scope="session")
def by_rule(trained_run: Callable[..., Run]) -> Callable[[str], Path]:
    """A goal -> a run whose lists a rule makes, for that goal."""
    made: dict[str, Path] = {}

    def run(goal: str) -> Path:
        if goal not in made:
            found = trained_run()
            diversify_within(found, BudgetConfig(goal=goal, budgets={"ndcg@10": 0.3}))
            made[goal] = found.path
        return made[goal]

    return run


@pytest.fixture(scope="session")
def unlabelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No validation part, vectors of both sides moved, every second item without a title and the others with one."""
    data = load_dataset("ml-latest-small")
    twins = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("Twin")).alias("title")
    data = replace(data, attributes=data.attributes.with_columns(twins))
    split = data.split(seed=0).refit()
    factors = BPRMF(epochs=1, dim=6, patience=None).fit(split, seed=0, device="cpu")
    run = Run.create(tmp_path_factory.mktemp("runs") / "both", RunConfig())
    run.save_data(data, split)
    run.save_factors(factors)
    run.set_diversify(DiversifyConfig(settings={"side": "both", "iterations": 3}))
    search = CMB(side="both", iterations=3, device="cpu").fit(factors, split, data.categories)
    run.save_result(Result.of_vectors(run.problem(), search.changed()))
    moment = {"time": 1e9}
    events = (json.dumps({**moment, "event": name}) for name in ("first", "second"))
    (run.path / "events.jsonl").write_text("\n".join(events) + "\n", encoding="utf-8")
    return run.path
