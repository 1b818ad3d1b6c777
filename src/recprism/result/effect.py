"""What a result did to the judged lists, next to randomised controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recprism.budget.popularity import POPULARITY, judged_popularity
from recprism.budget.problem import Problem, Ranker
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback, count_steps
from recprism.metrics import Comparison, Evaluation, compare
from recprism.result.result import Result


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of a result on the lists, and that of its controls.

    Attributes:
        before: The lists of the model.
        after: The lists of the result.
        change: Before against after, user by user.
        controls: Name -> the same comparison for a control, and for lists of the most popular items.
    """

    before: Evaluation
    after: Evaluation
    change: Comparison
    controls: dict[str, Comparison]


def shuffled_categories(found: Result, seed: int) -> dict[str, tuple[Ranker, Problem]]:
    """Return the control of a rule that uses categories, for :func:`effect`; other rules have none."""
    rule = found.own_rule()
    mixed = None if rule.goal.needing("categories") is None else found.problem.shuffled(seed)
    return {} if mixed is None else {"shuffled categories": (rule, mixed)}


@phase("measuring the effect", __name__)
def effect(
    found: Result,
    metrics: Sequence[str] | None = None,
    *,
    controls: Mapping[str, tuple[Ranker, Problem]] | None = None,
    on_step: ProgressCallback | None = None,
) -> Effect:
    """Measure the judged lists before and after the change.

    Args:
        found: The result.
        metrics: Names with cuts; the usual ones by default.
        controls: Name -> a randomised model, and the problem that ranks its lists. Popularity is measured with them;
            None measures none of these.
        on_step: Receives the progress.
    """
    problem, others = found.problem, controls or {}
    step = count_steps(on_step, "measuring", 2 + len(others))

    def judge(model: Ranker, of: Problem = problem) -> Evaluation:
        judged = problem.evaluate(model, metrics, lists_of=of)
        step()
        return judged

    before, after = judge(problem.base), judge(found.model)
    judged = {name: judge(*it) for name, it in others.items()}
    if controls is not None:
        judged[POPULARITY] = judged_popularity(
            problem.split, problem.part, problem.context, metrics, hidden=problem.hidden
        )
    return Effect(before, after, compare(before, after), {name: compare(before, it) for name, it in judged.items()})
