"""The verbs: what diversity costs, and the most of it within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from recprism.budget.audit import BUDGETS, Audit, cost_of_diversity, default_goals
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import ask
from recprism.common.progress import ProgressCallback
from recprism.common.shares import Share
from recprism.data.split import Part
from recprism.result.result import Result
from recprism.rule.constraints.constraints import Constraints
from recprism.rule.goal import Goal, Words
from recprism.runs.parts.questions import keep_audit


def audit(
    problem: Problem,
    goal: Words | Sequence[Words] | None = None,
    *,
    budgets: Sequence[Share] | Mapping[Share, float] = BUDGETS,
    guards: Mapping[str, Share] | None = None,
    confidence: Share = 0.95,
    clusters: ArrayLike | None = None,
    show: Share = 0.01,
    certify_on: Part | None = None,
    on_step: ProgressCallback | None = None,
) -> Audit:
    """Measure what more diverse lists would cost. No list is changed.

    If ``problem`` is from ``Run.problem()``, the run notes the questions and keeps the answers for :func:`diversify`.
    Otherwise nothing is kept, and recprism cannot know how often the labels are asked.

    Args:
        problem: The model and what judges it.
        goal: What to raise, as in :meth:`recprism.rule.Goal.parse`, or a sequence of such goals. By default three of
            them, or two if the items have no categories.
        budgets: Shares of NDCG@10 that may be lost. All goals and budgets share the confidence; a mapping of budgets
            to weights says how the allowed error is split over them.
        guards: Further metrics, and the share of each that may be lost at any budget.
        confidence: Of all certificates together.
        clusters: ``(n_users,)`` a number or name for each user, in the order of the split; users of one cluster, such
            as a household, are not independent. By default the clusters of ``problem``.
        show: The budget whose point is broken down by segments of users and items.
        certify_on: The part whose labels certify; validation by default, if the split has such labels.
        on_step: Receives the progress.

    Returns:
        A table and a front for each goal.
    """
    goals = [goal] if isinstance(goal, str | Mapping | Goal) or callable(goal) else goal or default_goals(problem)
    problem = problem if clusters is None else problem.with_clusters(clusters)
    questions = BudgetQuestion.each(goals, budgets, guards, confidence=confidence, part=certify_on)
    found = cost_of_diversity(problem, questions, show=show, on_step=on_step)
    keep_audit(problem, found)
    return found


def diversify(
    problem: Problem,
    goal: Words = "subtopic_coverage",
    budget: Share = 0.05,
    *,
    guards: Mapping[str, Share] | None = None,
    constraints: Constraints | Mapping[str, Any] | None = None,
    confidence: Share = 0.95,
    clusters: ArrayLike | None = None,
    certify_on: Part | None = None,
    on_step: ProgressCallback | None = None,
) -> Result:
    """Find the rule with the most diverse lists whose loss of accuracy is certified to stay within a budget.

    Args:
        problem: The model and what judges it.
        goal: What to raise: subtopic_coverage, alpha_ndcg, alpha_ndcg_relevant, err_ia, ilad_subtopics, ilad,
            catalogue_coverage, or several, as in "sc+ilad" or {"sc": 2, "ilad": 1}. A function of one list may be
            a goal: it takes ``categories`` or ``vectors``, with a row per item, and a module defines it.
        budget: The share of NDCG@k that may be lost, 0.05 or "5%".
        guards: Further metrics, and the share of each that may be lost.
        constraints: :class:`recprism.rule.Constraints`, or a mapping of its arguments; items are ids, categories are
            names. The lists of the result keep them instead of those of ``problem``. What cannot be kept is in
            ``result.violations``.
        confidence: Of the certificate.
        clusters: As in :func:`audit`.
        certify_on: The part whose labels certify; validation by default, if the split has such labels.
        on_step: Receives the progress.

    Returns:
        The result. If not even the smallest change is certified, its lists are those of the model.
    """
    (question,) = BudgetQuestion.each([goal], [budget], guards, k=problem.k, confidence=confidence, part=certify_on)
    problem = problem if constraints is None else problem.under(constraints)
    problem = problem if clusters is None else problem.with_clusters(clusters)
    found, before = ask(problem, question, on_step)
    return replace(Result.of_rule(problem, found), asked_before=before)
