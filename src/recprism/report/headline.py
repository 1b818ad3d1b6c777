"""The first words of a page: what changes, what it costs, why, who pays, what else changes, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from recprism.budget.segments import SegmentTable
from recprism.common.command_line import free_name
from recprism.common.shares import percent
from recprism.explain.explained import ExplanationInShort
from recprism.report.content import Change, Explained, FrontPoint, Headline
from recprism.result.summary import Sizes, Statement, count_in, moved, payers_of, relative_change, unit_of


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
        part: The part whose labels judge.
        sizes: Of the data.
        changes: Metrics before and after; in an audit, now.
        summary: The sentences of the result; empty in an audit.
        certified: The certified budget of the result; None if nothing was certified.
        reach: What could be had within ``asked``, certified; None if nothing, and for a result.
        segments: Changes of accuracy by segments of users; None without labels.
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
    part: str
    sizes: Sizes
    changes: tuple[Change, ...]
    summary: tuple[Statement, ...] = ()
    certified: float | None = None
    reach: FrontPoint | None = None
    segments: SegmentTable | None = None
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
    said = [it for it in basis.summary if it.kind != "side effect"]
    also = [it for it in basis.summary if it.kind == "side effect"]
    return Headline((*said, *_reason(basis), *also), tuple(_next(basis)))


# -- a result ---------------------------------------------------------------------------------------------------------


def _reason(basis: Basis) -> list[Statement]:
    if basis.factors is not None:
        return [Statement(_factors(basis.factors), "reason")]
    found = basis.rule
    if found is None:
        return []
    if found.boosted:
        return [Statement(f"{found.boosted:,} items get a boost, which is the same for all users.", "reason")]
    if found.holds and found.explained is not None:
        shuffled = "" if found.shuffled is None else f"; with shuffled categories, {percent(found.shuffled, 'z.0f')}"
        share = percent(found.explained, "z.0f")
        said = f"The stated reasons predict {share} of the changes in the lists of {found.users:,} users{shuffled}."
        return [Statement(said, "reason", found.explained, "explained")]
    said = "Categories of the items do not predict the changes."
    if found.explained is None:
        said = "Every change has its reason: the rule that made the lists gives it."
    elif found.p_value is None:
        said = "Whether the stated reasons predict the changes was not tested."
    return [Statement(said, "reason")]


def _factors(found: Explained) -> str:
    if not found.checked:
        return "Why the lists changed was not tested."
    if found.holds:
        return "Factors of the model explain the change, beyond chance and plain promotion."
    return "No factor of the model explains the change beyond chance and plain promotion."


def _next(basis: Basis) -> list[str]:
    goal, gain = basis.goals or basis.goal.partition("@")[0], basis.row(basis.goal)
    again = f"recprism diversify {basis.run} --overwrite --budget {percent(basis.asked, 'g', '%')} --goal {goal}"
    if not basis.labelled:
        return ["Do not serve this yet: hold out some interactions, so that its cost can be measured."]
    if gain is not None and gain.low is not None and gain.high is not None and gain.low <= 0 <= gain.high:
        return [f"Do not serve this: the goal does not clearly change. Ask for a larger budget: `{again}`."]
    if gain is not None and gain.better is False:
        return [f"Do not serve this: the goal got worse. Ask for a budget instead: `{again}`."]
    if basis.certified is None:
        return [f"Before you serve this, ask for a certified cost: `{again}`."]
    said = [
        f"Plan a test with users: `recprism experiment {basis.run}`.",
        f"Then serve the lists: `recprism export {basis.run}`.",
    ]
    paying = () if basis.segments is None else basis.segments.paying
    if paying:
        groups = " and ".join(row.segment for row in paying)
        said[0] = f"Plan a test with users, and watch the {groups} ones: `recprism experiment {basis.run}`."
    hit = any(it.kind == "side effect" and (it.metric or "").startswith("tail_share@") for it in basis.summary)
    tail = next((it for it in basis.changes if it.name.startswith("tail_share@") and it.before), None)
    if hit and tail is not None:
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
    now, unit = basis.row(basis.goal), unit_of(basis.goal, basis.sizes)
    if now is not None and now.before is not None:
        value = f"{count_in(unit, now.before)}{unit.whole}"
        said.append(Statement(f"{unit.what}: {value} now, on {now.n:,} {basis.part} users.", "state", now.before))
    if not basis.labelled:
        unknown = "What more would cost in accuracy is not known, because no interactions are held out."
        return [*said, Statement(unknown, "cost", None, basis.cost)]
    budget = percent(basis.asked, "g")
    if basis.reach is None:
        return [*said, Statement(f"No change is certified to lower accuracy by at most {budget}.", "cost")]
    gain, loss = basis.reach.gain, basis.reach.loss
    would = f"{basis.goal} {relative_change(gain)}"
    if now is not None and now.before is not None:
        would = moved(unit, now.before, now.before * (1 + gain))
    price = f"measured {relative_change(-loss)}, certified to be at most {budget} lower"
    said += [
        Statement(f"{would}, if you spend {budget} of accuracy.", "gain", gain, basis.goal),
        Statement(f"Accuracy would be {price}.", "cost", -loss, basis.cost),
    ]
    return said if basis.segments is None else [*said, payers_of(basis.segments, basis.part)]


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
