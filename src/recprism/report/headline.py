"""The first words of a page: what changes, what it costs, why, who pays, what else changes, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from recprism.common.command_line import free_name
from recprism.common.shares import percent
from recprism.explain.explained import ExplanationInShort
from recprism.report.content import Change, Explained, FrontPoint, Headline, Statement

SMALLEST_SIDE_EFFECT = 0.01
PHRASES: dict[str, tuple[str, str]] = {
    "subtopic_coverage": ("lists cover {} more categories", "lists cover {} fewer categories"),
    "catalogue_coverage": ("{} more items are shown to someone", "{} fewer items are shown to someone"),
    "ndcg": ("accuracy rises {}", "accuracy falls {}"),
    "recall": ("{} more of the wanted items are found", "{} fewer of the wanted items are found"),
    "tail_share": (
        "items outside the most popular get {} more places",
        "items outside the most popular get {} fewer places",
    ),
    "gini": ("places are shared less evenly (Gini rises {})", "places are shared more evenly (Gini falls {})"),
    "ilad": ("the items of a list differ {} more", "the items of a list differ {} less"),
    "personalisation": ("the lists of two users differ {} more", "the lists of two users differ {} less"),
}
"""Metric -> what a rise and a fall mean to a reader."""


@dataclass(frozen=True)
class Basis:
    """The figures that a headline is made from.

    Attributes:
        run: The run as an argument of a command.
        goal: The metric of the goal.
        cost: The metric of accuracy.
        asked: The share of ``cost`` that may be lost.
        diversified: Whether the run has a result.
        labelled: Whether held-out interactions judge.
        changes: Metrics before and after; in an audit, now.
        certified: The certified budget of the result; None if nothing was certified.
        approximate: Whether a test that does not hold at every number of users certified it.
        reach: What could be had within ``asked``, certified; None if nothing, and for a result.
        payers: Accuracy by segment of users.
        paying: Segments that pay more than the other users, beyond chance.
        rule: The explanation of a rule; None for other runs, and if it is not known.
        factors: The explanation of players' factors; None for other runs.
        goals: The goal as `--goal` takes it, such as a mix of goals; "" if it is the metric.
        results: Names of the run's results.
    """

    run: str
    goal: str
    cost: str
    asked: float
    diversified: bool
    labelled: bool
    changes: tuple[Change, ...]
    certified: float | None = None
    approximate: bool = False
    reach: FrontPoint | None = None
    payers: tuple[Change, ...] = ()
    paying: tuple[str, ...] = ()
    rule: ExplanationInShort | None = None
    factors: Explained | None = None
    goals: str = ""
    results: tuple[str, ...] = ()

    def row(self, metric: str) -> Change | None:
        """Return the row of a metric."""
        return next((it for it in self.changes if it.name == metric), None)


def headline(basis: Basis) -> Headline:
    """Put figures into words; a statement is withheld where its control refuses."""
    if not basis.diversified:
        return Headline(tuple(_audited(basis)), tuple(_next_of_audit(basis)))
    said = [*_gain(basis), *_cost(basis), *_reason(basis), *_payers(basis), *_side_effects(basis)]
    return Headline(tuple(said), tuple(_next(basis)))


def size(share: float) -> str:
    """Write the size of a change without its sign, as the command line rounds it."""
    return percent(abs(share), ".1f")


def in_words(metric: str, share: float) -> str:
    """Say how far a metric moved, in words of a reader, with a small first letter."""
    name = metric.partition("@")[0]
    rise, fall = PHRASES.get(name, (f"{metric} rises {{}}", f"{metric} falls {{}}"))
    return (rise if share >= 0 else fall).format(size(share))


def is_clear(row: Change) -> bool:
    """Whether the interval of a change leaves out 0; metrics of all lists together have none."""
    return row.low is None or row.high is None or row.low > 0 or row.high < 0


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# -- a result ---------------------------------------------------------------------------------------------------------


def _gain(basis: Basis) -> list[Statement]:
    row = basis.row(basis.goal)
    if row is None or row.relative is None:
        return [Statement(f"The lists changed. {basis.goal} could not be judged.", "gain", None, basis.goal)]
    if not is_clear(row):
        return [Statement(f"{basis.goal} does not clearly change.", "gain", None, basis.goal)]
    return [Statement(_sentence(in_words(row.name, row.relative)), "gain", row.relative, row.name)]


def _cost(basis: Basis) -> list[Statement]:
    row = basis.row(basis.cost)
    if row is None or row.relative is None:
        unknown = "What it costs in accuracy is not known: there are no held-out interactions."
        return [Statement(unknown, "cost", None, basis.cost)]
    promise = "measured, not certified"
    if basis.certified is not None:
        kind = "approximately certified" if basis.approximate else "certified"
        promise = f"{kind}: at most {percent(basis.certified, 'g')}"
    moved = in_words(row.name, row.relative) if is_clear(row) else "accuracy does not clearly change"
    figure = row.relative if is_clear(row) else None
    return [Statement(_sentence(f"{moved} ({promise})"), "cost", figure, row.name)]


def _reason(basis: Basis) -> list[Statement]:
    if basis.factors is not None:
        return [Statement(_factors(basis.factors), "reason")]
    found = basis.rule
    if found is None:
        return []
    if found.boosted:
        return [Statement(f"The same boosts for all users make the changes: {found.boosted:,} items.", "reason")]
    if found.holds and found.explained is not None:
        share = percent(found.explained, "z.0f")
        said = f"One rule explains {share} of the changes that scores leave open."
        return [Statement(said, "reason", found.explained, "explained")]
    said = "No simple rule on categories explains the changes."
    if found.explained is None:
        said = "The rule that made the lists gives the reason of every change."
    elif found.p_value is None:
        said = "Whether one rule explains the changes was not tested."
    return [Statement(said, "reason")]


def _factors(found: Explained) -> str:
    if not found.checked:
        return "Why the lists changed was not tested."
    if found.holds:
        return "Factors of the model explain the change, beyond chance and plain promotion."
    return "No factor of the model explains the change beyond chance and plain promotion."


def _payers(basis: Basis) -> list[Statement]:
    if not basis.payers:
        return []
    found = [row for row in basis.payers if row.name in basis.paying and row.relative is not None]
    if not found:
        return [Statement("No user group clearly pays more.", "payers")]
    named = ", ".join(f"{row.name} users lose {size(row.relative or 0.0)}" for row in found)
    return [Statement(_sentence(f"some users pay more than the others: {named}"), "payers", found[0].relative)]


def side_effects(basis: Basis) -> list[Change]:
    """Return the other metrics that got worse by at least 1 %, and beyond their interval if they have one, in order."""
    found = [
        row
        for row in basis.changes
        if row.name not in (basis.goal, basis.cost)
        and row.better is False
        and is_clear(row)
        and abs(row.relative or 0.0) >= SMALLEST_SIDE_EFFECT
    ]
    return sorted(found, key=lambda row: -abs(row.relative or 0.0))


def _side_effects(basis: Basis) -> list[Statement]:
    found = side_effects(basis)
    if not found:
        return [Statement("Side effects: no other metric gets clearly worse.", "side effect")]
    return [
        Statement(f"Side effect: {in_words(row.name, row.relative or 0.0)}.", "side effect", row.relative, row.name)
        for row in found
    ]


def _next(basis: Basis) -> list[str]:
    goal, gain = basis.goals or basis.goal.partition("@")[0], basis.row(basis.goal)
    again = f"recprism diversify {basis.run} --overwrite --budget {percent(basis.asked, 'g', '%')} --goal {goal}"
    if not basis.labelled:
        return ["Do not serve this yet: hold out some interactions, so that its price can be measured."]
    if gain is not None and not is_clear(gain):
        return [f"Do not serve this: the goal does not clearly change. Ask for a larger budget: `{again}`."]
    if gain is not None and gain.better is False:
        return [f"Do not serve this: the goal got worse. Ask for a budget instead: `{again}`."]
    if basis.certified is None:
        return [f"Before you serve this, ask for a certified price: `{again}`."]
    said = [
        f"Plan a test with users: `recprism experiment {basis.run}`.",
        f"Then serve the lists: `recprism export {basis.run}`.",
    ]
    if basis.paying:
        groups = " and ".join(basis.paying)
        said[0] = f"Plan a test with users, and watch the {groups} ones: `recprism experiment {basis.run}`."
    tail = next((it for it in side_effects(basis) if it.name.startswith("tail_share@") and it.before), None)
    if tail is not None:
        floor, budget = percent(tail.before, ".2g", "%"), percent(basis.asked, "g", "%")
        said.append(
            "If items outside the most popular must keep their places: `recprism diversify "
            f"{shlex.quote(shlex.split(basis.run)[0])} --budget {budget} --goal {goal} --tail-floor {floor} "
            f"--name {free_name('with-tail', basis.results)}`."
        )
    return said


# -- an audit ---------------------------------------------------------------------------------------------------------


def _audited(basis: Basis) -> list[Statement]:
    said = [Statement("Nothing is changed yet: this page shows what diversity would cost.", "state")]
    now = basis.row(basis.goal)
    if now is not None and now.before is not None and basis.goal.startswith("subtopic_coverage@"):
        said.append(
            Statement(f"A list covers {percent(now.before, '.1f')} of all categories now.", "state", now.before)
        )
    if not basis.labelled:
        unknown = "What more would cost in accuracy is not known: there are no held-out interactions."
        return [*said, Statement(unknown, "cost", None, basis.cost)]
    budget = percent(basis.asked, "g")
    if basis.reach is None:
        return [*said, Statement(f"No change is certified to cost at most {budget} of accuracy.", "cost")]
    gain, loss = basis.reach.gain, -basis.reach.loss
    would = f"with a change that is certified to cost at most {budget}: {in_words(basis.goal, gain)}"
    price = f"measured price: {in_words(basis.cost, loss)}"
    said += [
        Statement(_sentence(would), "gain", gain, basis.goal),
        Statement(_sentence(price), "cost", loss, basis.cost),
    ]
    return said + _payers(basis)


def _next_of_audit(basis: Basis) -> list[str]:
    goal, budget = basis.goal.partition("@")[0], percent(basis.asked, "g", "%")
    if not basis.labelled:
        return [
            "Hold out some interactions, so that the price can be measured before anything is served.",
            f"Until then, look at the lists: `recprism recommend {basis.run}`.",
        ]
    if basis.reach is None:
        return [
            f"Try a larger budget: `recprism audit {basis.run} --goal {goal} --budgets 10%,20%`.",
            "More held-out users may certify a smaller one.",
        ]
    return [
        f"Make the lists: `recprism diversify {basis.run} --budget {budget} --goal {goal}`.",
        f"Then write this page again: `recprism report {basis.run}`.",
    ]
