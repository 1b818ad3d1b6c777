"""Measure a run for its page: before and after, the price, the front, the segments and the explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from recprism.budget.audit import COST, Audit, cost_of_diversity, some_steps
from recprism.budget.certificate import Certificate
from recprism.budget.path import Path, walk
from recprism.budget.popularity import with_popularity
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.segments import ExposureChange, SegmentChange, SegmentTable
from recprism.common.progress import ProgressCallback, count_steps
from recprism.data.split import Part
from recprism.explain.explained import ExplanationInShort
from recprism.metrics import DEFAULT_METRICS, Comparison, Evaluation
from recprism.metrics.registry import parse, with_gini
from recprism.report.content import Change, Chosen, Explained, FrontPoint, User, known
from recprism.report.explained import check_draws, explained_content
from recprism.report.headline import Basis
from recprism.report.users import users_of_rule
from recprism.result.catalogue import Catalogue
from recprism.result.result import Result
from recprism.result.summary import GROUPS, Sizes
from recprism.result.view import ResultView, view_of
from recprism.rule.goal import TERMS, Goal
from recprism.runs.parts.questions import keep_audit
from recprism.runs.run import Run

SHOWN_BUDGET = 0.05  # an audit shows who would pay at this budget, if none was requested


@dataclass(frozen=True, eq=False)
class Measured:
    """What a page says about a run, except its explanation.

    Attributes:
        run: The run.
        problem: What is served.
        view: Its result; None if it was only trained.
        goal: The goal of the front.
        metric: The metric of the goal.
        asked: The share of accuracy that may be lost.
        audit: The cost of diversity; None for a result within a budget, whose certificate says it.
        compared: Before against after; None if the run was only trained.
        now: The lists of the model as it is.
    """

    run: Run
    problem: Problem
    view: ResultView | None
    goal: Goal
    metric: str
    asked: float
    audit: Audit | None
    compared: Comparison | None
    now: Evaluation

    @property
    def result(self) -> Result | None:
        """The result of the run; None if it was only trained."""
        return None if self.view is None else self.view.result

    @property
    def kept(self) -> Certificate | None:
        """The certificate, with the confidence of all questions to its labels; None without a budget."""
        return None if self.view is None else self.view.certificate

    @property
    def payers(self) -> SegmentTable | None:
        """Changes of accuracy by segments of users; None without labels."""
        return self.view.segments[0] if self.view is not None else self.audit.payers if self.audit else None

    @property
    def payer_rows(self) -> tuple[Change, ...]:
        """The same as rows of a table; empty without labels."""
        rows = () if self.payers is None else self.payers.rows
        return tuple(_payer(row) for row in rows if isinstance(row, SegmentChange))

    @property
    def exposure(self) -> SegmentTable | None:
        """Changes of exposure by segments of items."""
        return self.view.segments[1] if self.view is not None else self.audit.exposure if self.audit else None

    @property
    def labelled(self) -> bool:
        """Whether held-out interactions judge."""
        return len(self.problem.split.part(self.problem.part)) > 0

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.now.notes)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Metrics before and after; in an audit, now."""
        return _now(self.now) if self.compared is None else _compared(self.compared, self.now)

    @cached_property
    def chosen(self) -> Chosen | None:
        """The result as a point of the front; None in an audit or without labels."""
        return None if self.compared is None else _chosen(self.compared, self.metric, self.kept)

    @property
    def decided_on(self) -> str | None:
        """The part whose labels certify; None if nothing was tested."""
        if self.kept is not None:
            return self.kept.part or "test"
        return None if self.audit is None else self.audit.decided_on(self.goal)

    def basis(self, rule: ExplanationInShort | None, factors: Explained | None) -> Basis:
        """Return the figures of the headline."""
        return Basis(
            run=self.run.argument,
            goal=self.metric if self.result is None else self.result.objective,
            cost=COST,
            asked=self.asked,
            diversified=self.result is not None,
            labelled=self.labelled,
            part=self.problem.part,
            sizes=Sizes.of(self.problem),
            changes=self.changes,
            summary=() if self.view is None or self.compared is None else self.view.summary(self.compared),
            certified=None if self.chosen is None else self.chosen.budget,
            reach=None if self.audit is None or self.result is not None else self._reach(self.audit),
            segments=self.payers,
            rule=rule,
            factors=factors,
            goals=str(self.goal),
            results=tuple(self.run.results),
        )

    def front(self, tell: ProgressCallback) -> tuple[FrontPoint, ...]:
        """Return points of the path, some of them left out; empty without labels, because the price is then unknown."""
        if not self.labelled:
            return ()
        if self.audit is not None:
            within = self.audit.certified_for(self.goal)
            path = self.audit.paths[self.goal]
            return tuple(_front_point(path, self.metric, at, within) for at in range(len(path.points)))
        assert self.result is not None
        own = self.result.trade_off
        steps = [it for it in some_steps(self.goal.steps, [len(self.goal.steps)]) if it != own]
        path = walk(
            self.problem, self.goal, (COST, self.metric), steps, on_point=count_steps(tell, "the front", len(steps))
        )
        self.problem.keep_path(self.goal)
        budget = None if self.chosen is None else self.chosen.budget
        kept = {it: budget for it in steps if it < own and budget is not None}
        return tuple(_front_point(path, self.metric, at, kept) for at in range(len(path.points)))

    def front_sentences(self) -> tuple[str, ...]:
        """Return the front in words; those of a result are in its summary."""
        if self.audit is None:
            return ()
        return tuple(it for it in self.audit.sentences() if it not in self.audit.who_pays())

    def shown_items(self) -> tuple[Change, ...]:
        """Return shares of the places by segments of items."""
        return () if self.exposure is None else _exposure(self.exposure)

    def _reach(self, audit: Audit) -> FrontPoint | None:
        path = audit.paths[self.goal]
        stop = next(iter(audit.stops[self.goal]), None)
        if stop is None or stop.certified is None:
            return None
        return _front_point(path, self.metric, path.points.index(stop.certified), audit.certified_for(self.goal))


@dataclass(frozen=True)
class Why:
    """The explanation of a result: of its rule, or of players' factors; and example users."""

    rule: ExplanationInShort | None = None
    factors: Explained | None = None
    users: tuple[User, ...] = ()


def measure(run: Run, *, part: Part, draws: int, tell: ProgressCallback) -> Measured:
    """Measure a run.

    Args:
        run: A trained run.
        part: The part whose labels are used.
        draws: Draws of each control of factors; too few are refused before anything is measured.
        tell: Receives progress.
    """
    result = run.load_result(part) if run.is_diversified() else None
    problem = run.problem(part) if result is None else result.problem
    if result is not None and result.rule is None:
        check_draws(draws)
    objective = f"subtopic_coverage@{problem.k}" if result is None else result.objective
    goal, asked = _goal_of(run, objective, has_categories=len(problem.categories) > 0), _asked_budget(run)
    metric, audit = goal.metrics(problem.k)[0], None
    if result is None or result.certificate is None:
        audit = cost_of_diversity(problem, BudgetQuestion.each([goal], [asked]), show=asked, on_step=tell)
        keep_audit(problem, audit)
    if result is None:
        assert audit is not None
        return Measured(run, problem, None, goal, metric, asked, audit, None, audit.now)
    view = view_of(result, Catalogue(run.items(), problem.categories))
    found = view.effect(_metrics((metric, objective), view.labelled), on_step=tell)
    now = with_popularity(found.before, problem.split, part, problem.context)
    return Measured(run, problem, view, goal, metric, asked, audit, found.change, now)


def explain_result(found: Measured, *, draws: int, seed: int, tell: ProgressCallback) -> Why:
    """Explain a result, as `recprism explain` does; what it kept is not computed again.

    Args:
        found: What was measured.
        draws: Draws of each control.
        seed: Of the controls.
        tell: Receives progress.
    """
    part = found.problem.part
    if found.view is None:
        return Why()
    result = found.view.result
    if result.rule is None:
        about, users = explained_content(found.run, part=part, draws=draws, seed=seed, tell=tell)
        return Why(None, about, users)
    return Why(found.view.drivers(draws=draws, seed=seed, on_step=tell), None, users_of_rule(found.view, tell))


# -- budget and goal --------------------------------------------------------------------------------------------------


def _asked_budget(run: Run) -> float:
    asked = run.within
    return SHOWN_BUDGET if asked is None else asked.budgets.get(COST, SHOWN_BUDGET)


def _goal_of(run: Run, objective: str, *, has_categories: bool) -> Goal:
    """Return the goal of the front: the requested one, or the objective of a search if there is a path towards it."""
    asked = run.within
    if asked is not None:
        return asked.question.goal
    term = TERMS.get(objective.partition("@")[0])
    if term is not None and not term.is_exposure and (has_categories or "categories" not in term.needs):
        return Goal.parse(term.name)
    return Goal.parse("subtopic_coverage" if has_categories else "catalogue_coverage")


def _metrics(wanted: Sequence[str], has_labels: bool) -> tuple[str, ...] | None:
    """Return the default metrics with the goal; None for the defaults, which are also taken without labels."""
    others = [name for name in dict.fromkeys(wanted) if name not in DEFAULT_METRICS]
    return None if not others or not has_labels else with_gini((*DEFAULT_METRICS, *others))


# -- figures ----------------------------------------------------------------------------------------------------------


def _front_point(path: Path, metric: str, at: int, within: Mapping[float, float]) -> FrontPoint:
    point = path.points[at]
    return FrontPoint(
        point.trade_off,
        -(path.change(point, COST) or 0.0),
        path.change(point, metric) or 0.0,
        within.get(point.trade_off),
    )


def _chosen(compared: Comparison, metric: str, kept: Certificate | None) -> Chosen | None:
    rows = {row.name: row.relative for row in compared.rows}
    loss, gain = known(rows.get(COST)), known(rows.get(metric))
    if loss is None or gain is None:  # for example without labels
        return None
    if kept is None:
        return Chosen(-loss, gain, None, "This price was measured, not certified: no budget was given.")
    return Chosen(-loss, gain, kept.certified.get(COST), f"{kept.sentence()} {kept.scope()}")


def _now(now: Evaluation) -> tuple[Change, ...]:
    """Return the rows of an audit, which has current values only."""
    return tuple(
        Change(
            *(s.name, _summary(s.name), s.n_users, known(s.mean), known(s.mean), 0.0, None, s.low, s.high, None, None),
            popularity=known(s.popularity),
        )
        for s in now.scores
    )


def _compared(compared: Comparison, now: Evaluation) -> tuple[Change, ...]:
    def share(end: float | None, base: float) -> float | None:
        return None if end is None or not base else known(end / abs(base))

    popular = {score.name: score.popularity for score in now.scores}
    return tuple(
        Change(
            *(row.name, _summary(row.name), row.n_users),
            *(known(row.a), known(row.b), known(row.difference), known(row.relative)),
            *(share(row.low, row.a), share(row.high, row.a), known(row.p_value)),
            None if known(row.difference) is None else row.better,
            popularity=known(popular.get(row.name)),
        )
        for row in compared.rows
    )


def _summary(name: str) -> str:
    return parse(name)[0].summary


def _payer(row: SegmentChange) -> Change:
    relative = known(row.relative)
    return Change(
        *(row.segment, GROUPS.get(row.segment, ""), row.users),
        *(known(row.before), known(row.after), known(row.after - row.before), relative),
        *(known(row.low), known(row.high), known(row.p_loses_more)),
        None if not relative else relative > 0,
    )


def _exposure(table: SegmentTable) -> tuple[Change, ...]:
    found = []
    for row in table.rows:
        if isinstance(row, ExposureChange):
            about = (row.segment, GROUPS.get(row.segment, ""), row.items)
            change = row.after - row.before
            found.append(Change(*about, row.before, row.after, change, row.relative, row.low, row.high, None, None))
    return tuple(found)
