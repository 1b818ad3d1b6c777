"""The live certificate: does the rule lose at most a budget of an outcome against the random holdout?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.shares import CONFIDENCE, Share, percent, share
from recprism.errors import InputError
from recprism.forms.rule_file import fingerprint_of
from recprism.operate.traffic.capital import Array, differences, earlier_means, evidence, log_growths, log_mixture
from recprism.operate.traffic.clusters import read_clusters, weights_fit
from recprism.operate.traffic.steps import BROKEN, CERTIFIED, UNDECIDED, together

HOLDOUT = pl.when("holdout").then(-1.0).otherwise(1.0)
EVENTS = "governor.jsonl"
"""The file of the events of a governor, in the folder of its log."""
STEPS = 20  # of the search for an end of the interval


@dataclass(frozen=True)
class LiveQuestion:
    """A budget of one outcome, for all users or for a group.

    Attributes:
        outcome: Its column in the table of outcomes.
        group: A segment of the log; None for all users.
        budget: The share of the holdout's outcome that may be lost.
    """

    outcome: str
    group: str | None
    budget: float

    @property
    def name(self) -> str:
        """The name as the question was asked."""
        return self.outcome if self.group is None else f"{self.outcome}@{self.group}"


@dataclass(frozen=True)
class LiveAnswer:
    """What the log shows about one question.

    Attributes:
        question: The outcome, and the group after an @.
        budget: The share of the holdout's outcome that may be lost.
        answer: "certified", "undecided" or "broken".
        rule: Mean outcome under the rule; None without clusters.
        holdout: Mean outcome in the holdout; None without clusters.
        loss: 1 - rule / holdout.
        low: Lower end of the interval of the loss, which holds at all times.
        high: Upper end.
        clusters: Clusters of both arms.
        held: How many of them are in the holdout.
        since: The first day of the loss, if the budget is broken.
        needed: Further clusters until an answer, if they go on as before; None if there is one, or if they show none.
        days: The same in days of the log.
    """

    question: str
    budget: float
    answer: str
    rule: float | None
    holdout: float | None
    loss: float | None
    low: float | None
    high: float | None
    clusters: int
    held: int
    since: str | None
    needed: int | None
    days: int | None

    def sentence(self) -> str:
        """Describe the answer."""
        allowed = f"{self.question}: at most {percent(self.budget)} may be lost"
        if self.loss is None:
            why = "one arm has no closed cluster with an outcome" if self.clusters else "no cluster is in this segment"
            return f"{UNDECIDED}: {allowed}, and {why}"
        seen = f"{percent(self.loss, '.2g')} ({percent(self.low, '.2g')} to {percent(self.high, '.2g')}) is lost"
        seen = f"{allowed}; {seen} in {self.clusters:,} clusters"
        if self.answer == BROKEN:
            return f"{BROKEN}: {seen}; it is above the budget since {self.since}"
        if self.answer == CERTIFIED:
            return f"{CERTIFIED}: {seen}"
        more = "nothing points to an answer yet" if self.needed is None else f"about {self.needed:,} more clusters"
        return f"{UNDECIDED}: {seen}; {more}" + ("" if self.days is None else f", {self.days:,} days")


@dataclass(frozen=True, eq=False)
class LiveCertificate:
    """The answers to all questions, which hold together at all times.

    Attributes:
        export: What was served.
        log: The log.
        confidence: That no answer "certified" or "broken" is false at any time.
        window: Days from the first request of a cluster until it closes.
        rows: One answer per question.
        notes: What was left out, and what counts as 0.
    """

    export: str
    log: str
    confidence: float
    window: float
    rows: tuple[LiveAnswer, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether no budget is broken."""
        return all(row.answer != BROKEN for row in self.rows)

    def verdict(self) -> str:
        """Return the verdict in one sentence."""
        answer = together([row.answer for row in self.rows])
        if answer != CERTIFIED:
            return f"{answer}: {', '.join(row.question for row in self.rows if row.answer == answer)}."
        return f"{CERTIFIED}: every budget is kept ({percent(self.confidence)} confidence at all times together)."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        rows = [{**asdict(row), "sentence": row.sentence()} for row in self.rows]
        return {**asdict(self), "rows": rows, "passed": self.passed, "verdict": self.verdict()}

    def to_junit(self) -> str:
        """Return JUnit XML with one test case per question."""
        from recprism.operate.check import junit  # needs more than a service has

        cases = {row.question: row.sentence() if row.answer == BROKEN else None for row in self.rows}
        return junit("recprism monitor-log --certify", self.export, cases)


def questions_of(budgets: Mapping[str, Share], what: str) -> tuple[LiveQuestion, ...]:
    """Read questions such as ``{"clicks": "2%", "clicks@new": 0.05}``.

    Args:
        budgets: Outcome, or outcome@group -> the share that may be lost.
        what: What an error message begins with.
    """
    found = []
    for name, budget in budgets.items():
        outcome, at, group = name.partition("@")
        if not outcome or (at and not group):
            raise InputError(f"{what} {name}: name an outcome, or an outcome and a segment such as clicks@new")
        found.append(LiveQuestion(outcome, group or None, share(budget, f"{what} {name}", ends=False)))
    if not found:
        raise InputError(f"{what}: name at least one outcome and its budget, such as clicks=2%")
    return tuple(found)


def certify_live(
    export: str | Path,
    log: str | Path,
    outcomes: str | Path,
    budgets: Mapping[str, Share],
    *,
    window: float = 1.0,
    confidence: Share = 0.95,
) -> LiveCertificate:
    """Test budgets of outcomes on a log with a random holdout; the answers may be read at any time.

    Args:
        export: The folder of what was served; only its requests count if the log names exports.
        log: A folder of Parquet files, or one file, with the columns of ``recprism.operate.served_log``.
        outcomes: A table with ``request``, a column from 0 to 1 for each outcome, and optionally ``time``.
        budgets: Outcome, or outcome@group -> the share that may be lost. All of them share the error equally.
        window: Days from the first request of a cluster until it closes.
        confidence: That no answer is false at any time.

    Raises:
        InputError: If a file is missing or damaged, or if no price was drawn at random.
    """
    asked, sure = questions_of(budgets, "--certify"), share(confidence, "confidence", *CONFIDENCE)
    if not Path(export).is_dir():
        raise InputError(f"{export}: no such folder; name the export that was served")
    names = list(dict.fromkeys(it.outcome for it in asked))
    found = read_clusters(log, outcomes, names, window, fingerprint_of(export) or None)
    if found.table["place"].is_not_null().any():
        raise InputError(f"{log}: a governor drew these prices; {EVENTS} in its folder has the answers")
    alpha = (1 - sure) / len(asked)
    rows = tuple(answer(found.table, it, alpha, HOLDOUT) for it in asked)
    notes = list(found.notes)
    shares = found.table.select(pl.min_horizontal("probability", 1 - pl.col("probability")).round(12).n_unique()).item()
    if shares > 1:
        notes.append("the share of the holdout changed: bets follow the smallest one, which must have been planned")
    return LiveCertificate(str(export), str(log), sure, window, rows, tuple(notes))


@dataclass(frozen=True, eq=False)
class Arms:
    """The clusters of one question, in the order in which they opened.

    Attributes:
        outcome: From 0 to 1, (n,).
        arm: 1 for the rule, -1 for the holdout, 0 for any other, (n,).
        probability: With which the arm was drawn, (n,).
        starts: The first cluster of each day, (days,).
        least: The smallest probability of an arm.
    """

    outcome: Array
    arm: Array
    probability: Array
    starts: NDArray[np.int64]
    least: float

    def growths(self, budget: float) -> Array:
        """Return how the capitals grew on each day, (2, bets, days)."""
        w = differences(self.outcome, self.arm, self.probability, earlier_means(self.outcome), budget)
        return log_growths(w, self.starts, self.least, budget)

    def means(self, question: str) -> tuple[float, float] | None:
        """Return the mean outcomes under the rule and in the holdout; None if one has no cluster.

        Raises:
            InputError: If the clusters of an arm do not fit the probabilities of its draws.
        """
        weights = [(self.arm == it) / self.probability for it in (1, -1)]
        if not all(it.any() for it in weights):
            return None
        for name, it in zip(("under the rule", "in the holdout"), weights, strict=True):
            if not weights_fit(it):
                seen, n = int((it > 0).sum()), len(it)
                raise InputError(
                    f"{question}: {seen:,} of {n:,} clusters are {name}, and {seen * n / it.sum():,.0f} are expected; "
                    "log all requests of all arms, each with the probability of its own arm"
                )
        rule, holdout = (float(self.outcome @ it / it.sum()) for it in weights)
        return rule, holdout

    def interval(self, loss: float, alpha: float) -> tuple[float, float]:
        """Return the interval of the loss: the budgets of which neither direction is shown."""
        limit = math.log(2 / alpha)

        def is_inside(budget: float) -> bool:
            return bool((log_mixture(self.growths(budget).sum(2).T) < limit).all())

        ends = []
        for end in (-1.0, 1.0):
            near, far = min(max(loss, -1.0), 1.0), end
            for _ in range(STEPS):
                middle = (near + far) / 2
                near, far = (middle, far) if is_inside(middle) else (near, middle)
            ends.append(far)
        return ends[0], ends[1]


def answer(
    table: pl.DataFrame, question: LiveQuestion, alpha: float, arm: pl.Expr, least: float | None = None
) -> LiveAnswer:
    """Answer one question.

    Args:
        table: Clusters, as :func:`read_clusters` returns them.
        question: The outcome, the group and the budget.
        alpha: Its share of the error.
        arm: 1 for the rule, -1 for the holdout, 0 for any other arm.
        least: The smallest probability of an arm; by default that of the table.
    """
    rows = table if question.group is None else table.filter(pl.col("segment") == question.group)
    arms = arms_of(rows, question.outcome, arm, least)
    held = 0 if arms is None else int((arms.arm < 0).sum())
    means = None if arms is None else arms.means(question.name)
    if arms is None or means is None or not means[1]:
        rule, holdout = means or (None, None)
        nothing = (None, None, None, len(rows), held, None, None, None)
        return LiveAnswer(question.name, question.budget, UNDECIDED, rule, holdout, *nothing)
    found = evidence(arms.growths(question.budget), len(rows), alpha)
    loss = 1 - means[0] / means[1]
    days, undecided = rows["day"].unique(maintain_order=True), found.answer == UNDECIDED
    needed = found.needed if undecided else None
    return LiveAnswer(
        question.name,
        question.budget,
        found.answer,
        *means,
        loss,
        *arms.interval(loss, alpha),
        len(rows),
        held,
        None if found.since is None else days[found.since].isoformat(),
        needed,
        None if needed is None else math.ceil(needed * len(days) / len(rows)),
    )


def arms_of(rows: pl.DataFrame, outcome: str, arm: pl.Expr, least: float | None = None) -> Arms | None:
    """Return the clusters of a table as arrays; None if it has none.

    Args:
        rows: Clusters in the order in which they opened.
        outcome: The name of its column.
        arm: 1 for the rule, -1 for the holdout, 0 for any other.
        least: The smallest probability of an arm; by default that of the table.
    """
    if rows.is_empty():
        return None
    probability = rows["probability"].to_numpy()
    return Arms(
        rows[outcome].to_numpy(),
        rows.select(arm.alias("arm"))["arm"].to_numpy(),
        probability,
        np.flatnonzero(rows.select(pl.col("day").is_first_distinct())["day"].to_numpy()),
        float(min(probability.min(), 1 - probability.max())) if least is None else least,
    )
