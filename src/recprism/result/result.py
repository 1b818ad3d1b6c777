"""The result: a rule, its certificate, and its problem. Lists, reasons and exports come from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.budget.certificate import APPROXIMATE, Certificate
from recprism.budget.problem import Lists, Problem, Ranker
from recprism.budget.promise import Promise
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import CertifiedRule, ask
from recprism.common.bound import contents_of, hash_of
from recprism.common.display import Displayed
from recprism.common.files import require_new_folder
from recprism.common.progress import ProgressCallback
from recprism.errors import InputError
from recprism.explain.choice.fit import DRAWS
from recprism.explain.explained import ExplainedLists, explain_made
from recprism.explain.reasons.questions import what_if, why, why_list, why_not
from recprism.explain.reasons.reason import Reason, ReasonNot, WhatIf
from recprism.forms.compiled import compile_dials
from recprism.forms.dials import Dials
from recprism.forms.form import CompiledForm, Form, Source, Written, default_form, form_named
from recprism.forms.steering import Steered, steer
from recprism.metrics import Comparison, Evaluation, compare
from recprism.metrics.registry import metric_of_goal, with_gini
from recprism.models.changed import ChangedVectors
from recprism.result.lists import lists_to_frame, rows_of
from recprism.rule.constraints.violations import Violations
from recprism.rule.goal import Goal
from recprism.rule.rule import Rule

KEEPER = "recprism.runs.jobs.saved"
"""The module that keeps results in runs. It is above this room, which knows its name only."""


class Home(Protocol):
    """The run that holds a result."""

    @property
    def scorer(self) -> str:
        """Kind of the model whose scores were tested, and eight letters of its content."""

    def origin(self) -> dict[str, Any]:
        """Return the names of the run and of the result, and the fingerprint of the run, for what is exported."""

    def together_with_others(self, own: Certificate) -> Certificate:
        """Return a certificate with the confidence of all questions that its labels have answered."""

    def explanation(self) -> dict[str, Any] | None:
        """Return what `recprism explain` kept; None without it."""


@dataclass(frozen=True, eq=False, repr=False)
class Result(Displayed):
    """A rule, what was certified about it, and the problem that it was found for.

    A list is made by the rule in a context. *Judged* lists use the history before the held-out part, and figures come
    from them. *Live* lists use all known history.

    Attributes:
        problem: The judged context: model, history, categories and constraints.
        goal: What was raised; None for a model as it is, and for a change of vectors that players found.
        rule: What makes the lists; None if nothing was certified, or if players found a change of vectors.
        certificate: What the lists cost at most; None if no budget was given.
        violations: Of the constraints, in the judged lists; None without constraints.
        constraint_costs: Metric -> the share of it that the constraints take from the base lists by themselves. It is
            not part of the certified loss.
        vectors: A change of vectors that players found; None otherwise.
        steering: Dials that users set for themselves: user id -> category -> share of the user's score range. They are
            part of exported dials. The lists of the result do not use them.
        asked_before: A sentence about other certificates that the same labels decided; None if there are none.
        run: The run that holds the result, for the names in exports; None without one.
    """

    problem: Problem
    goal: Goal | None = None
    rule: Rule | None = None
    certificate: Certificate | None = None
    violations: Violations | None = None
    constraint_costs: Mapping[str, float] = field(default_factory=dict)
    vectors: ChangedVectors | None = None
    steering: Mapping[Any, Any] = field(default_factory=dict)
    asked_before: str | None = None
    run: Home | None = None

    @classmethod
    def of_rule(cls, problem: Problem, found: CertifiedRule) -> Result:
        """Return what was found within a budget."""
        about = (found.rule, found.certificate, found.violations, found.constraint_costs)
        return cls(problem, found.question.goal, *about)

    @classmethod
    def of_vectors(cls, problem: Problem, found: ChangedVectors) -> Result:
        """Return what a search by players found."""
        return cls(problem, vectors=found)

    # -- what makes the lists -----------------------------------------------------------------------------------------

    @property
    def model(self) -> Ranker:
        """The rule, or the vectors of players; the model as it was if nothing changed."""
        if self.rule is not None:
            return self.rule
        return self.problem.base if self.vectors is None else self.vectors.factors

    @property
    def is_changed(self) -> bool:
        """Whether the lists differ from the base lists."""
        return self.rule is not None or self.vectors is not None

    @property
    def trade_off(self) -> float:
        """The trade-off of the rule; 0 without one."""
        return 0.0 if self.rule is None else self.rule.trade_off

    @property
    def towards(self) -> str:
        """What was raised, in words; "" for a model as it is."""
        if self.goal is not None:
            return str(self.goal)
        return "" if self.vectors is None else self.vectors.goal

    @property
    def objective(self) -> str:
        """The metric of the (first) goal, at 10; subtopic coverage if the goal is a function without a name."""
        return metric_of_goal(self.towards) if self.goal is None else self.goal.metrics(10)[0]

    def context(self, *, live: bool = True) -> Problem:
        """Return the live context, or the judged one."""
        return self.problem.live() if live else self.problem

    # -- lists --------------------------------------------------------------------------------------------------------

    def ranked(
        self, rows: NDArray[Any] | None = None, k: int | None = None, *, live: bool = True
    ) -> tuple[Lists, NDArray[np.float32]]:
        """Return ``(n, k)`` item numbers, -1 in empty places, and scores; ``rows`` are row numbers of users."""
        return self.context(live=live).rank(self.model, k, users=rows)

    def lists(self, users: Any = None, k: int | None = None, *, live: bool = True) -> pl.DataFrame:
        """Return lists under the constraints of the result.

        Args:
            users: An id or ids of users; all users by default.
            k: Length of the lists; that of the result by default.
            live: Whether all known interactions count as seen; else those before the held-out part.

        Returns:
            A long table: user_id, item_id, rank (from 1), score.
        """
        rows = self.rows_of(users)
        items, scores = self.ranked(None if users is None else rows, k, live=live)
        return lists_to_frame(self.problem.base, rows, items, scores)

    def rows_of(self, users: Any) -> NDArray[np.int64]:
        """Return ``(n,)`` row numbers of user ids; all of them for None."""
        return rows_of(self.problem.base, users)

    # -- figures ------------------------------------------------------------------------------------------------------

    def evaluate(self, metrics: Sequence[str] | None = None, **options: Any) -> Evaluation:
        """Evaluate the judged lists; arguments as in :meth:`recprism.Problem.evaluate`."""
        return self.problem.evaluate(self.model, metrics, **options)

    @cached_property
    def change(self) -> Comparison:
        """The metrics before and after, user by user, of the judged lists."""
        before, after = (self.problem.evaluate(it, self._metrics) for it in (self.problem.base, self.model))
        return compare(before, after)

    @property
    def _metrics(self) -> tuple[str, ...]:
        problem = self.problem
        names = filter(None, self.towards.split("+")) if self.goal is None else self.goal.weights
        goals = tuple(f"{name}@{problem.k}" for name in names)
        judged = ("ndcg", "recall") if len(problem.split.part(problem.part)) else ()
        known = ("subtopic_coverage", "ilad_subtopics") if len(problem.categories) else ()
        others = (f"{name}@{problem.k}" for name in (*judged, *known, "catalogue_coverage"))
        return with_gini((*goals, *others))

    # -- reasons ------------------------------------------------------------------------------------------------------

    def explain(self, *, draws: int = DRAWS, seed: int = 0, on_step: ProgressCallback | None = None) -> ExplainedLists:
        """Explain why the judged lists are as they are, as `recprism explain` does.

        Args:
            draws: Draws of each shuffle of categories; 0 runs none.
            seed: Of the choice model.
            on_step: Receives progress.

        Raises:
            InputError: If nothing was certified, so that the lists did not change.
        """
        self._require_changed()
        lists = self.ranked(live=False)[0]
        return explain_made(self.problem, self.rule, lists, draws=draws, seed=seed, on_step=on_step)

    def why(self, user: Any, item: Any = None, *, live: bool = True) -> Reason | tuple[Reason, ...]:
        """Explain why an item is in a user's list; without an item, explain every item of the list.

        Args:
            user: Id of the user.
            item: Id of an item of the list.
            live: Whether the list is the live one; else the judged one.
        """
        rule, problem = self.own_rule(), self.context(live=live)
        return why_list(problem, rule, user) if item is None else why(problem, rule, user, item)

    def why_not(self, user: Any, item: Any, *, live: bool = True) -> ReasonNot:
        """Explain why an item is not in a user's list."""
        return why_not(self.context(live=live), self.own_rule(), user, item)

    def what_if(self, user: Any, *, live: bool = True, **changes: Any) -> WhatIf:
        """Run the rule again after a change.

        Args:
            user: Id of the user.
            live: Whether the list is the live one; else the judged one.
            **changes: without=ITEM, ban=CATEGORY, price=NUMBER, seen=ITEM or forget=ITEM, as in
                :func:`recprism.explain.reasons.questions.what_if`.
        """
        return what_if(self.context(live=live), self.own_rule(), user, **changes)

    @property
    def scorer(self) -> str:
        """Kind of the model whose scores were tested, and eight letters of its content."""
        if self.run is not None:
            return self.run.scorer
        base = self.problem.base
        arrays = {name: it for name, it in vars(base).items() if isinstance(it, np.ndarray) and it.dtype.kind in "fi"}
        return f"{type(base).__name__}-{contents_of(arrays)[:8]}"

    def own_rule(self) -> Rule:
        """Return the rule.

        Raises:
            InputError: If nothing was certified, or players found a change of vectors.
        """
        self._require_changed()
        if self.rule is None:
            raise InputError("players found this change, and no rule made its lists; reasons and dials need a rule")
        return self.rule

    def _require_changed(self) -> None:
        if not self.is_changed:
            raise InputError("nothing was certified, so the lists did not change and there is nothing to explain")

    # -- compiled forms -----------------------------------------------------------------------------------------------

    def dials(self, users: Any = None, *, live: bool = True) -> Dials:
        """Compile the lists into a few named weights per user, as ``recprism.forms.compiled.compile_dials`` does."""
        rows = None if users is None else self.rows_of(users)
        return compile_dials(self.context(live=live), self.own_rule(), users=rows)

    def steer(self, user: Any, *, live: bool = True, **settings: float) -> Steered:
        """Compile the dials of one user, set some of them, and rank the user's list again; the result stays as it is.

        Args:
            user: Id of the user.
            live: Whether the list is the live one; else the judged one.
            **settings: Name of a category=share of the user's score range to add, from -1 to 1. Names with blanks are
                passed as ``**{"Film noir": 0.2}``.
        """
        return steer(self.context(live=live), self.own_rule(), user, settings, self.steering)

    def export(
        self,
        folder: str | Path,
        form: str | Form | None = None,
        *,
        on_step: ProgressCallback | None = None,
        **options: Any,
    ) -> Written:
        """Write the rule, or what it is compiled into for live lists, into a new folder.

        Args:
            folder: The folder to write.
            form: "rule" (for request time), "dials" (a few named weights per user), "user-vectors" (an index of items
                stays as it is) or "boosts" (a number per item, for goals of exposure). "vectors" are those of the
                trained model, or those that players found. By default the rule, and vectors without one.
            on_step: Receives progress.
            **options: Those of the form: the attributes of :class:`recprism.forms.RuleForm`,
                :class:`recprism.forms.DialsForm`, :class:`recprism.forms.UserVectors`, :class:`recprism.forms.Boosts`
                or :class:`recprism.forms.form.OwnVectors`.

        Raises:
            InputError: If the form does not fit the result, or an option is invalid or for another form.
        """
        chosen = form_named(default_form(self.rule is not None) if form is None else form, **options)
        require_new_folder(Path(folder))  # before anything is compiled
        vectors = None if self.vectors is None else self.vectors.factors
        objective = self.objective if self.is_changed else None
        origin = {"run": "", "result": None, "made_from": ""} if self.run is None else self.run.origin()
        about = (objective, self.steering, origin, self._promise, self._certified, on_step)
        return chosen.write(Source(self.problem, self.rule, vectors, *about), Path(folder))

    def _certified(self, form: CompiledForm) -> tuple[Rule, Promise | None]:
        """Return the rule whose lists of a form keep its budgets, and what is promised about them.

        Raises:
            InputError: If no step of the path is certified within the budgets.
        """
        assert self.goal is not None  # there is a rule
        question = BudgetQuestion.of(
            self.goal, form.budgets or {}, k=self.problem.k, confidence=form.confidence, through=form
        )
        found, _ = ask(self.problem, question)
        if found.rule is None:
            raise InputError(f"lists by {form.name} are not certified. {found.certificate.sentence()}")
        words = json.dumps({**found.rule.to_dict(), **form.to_dict()}, sort_keys=True)
        procedure = f"{form.name}, compiled for each context"
        return found.rule, self._promise(hash_of(words.encode()), procedure, found)

    def _promise(self, tested: str, procedure: str = "rule", of: CertifiedRule | None = None) -> Promise | None:
        """Return what a certificate promises, as it travels; None without one.

        Args:
            tested: Hash of what was tested.
            procedure: How its lists were made.
            of: What was certified; the rule of the result by default.
        """
        kept, rule = (self.certificate, self.rule) if of is None else (of.certificate, of.rule)
        if kept is None or kept.last is None or rule is None:
            return None
        checks = kept.checks
        kept = kept if self.run is None else self.run.together_with_others(kept)
        return Promise(
            budgets=kept.certified,
            losses={it.metric: it.loss for it in checks},
            confidence=kept.confidence or None,
            questions=kept.questions,
            approximate=kept.method == APPROXIMATE,
            users=checks[0].users,
            clusters=checks[0].clusters,
            part=kept.part,
            procedure=procedure,
            trade_off=rule.trade_off,
            limits=kept.limits,
            scorer=self.scorer,
            tested=tested,
        )

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the result with everything it needs into a new run directory; every command works on it.

        Raises:
            InputError: If the folder holds other files.
        """
        written: Path = import_module(KEEPER).save_result(self, Path(path))
        return written

    @classmethod
    def load(cls, path: str | Path, name: str | None = None) -> Result:
        """Read a result from a run directory.

        Args:
            path: The run directory.
            name: The name of the result; None is the unnamed one.
        """
        found: Result = import_module(KEEPER).load_result(path, name)
        return found

    def to_frame(self) -> pl.DataFrame:
        """Return one row per metric: before, after, relative change and p-value."""
        return self.change.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return what the certificate's file holds, in plain values."""
        costs = {"constraint_costs": dict(self.constraint_costs)} if self.constraint_costs else {}
        before = {"asked_before": self.asked_before} if self.asked_before else {}
        return {
            "goal": self.towards,
            "trade_off": self.trade_off,
            "rule": None if self.rule is None else self.rule.to_dict(),
            "violations": None if self.violations is None else self.violations.to_dict(),
            **costs,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            **before,
        }

    def _facts(self) -> dict[str, Any]:
        changes = {row.name: row.relative for row in self.change.rows if row.relative is not None}
        shown = (self._metrics[0], f"ndcg@{self.problem.k}")
        moved = {name: f"{100 * changes[name]:+.1f} %" for name in shown if name in changes}
        certified = {} if self.certificate is None else {"certified": self.is_changed}
        return {"goal": self.towards, "trade_off": self.trade_off, **moved, **certified}
