"""The most diverse lists within a certified budget: the rule that makes them, and the form that serves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from recprism._display import Displayed
from recprism._log import phase
from recprism.budget.certificate import Certificate
from recprism.budget.certifying import certify_until_refused
from recprism.budget.evidence import possible_losses
from recprism.budget.path import (
    Values,
    check_goal,
    deciding_part,
    lists_at,
    require_certifiable,
    rule_at,
    steps_towards,
)
from recprism.budget.scenario import Constraints, Lists, Ranker, Scenario
from recprism.cmb import CMB
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part
from recprism.dials import CompiledVectors, Dials, lists_to_dials, lists_to_vectors
from recprism.dials.lifts import lifted
from recprism.dials.steering import steered
from recprism.errors import InputError
from recprism.metrics import parse
from recprism.metrics.registry import metric_name
from recprism.models import COSINE, Factors
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.perturbation import Perturbation
from recprism.rerank._kernels.prices import IN_ORDER
from recprism.rerank.constraints.violations import Violations
from recprism.rerank.optimal import WITHOUT_SUBTOPICS
from recprism.rerank.rule import Rule, is_exposure_goal

Into = Literal["rule", "dials", "lifts", "user-vectors", "item-vectors"]
"""What serves the lists: the rule itself at request time, or what it was compiled into."""
RULE = "rule"
SIDES: dict[str, Literal["user", "item"]] = {"user-vectors": "user", "item-vectors": "item"}
WITHIN = {"method": "budget"}
DEFAULT_OBJECTIVE = "subtopic_coverage@10"


@dataclass(frozen=True, eq=False, repr=False)
class Diversified(Displayed):
    """What makes a model's lists more diverse.

    Attributes:
        start: The model as it was: its vectors, or candidates with scores.
        goal: What was raised, several metrics joined by +.
        into: What serves the lists: "rule", "dials", "lifts", "user-vectors" or "item-vectors"; "both-vectors" if
            players changed both sides.
        rule: What makes the lists; None if nothing was certified, or if players found a change of vectors.
        dials: The rule as named weights per user, if the items have categories and no other vectors serve the lists.
        change: The change of the vectors; empty under a rule or dials, and if nothing was certified.
        certificate: What the lists cost at most; None if no budget was given. If another part than the scenario's
            certifies, the lists of that part were tested, and vectors are compiled for the scenario's own.
        compiled: How the vectors hold the lists; None if nothing was certified, or if it was read from a file.
        violations: Of the constraints, in the lists that the vectors serve; None without constraints.
        constraints: What all lists keep, as in :class:`recprism.budget.Scenario`.
        constraint_costs: Metric -> the share of it that the constraints take from the base lists by themselves. It is
            not part of the certified loss.
        steering: Weights that users set for themselves: user id -> concept -> share of the user's score range.
        search: The players' search that found the change; None if it was found within a budget.
        provenance: How the change was found, in plain values.
        asked_before: A sentence about other certificates that the same labels of a run decided; None if there are none.

    Stability: provisional.
    """

    start: Factors | ScoredCandidates
    goal: str
    into: str
    rule: Rule | None = None
    dials: Dials | None = None
    change: Perturbation = field(default_factory=Perturbation)
    certificate: Certificate | None = None
    compiled: CompiledVectors | None = None
    violations: Violations | None = None
    constraints: Constraints = field(default_factory=dict)
    constraint_costs: Mapping[str, float] = field(default_factory=dict)
    steering: Mapping[str, Any] = field(default_factory=dict)
    search: CMB | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    asked_before: str | None = None

    @classmethod
    def of_search(cls, search: CMB) -> Diversified:
        """Return what a fitted search by players found."""
        goal = search.settings()["diversity"]
        name = "+".join(goal) if isinstance(goal, Mapping) else str(goal)
        provenance = {"method": "players", "settings": search.settings()}
        into = f"{search.side}-vectors"
        return cls(search.base_, name, into, change=search.delta_, search=search, provenance=provenance)

    @property
    def base(self) -> Factors:
        """The vectors as they were.

        Raises:
            InputError: If there were scores only.
        """
        if not isinstance(self.start, Factors):
            raise InputError("this result was made from scores; there are no vectors")
        return self.start

    @property
    def model(self) -> Ranker:
        """The rule or the vectors that make the lists; the model as it was if nothing was certified."""
        if not self.is_changed:
            return self.start
        return self.rule if self.into == RULE and self.rule is not None else self.factors

    @cached_property
    def factors(self) -> Factors:
        """The vectors that serve the lists; with dials, of d + m numbers.

        Raises:
            InputError: If the lists are served by the rule, and the items have no categories for dials.
        """
        base = _lifted(self.base, self.rule)
        if self.dials is not None:
            return steered(self.dials, self.base, self.steering).applied_to(base)
        if self.into == "lifts":
            return base
        if self.into == RULE and self.rule is not None:
            raise InputError(
                "this result is served by its rule, which is not in any vectors; compile it with "
                "`recprism diversify --into user-vectors`"
            )
        return self.change.applied_to(self.base)

    def served_by(self, served: Served) -> Diversified:
        """Return the result at another point or for another scenario, with the settings of users."""
        change = Perturbation() if served.compiled is None else served.compiled.perturbation
        return replace(self, into=served.into, rule=served.rule, dials=served.dials, change=change)

    @property
    def trade_off(self) -> float:
        """The point of the path; 0 if nothing was certified or there is no path."""
        return 0.0 if self.rule is None else self.rule.trade_off

    @property
    def is_changed(self) -> bool:
        """Whether the lists are others than those of the base."""
        return self.rule is not None or self.change.item is not None or self.change.user is not None

    @property
    def objective(self) -> str:
        """The metric of the (first) goal, at 10; subtopic coverage if the goal is a function without a name."""
        try:
            return f"{parse(self.goal.partition('+')[0])[0].name}@10"
        except InputError:
            return DEFAULT_OBJECTIVE

    def to_dict(self) -> dict[str, Any]:
        """Return what the certificate's file holds, in plain values."""
        about = {"goal": self.goal, "into": self.into, "trade_off": self.trade_off}
        about["rule"] = None if self.rule is None else self.rule.to_dict()
        form = self.compiled or self.dials
        words = None if form is None else form.sentence()
        violations = None if self.violations is None else self.violations.to_dict()
        certificate = None if self.certificate is None else self.certificate.to_dict()
        costs = {"constraint_costs": dict(self.constraint_costs)} if self.constraint_costs else {}
        before = {"asked_before": self.asked_before} if self.asked_before else {}
        return {**about, "compiled": words, "violations": violations, **costs, "certificate": certificate, **before}

    def _facts(self) -> dict[str, Any]:
        return {"goal": self.goal, "into": self.into, "trade_off": self.trade_off, "changed": self.is_changed}


def as_into(word: str) -> Into:
    """Return the form with a name.

    Raises:
        InputError: If there is none.
    """
    forms: tuple[Into, ...] = get_args(Into)
    for form in forms:
        if word == form:
            return form
    raise InputError(f"lists are served by {', '.join(forms[:-1])} or {forms[-1]}, not by {word!r}")


@dataclass(frozen=True, eq=False)
class Served:
    """A rule in the form that serves its lists.

    Attributes:
        rule: What makes the lists.
        into: The form.
        base: The model that the rule re-ranks.
        dials: Named weights that hold the lists; also next to a rule, where there are concepts.
        compiled: How vectors hold the lists; None for a rule and dials.

    Stability: provisional.
    """

    rule: Rule
    into: Into
    base: Factors | ScoredCandidates
    dials: Dials | None = None
    compiled: CompiledVectors | None = None

    @property
    def model(self) -> Factors | Rule:
        """What :meth:`recprism.budget.Scenario.rank` ranks by."""
        if self.into == RULE or not isinstance(self.base, Factors):
            return self.rule
        if self.compiled is not None:
            return self.compiled.applied_to(self.base)
        lifted = _lifted(self.base, self.rule)
        return lifted if self.dials is None else self.dials.applied_to(lifted)


def _lifted(base: Factors, rule: Rule | None) -> Factors:
    """Return the model with the lifts of a rule in its item bias."""
    return base if rule is None or rule.lifts is None else lifted(base, rule.lifts)


def usual_form(scenario: Scenario, goal: str) -> Into:
    """Return what serves lists by default: dials for goals of categories, lifts for exposure, else user vectors.

    With concepts of its own, a scenario is served by dials. Candidates with scores can only be served by the rule.
    """
    if not isinstance(scenario.base, Factors):
        return "rule"
    names = check_goal(goal).split("+")
    if all(is_exposure_goal(name) for name in names):
        return "user-vectors" if scenario.base.metric == COSINE else "lifts"
    if scenario.own_concepts is not None:
        return "dials"
    return "user-vectors" if scenario.base.metric == COSINE or set(names) & set(WITHOUT_SUBTOPICS) else "dials"


def serve(
    scenario: Scenario,
    goal: str,
    trade_off: float,
    into: Into = "user-vectors",
    *,
    ordered: bool = False,
    rest: bool = False,
) -> Served:
    """Put a path's point into the form that serves its lists.

    Args:
        scenario: What is served.
        goal: Where the path leads.
        trade_off: The point of the path.
        into: The form.
        ordered: Dials keep the order of the lists, too. User vectors always do; item vectors cannot.
        rest: Where weights do not return a list, dials also change the user's vector, as little as possible.

    Stability: provisional.
    """
    rule = rule_at(scenario, goal, trade_off)
    if into == "lifts":
        if not all(is_exposure_goal(name) for name in rule.goals):
            raise InputError("lifts serve goals of exposure alone; choose another form with --into")
        _lifted(scenario.factors, rule)  # refuses a model that cannot hold lifts
        return Served(rule, into, scenario.base)
    if into in (RULE, "dials"):
        dials = dials_at(scenario, goal, trade_off, ordered, rest, needed=into == "dials")
        return Served(rule, into, scenario.base, dials)
    base = scenario.factors
    wanted, side = lists_at(scenario, goal, trade_off), SIDES[into]
    # A user's own vector can hold the order of a list, too; vectors that all users share cannot.
    compiled = lists_to_vectors(base, wanted, side, exclude=scenario.hidden, order=side == "user")
    return Served(rule, into, base, compiled=compiled)


def dials_at(
    scenario: Scenario, goal: str, trade_off: float, ordered: bool, rest: bool, *, needed: bool
) -> Dials | None:
    """Compile a path's point into named weights; None if they are not needed, and there is nothing to name."""
    base = scenario.base
    possible = isinstance(base, Factors) and base.metric != COSINE and len(scenario.concepts) > 0
    if not possible and not needed:
        return None
    if not len(scenario.concepts):
        raise InputError(
            "dials need categories of the items and there are none; name other concepts, such as --concepts "
            "clusters=20, or choose --into rule or user-vectors"
        )
    lifted_base = _lifted(scenario.factors, rule_at(scenario, goal, trade_off))
    return lists_to_dials(
        lifted_base,
        lists_at(scenario, goal, trade_off),
        scenario.concepts,
        # What is served without weights: the base lists of a scenario may have other candidates, and no lifts.
        base_lists=scenario.rank(lifted_base)[0],
        exclude=scenario.hidden,
        ordered=ordered or not set(IN_ORDER).isdisjoint(check_goal(goal).split("+")),
        demote=True,  # a list that needs less of a category is better served by a negative weight than not at all
        rest=rest,
    )


def served_lists(
    scenario: Scenario,
    goal: str,
    trade_off: float,
    *,
    into: Into = "user-vectors",
    depth: int | None = None,
    ordered: bool = False,
    rest: bool = False,
) -> Lists:
    """Return the lists that are served at a path's point, at least ``depth`` long.

    The scenario remembers lists of its own length.
    """
    short = (depth or 0) <= scenario.k
    if into == RULE and short:
        return lists_at(scenario, goal, trade_off)
    if ordered or rest or not short:
        return scenario.rank(_served(scenario, goal, trade_off, into, ordered, rest).model, depth)[0]
    known = scenario.known_lists(check_goal(goal), served=into)
    if trade_off not in known:
        known[trade_off] = scenario.rank(serve(scenario, goal, trade_off, into).model)[0]
    return known[trade_off]


def _served(scenario: Scenario, goal: str, trade_off: float, into: Into, ordered: bool, rest: bool) -> Served:
    """Like :func:`serve`, without dials next to a rule: lists do not need them."""
    if into == RULE:
        return Served(rule_at(scenario, goal, trade_off), into, scenario.base)
    return serve(scenario, goal, trade_off, into, ordered=ordered, rest=rest)


@phase("walking the path and certifying", __name__)
def within_budget(
    scenario: Scenario,
    goal: str,
    budgets: Mapping[str, Share],
    *,
    into: Into | None = None,
    ordered: bool = False,
    rest: bool = False,
    confidence: Share = 0.95,
    method: Literal["betting", "t"] = "betting",
    trade_offs: Sequence[float] | None = None,
    certify_on: Part | None = None,
    on_step: ProgressCallback | None = None,
) -> Diversified:
    """Find the most diverse lists whose loss is certified to stay within all budgets.

    The points of the path are tested in order, and the first that fails ends the walk. A test looks at the lists that
    are served, because vectors cannot hold every list. Losses count from the base lists under the
    same constraints; what the constraints cost by themselves is reported apart.

    Args:
        scenario: What is served, and the constraints that all lists keep.
        goal: The metric to raise, or several joined by +.
        budgets: Metric with cut -> the share of it that may be lost.
        into: What serves the lists. By default dials for goals of categories, lifts for goals of exposure, else user
            vectors.
        ordered: Dials keep the order of the lists, too.
        rest: Where weights do not return a list, dials also change the user's vector, as little as possible.
        confidence: Of the certificate.
        method: The test of a point; see :func:`recprism.budget.certify`.
        trade_offs: The points of the path; those of :func:`recprism.budget.path.steps_towards` by default.
        certify_on: The part whose labels certify. By default validation, if the split has such labels; the test part
            then stays unread.
        on_step: Receives the number of points that are done, and how many there are at most.

    Returns:
        The change and its certificate. The change is empty if not even the first point is certified.

    Stability: provisional.
    """
    goal = check_goal(goal)
    form = usual_form(scenario, goal) if into is None else as_into(into)
    _require_dials(scenario, form, ordered, rest)
    named = {require_certifiable(metric_name(name, scenario.k)): it for name, it in budgets.items()}
    budgets = shares(named, "budget", ends=False)
    confidence = share(confidence, "confidence", *CONFIDENCE)
    part = certify_on or deciding_part(scenario.split, scenario.part)
    scenario.split.require_labels(part, "a certified budget")
    judge, names = scenario.on(part), tuple(budgets)
    base, base_lists = _judged(judge, judge.base, names)
    steps = steps_towards(goal) if trade_offs is None else tuple(trade_offs)
    step = count_steps(on_step, "walking the path", len(steps) + 1)

    def points() -> Iterator[tuple[Values, Values]]:
        for trade_off in steps:
            values, lists = _served_values(judge, goal, trade_off, form, names, ordered, rest)
            step()
            yield values, {name: possible_losses(base_lists[name], lists[name], name) for name in names}

    certificate = certify_until_refused(base, points(), budgets, confidence=confidence, method=method, part=part)
    found = None
    if certificate.last is not None:
        found = serve(scenario, goal, steps[certificate.last], form, ordered=ordered, rest=rest)
    step()
    about: dict[str, Any] = {
        "certificate": certificate,
        "constraints": scenario.constraints,
        "constraint_costs": _costs(judge, base),
        "provenance": WITHIN,
    }
    if found is None:
        return Diversified(scenario.base, goal, form, **about)
    if found.compiled is not None:
        about |= {"compiled": found.compiled, "change": found.compiled.perturbation}
    about["violations"] = scenario.violations(scenario.rank(found.model)[0])
    return Diversified(scenario.base, goal, form, found.rule, found.dials, **about)


def _values(judge: Scenario, model: Ranker, names: tuple[str, ...]) -> Values:
    """Return metric -> ``(n_users,)`` values of the lists that vectors or a rule serve."""
    found = judge.evaluate(model, names, bootstrap=0)
    return {score.name: found.values[score.name] for score in found.scores}


def _judged(judge: Scenario, model: Ranker, names: tuple[str, ...]) -> tuple[Values, dict[str, Lists]]:
    """Return metric -> values of the lists that are served, and metric -> these lists, as long as its cut."""
    cuts = {name: int(name.partition("@")[2]) for name in names}
    by_cut = {cut: judge.rank(model, cut)[0] for cut in set(cuts.values())}
    return _values(judge, model, names), {name: by_cut[cut] for name, cut in cuts.items()}


def _served_values(
    judge: Scenario, goal: str, trade_off: float, into: Into, names: tuple[str, ...], ordered: bool, rest: bool
) -> tuple[Values, dict[str, Lists]]:
    """Return the same of the lists that are served at a path's point; known lists are not made again."""
    if judge.constraints:
        return _judged(judge, _served(judge, goal, trade_off, into, ordered, rest).model, names)
    depth = max(int(name.partition("@")[2]) for name in names)
    served = served_lists(judge, goal, trade_off, into=into, depth=depth, ordered=ordered, rest=rest)
    return judge.judge(served, names), dict.fromkeys(names, served)


def _require_dials(scenario: Scenario, into: Into, ordered: bool, rest: bool) -> None:
    """Refuse settings of dials where there are none."""
    if ordered and into not in (RULE, "dials"):
        raise InputError("ordered is for dials: user vectors always keep the order, and other forms cannot")
    if rest and into not in (RULE, "dials"):
        raise InputError(f"rest is for dials, and {into} serve these lists; choose --into dials, or omit it")
    if scenario.own_concepts is None:
        return
    if into not in (RULE, "dials"):
        raise InputError(f"concepts are for dials, and {into} serve these lists; choose --into dials, or omit them")
    if scenario.factors.metric == COSINE:
        raise InputError("concepts are for dials, which change inner products, and this model ranks by cosine")


def _costs(judge: Scenario, base: Values) -> dict[str, float]:
    """Return metric -> the share of it that the constraints take from the base lists; empty without constraints."""
    if not judge.constraints:
        return {}
    without = _values(judge.under(None), judge.base, tuple(base))
    before, after = ({name: float(np.nanmean(it)) for name, it in of.items()} for of in (without, base))
    return {name: 1 - after[name] / before[name] for name in base if before[name]}
