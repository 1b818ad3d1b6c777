"""A result in a few sentences, in units of a reader. All pages and commands take them from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from recprism.budget.certificate import Certificate
from recprism.budget.problem import Problem
from recprism.budget.promise import judges
from recprism.budget.segments import SegmentChange, SegmentTable
from recprism.common.shares import percent
from recprism.metrics import Comparison
from recprism.metrics.comparison import Difference
from recprism.metrics.registry import number_in

Kind = Literal["state", "gain", "cost", "promise", "payers", "reason", "side effect"]
SMALLEST_SIDE_EFFECT = 0.01
GROUPS = {
    "everyone": "all users",
    "light": "the third with the fewest training items",
    "heavy": "the third with the most training items",
    "niche": "the third whose items are the least popular",
    "mainstream": "the third whose items are the most popular",
    "focused": "the third whose items have the fewest categories",
    "broad": "the third whose items have the most categories",
    "head": "the most popular items, a third of all training interactions",
    "mid": "the next, another third",
    "tail": "all the rest",
}
"""Segment of users or items -> who or what they are."""


@dataclass(frozen=True)
class Statement:
    """One sentence.

    Attributes:
        text: The sentence.
        kind: What it is about.
        figure: The relative change that it states in units of a reader, as a share; None if it has none.
        metric: What the figure measures.
    """

    text: str
    kind: Kind
    figure: float | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Sizes:
    """How many categories and items there are, of which lists show a share."""

    categories: int
    items: int

    @classmethod
    def of(cls, problem: Problem) -> Sizes:
        """Return the sizes of a problem; categories that no item has do not count."""
        present = problem.context.categories.n_present if len(problem.categories) else 0
        return cls(present, problem.base.n_items)


class Unit(NamedTuple):
    """How a reader counts a metric: in words, times a number, of a whole, with digits."""

    what: str
    times: float = 1.0
    whole: str = ""
    digits: int = 3


def unit_of(metric: str, sizes: Sizes) -> Unit:
    """Return the unit of a metric such as "subtopic_coverage@10"; other metrics keep their name."""
    name = metric.partition("@")[0]
    of_categories = (sizes.categories, f" of {sizes.categories:,}", 1)
    of_items = (sizes.items, f" of {sizes.items:,}", 0)
    of_hundred = (100.0, " of 100", 1)
    often = number_in(name)
    if often is not None:
        return Unit(f"Items that are in at least {often} lists", *of_items)
    known = {
        "subtopic_coverage": Unit("Categories in a list", *of_categories),
        "subtopic_coverage_shared": Unit("Categories that a list fills", *of_categories),
        "catalogue_coverage": Unit("Items that are in a list at all", *of_items),
        "recall": Unit("Held-out items that are in the list", *of_hundred),
        "tail_share": Unit("Places for items outside the most popular", *of_hundred),
        "gini": Unit("Inequality of places among items (1 is all for one item)"),
        "ilad": Unit("Difference between two items of a list (0 is none)"),
        "ilad_subtopics": Unit("Difference between two items of a list, by category (0 is none)"),
        "min_ild": Unit("Difference between the two closest items of a list (0 is none)"),
        "personalisation": Unit("Difference between the lists of two users (1 is full)"),
        "subtopic_entropy": Unit("Evenness of a list over categories (1 is even)"),
        "exposure_entropy": Unit("Evenness of places among items (1 is even)"),
        "alpha_ndcg": Unit("New categories early in a list (1 is the most)"),
        "alpha_ndcg_relevant": Unit("Held-out items of new categories early in a list (1 is the most)"),
        "calibration": Unit("Distance between a list and the user's own categories (0 is none)"),
        "novelty": Unit("How little known an item is, in bits", digits=2),
    }
    return known.get(name, Unit(metric))


def count_in(unit: Unit, value: float) -> str:
    """Write a value in a unit, without its whole."""
    return f"{unit.times * value:,.{unit.digits}f}"


def moved(unit: Unit, before: float, after: float) -> str:
    """Return both values in a unit, as in "Categories in a list: 9.6 -> 12.8 of 19"."""
    return f"{unit.what}: {count_in(unit, before)} -> {count_in(unit, after)}{unit.whole}"


def is_clear(row: Difference) -> bool:
    """Whether the interval of a change leaves out 0; metrics of all lists together have none."""
    return row.low is None or row.high is None or row.low > 0 or row.high < 0


def summarise(
    change: Comparison,
    goal: str,
    cost: str,
    *,
    part: str,
    sizes: Sizes,
    certificate: Certificate | None,
    segments: SegmentTable | None,
) -> tuple[Statement, ...]:
    """Say what lists have more of, what it costs, what is promised, who pays, and what else gets worse.

    Args:
        change: The metrics before and after, of the judged lists.
        goal: The metric of the goal.
        cost: The metric of accuracy.
        part: The part whose labels judge.
        sizes: Of the data.
        certificate: With the confidence of all questions that its labels answered; None if no budget was given.
        segments: Changes of accuracy by segments of users; None without labels.
    """
    rows = {row.name: row for row in change.rows}
    said = [
        _gain(rows.get(goal), goal, part, sizes),
        _cost(rows.get(cost), cost, part, certificate),
        *([] if certificate is None else [promise_of(certificate)]),
        *([] if segments is None else [payers_of(segments, part)]),
    ]
    return (*said, *_side_effects(change.rows, (goal, cost), sizes))


def _gain(row: Difference | None, goal: str, part: str, sizes: Sizes) -> Statement:
    if row is None or row.relative is None:
        return Statement(f"The lists changed. {goal} could not be judged.", "gain", None, goal)
    unit = unit_of(goal, sizes)
    text = f"{moved(unit, row.a, row.b)}, on {row.n_users:,} {part} users{_between(row, unit)}."
    if not is_clear(row):
        text += " This may be chance."
    return Statement(text, "gain", row.relative, goal)


def _between(row: Difference, unit: Unit) -> str:
    """Return the interval of a change in its unit."""
    if row.low is None or row.high is None:
        return ""
    if is_clear(row):
        low, high = sorted((abs(row.low), abs(row.high)))
        if count_in(unit, low) == count_in(unit, high):
            unit = unit._replace(digits=unit.digits + 1)
        return f" ({count_in(unit, low)} to {count_in(unit, high)} {'more' if row.difference > 0 else 'less'})"
    return f" (from {count_in(unit, abs(row.low))} less to {count_in(unit, row.high)} more)"


def _cost(row: Difference | None, cost: str, part: str, certificate: Certificate | None) -> Statement:
    if row is None or row.relative is None:
        unknown = "Accuracy: what this costs is not known, because no interactions are held out."
        return Statement(unknown, "cost", None, cost)
    said = f"Accuracy: {relative_change(row.relative, *_ends(row))} on {row.n_users:,} {part} users"
    ends = relative_interval(*_ends(row))
    budget = None if certificate is None else certificate.certified.get(cost)
    promised = "Promised: nothing, because no budget was tested."
    if budget is not None:
        promised = f"Promised: at most {percent(budget, 'g')} lower."
    return Statement(f"{said}{ends and f' ({ends})'}. {promised}", "cost", row.relative, cost)


def _ends(row: Difference) -> tuple[float | None, float | None]:
    if row.low is None or row.high is None or not row.a:
        return None, None
    return row.low / abs(row.a), row.high / abs(row.a)


def relative_change(share: float, low: float | None = None, high: float | None = None) -> str:
    """Write a change, as in "2.3 % lower"; a change that its interval does not tell from 0 is "about" that.

    >>> relative_change(-0.023), relative_change(0.001, -0.02, 0.03)
    ('2.3 % lower', 'about 0.1 % higher')
    """
    unclear = low is not None and high is not None and low <= 0 <= high
    return f"{'about ' if unclear else ''}{percent(abs(share), '.1f')} {'lower' if share < 0 else 'higher'}"


def relative_interval(low: float | None, high: float | None) -> str:
    """Write the interval of a change, the end nearest to 0 first; an empty text if there is none.

    >>> relative_interval(-0.04, -0.006), relative_interval(-0.04, 0.006)
    ('from 0.6 to 4.0 %', 'from 4.0 % lower to 0.6 % higher')
    """
    if low is None or high is None:
        return ""
    if low <= 0 <= high:
        return f"from {percent(-low, '.1f')} lower to {percent(high, '.1f')} higher"
    near, far = sorted((abs(low), abs(high)))
    return f"from {percent(near, '.1f', '')} to {percent(far, '.1f')}"


def promise_of(certificate: Certificate) -> Statement:
    """Say to whom the certificate promises its budget, how surely, and that it does not cover live lists."""
    if certificate.refusal() is not None:
        return Statement(certificate.sentence(), "promise")
    by = judges(certificate.checks[0].users, certificate.part, certificate.checks[0].clusters)
    sure = f"{certificate.sure()}, {by}"
    to = f"The promise is for the mean of all users, not for each user ({sure})."
    return Statement(f"{to} Live lists were not tested: the promise is assumed to hold for them, too.", "promise")


def payers_of(segments: SegmentTable, part: str) -> Statement:
    """Say which groups of users lose more than the others, and how much."""
    rows = [row for row in segments.rows if isinstance(row, SegmentChange)]
    found = [row for row in segments.paying if row.relative is not None]
    if not found:
        users = max((row.users for row in rows), default=0)
        among = f"{len(rows) - 1} groups of {users:,} {part} users, {percent(segments.confidence)} confidence"
        return Statement(f"Who pays: no group of users clearly loses more than the others ({among}).", "payers")
    named = "; ".join(
        f"{row.segment} users ({GROUPS.get(row.segment, 'a group of yours')}), "
        f"{relative_change(row.relative or 0.0)} accuracy ({relative_interval(row.low, row.high)})"
        for row in found
    )
    return Statement(f"Who pays more than the others: {named}.", "payers", found[0].relative)


def _side_effects(rows: Sequence[Difference], known: tuple[str, str], sizes: Sizes) -> list[Statement]:
    """Name the other metrics that got worse by at least 1 %, and beyond their interval if they have one."""
    worse = [
        row
        for row in rows
        if row.name not in known
        and row.better is False
        and is_clear(row)
        and abs(row.relative or 0.0) >= SMALLEST_SIDE_EFFECT
    ]
    if not worse:
        return [Statement("Side effects: no other metric gets clearly worse.", "side effect")]
    worse.sort(key=lambda row: -abs(row.relative or 0.0))
    return [
        Statement(
            f"Side effect: {moved(unit_of(row.name, sizes), row.a, row.b)}.", "side effect", row.relative, row.name
        )
        for row in worse
    ]
