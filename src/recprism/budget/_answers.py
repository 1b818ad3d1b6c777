"""The answers to the questions of an audit, on the part whose labels certify."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recprism.budget.certificate import Certificate
from recprism.budget.certifying import Tests, certify_together, is_refused
from recprism.budget.path import Path, walk
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.common.executor import Executor
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback, count_steps

Answer = tuple[BudgetQuestion, Certificate]
"""A question, and its answer."""


def answers_of(
    judge: Problem, questions: Sequence[BudgetQuestion], executor: Executor, on_step: ProgressCallback | None
) -> list[Answer]:
    """Answer questions on the certifying part; no path is walked further than a test needs."""
    steps, first = {it.goal: it.steps for it in questions}, questions[0]
    step = count_steps(on_step, "certifying, at most", sum(map(len, steps.values())))
    error, total = 1 - first.confidence, sum(it.weight for it in questions)
    paths, tests = {}, Tests(first.method)
    for goal in steps:
        own = [(it, error * it.weight / total) for it in questions if it.goal == goal]
        paths[goal] = _until_refused(judge, own, error, tests, executor, step)
    with phase("certifying", __name__):
        asked = [paths[it.goal].question(it.budgets, it.weight) for it in questions]
        found = certify_together(asked, confidence=first.confidence, method=first.method, part=judge.part, tests=tests)
    return _rising(list(zip(questions, found, strict=True)))


def _rising(answers: Sequence[Answer]) -> list[Answer]:
    """Let a larger budget of a goal reach at least as far as a smaller one; budgets rise.

    Weights can give a smaller budget more of the allowed error, and so a further step.
    """
    found: list[Answer] = []
    for question, certificate in answers:
        same = found and found[-1][0].goal == question.goal
        found.append((question, certificate.within(found[-1][1]) if same else certificate))
    return found


def _until_refused(
    judge: Problem,
    asked: Sequence[tuple[BudgetQuestion, float]],
    most: float,
    tests: Tests,
    executor: Executor,
    on_point: Callable[[], None],
) -> Path:
    """Walk a path until no budget can certify a further point, at whatever level other questions pass on.

    Args:
        judge: What is served, on the certifying part.
        asked: Questions about one goal, and the level that each begins with.
        most: The largest level that a question can have.
        tests: Remembers the tests of the points.
        executor: Where the points are made.
        on_point: Called after each point.
    """
    first, waiting = asked[0][0], list(asked)

    def ends(path: Path) -> bool:
        waiting[:] = [
            (it, level) for it, level in waiting if not is_refused(path.question(it.budgets), level, most, tests)
        ]
        return not waiting

    metrics = tuple(first.budgets)
    return walk(judge, first.goal, metrics, first.steps, executor, on_point, ends, first.through)
