"""The path of a run towards a goal, kept in the run: a later question about any budget is answered at once."""

from __future__ import annotations

from recprism.budget.audit import COST
from recprism.budget.question import BudgetQuestion
from recprism.common.progress import ProgressCallback
from recprism.result.front import StoredPath, make_path
from recprism.rule.goal import Words
from recprism.runs.parts.questions import note_question
from recprism.runs.run import Run


def stored_path(run: Run, goal: Words, on_step: ProgressCallback | None = None) -> StoredPath:
    """Return the path of a run, under the constraints of its result.

    Its lists are read if they are stored for the same vectors and constraints, else made and stored. The labels answer
    one question: the smallest budget of every point, each as if it were the only one.
    """
    problem = run.problem()
    found = make_path(problem, goal, on_step=on_step)
    if found.losses is not None:
        question = BudgetQuestion(found.goal, {}, found.confidence, part=found.part)
        note_question(run, problem, question, any_budget_of=COST)
    return found
