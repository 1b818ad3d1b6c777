"""Diversifies a run: finds a rule or a change of its vectors, writes it, and measures its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from recprism.budget.popularity import POPULARITY, judged_popularity
from recprism.budget.problem import Problem, Ranker
from recprism.budget.within import ask
from recprism.cmb import CMB, Step
from recprism.cmb.controls import control_perturbations
from recprism.cmb.history import Progress
from recprism.common.executor import Executor
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback, count_steps
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Comparison, Evaluation, compare
from recprism.result.result import Result
from recprism.runs._card import BEFORE, write_card
from recprism.runs.config import BudgetConfig, DiversifyConfig
from recprism.runs.lock import writing
from recprism.runs.neighbours import overlap_of
from recprism.runs.parts.questions import clusters_hash
from recprism.runs.parts.stage import SEARCH
from recprism.runs.run import Run


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


@writing
def begin_search(run: Run, asked: DiversifyConfig, *, overwrite: bool = False) -> Run:
    """Return a copy of the run in which :func:`search` can begin; the run itself does not change.

    Args:
        run: A trained run.
        asked: The settings of the search.
        overwrite: Replace the result that is there when the search has ended.

    Raises:
        InputError: If the run has a result, or an unfinished search for it, that may not be replaced.
    """
    run.require_undiversified(overwrite=overwrite)
    staged = run.staged()
    with staged.discarded_on_failure():
        staged.set_diversify(asked)
        staged.keep_for(SEARCH)
    return staged


def interrupted_search(run: Run) -> Run:
    """Return the copy of the run in which an interrupted search continues.

    Raises:
        InputError: If there is none, or if the model of the run has changed since it began.
    """
    staged = run.unfinished(SEARCH)
    if staged is None:
        raise InputError(
            f"{run.path}: no search was interrupted in this run; start one with `recprism search {run.argument}`"
        )
    if staged.fingerprint() != run.fingerprint():
        raise InputError(
            f"{run.path}: its model has changed since the search began; start the search again with "
            f"`recprism search {run.argument} --overwrite`"
        )
    return staged


@writing
@phase("searching", __name__)
def search(run: Run, on_step: Callable[[Step], None] | None = None, *, executor: Executor | None = None) -> CMB:
    """Search with players as the run's configuration says, from the checkpoint of an interrupted search or the start.

    Args:
        run: From :func:`begin_search` or :func:`interrupted_search`. At the end, it becomes the run.
        on_step: Called after every iteration.
        executor: Where the users are ranked; this process by default.

    Raises:
        InputError: If no search was configured.
    """
    wanted = run.config.diversify
    if wanted is None:
        raise InputError(f"{run.path}: no search was started in this run; run `recprism search {run.argument}`")
    with run.discarded_on_failure():
        model = _fitted(run, wanted, on_step, executor)
        run.save_result(Result.of_search(run.problem(), model))
        run.event(
            "diversified",
            iterations=len(model.history_),
            converged=model.converged_,
            neighbours=overlap_of(model.base_, model.delta_).to_dict(),
        )
        write_card(run, about=BEFORE)
        run.commit()
        run.drop_checkpoint("search")
    return model


def _fitted(
    run: Run, wanted: DiversifyConfig, on_step: Callable[[Step], None] | None, executor: Executor | None
) -> CMB:
    """Search, and keep a checkpoint of every step in the run."""
    model = CMB.preset(wanted.preset, seed=run.config.seed, device=run.config.device, **wanted.settings)
    stored, resume = run.load_checkpoint("search"), None
    if stored is not None:
        resume = Progress.from_json(stored[1]["steps"], stored[0], stored[1].get("checkpoint_key"))

    def follow(progress: Progress) -> None:
        facts = {"steps": progress.to_json(), "checkpoint_key": dict(progress.checkpoint_key)}
        run.save_checkpoint(progress.arrays, facts, "search")
        step = progress.steps[-1]
        sampled = {} if step.users is None else {"error": step.error, "users": step.users}
        run.event("step", done=step.iteration + 1, total=model.iterations, psi=step.psi, reward=step.reward, **sampled)
        if on_step is not None:
            on_step(step)

    return model.fit(run.factors(), run.split(), run.subtopics(), follow=follow, resume=resume, executor=executor)


@writing
def diversify_within(
    run: Run,
    asked: BudgetConfig,
    *,
    clusters: ArrayLike | None = None,
    overwrite: bool = False,
    on_step: ProgressCallback | None = None,
) -> Result:
    """Find the rule with the most diverse lists within the budgets, certify it, and write it into the run.

    What an audit of the run answered to the same question is taken over, and the labels are not asked again.
    The run does not change before it is found. If nothing is certified, or if a constraint is violated without
    ``asked.allow_violations``, it does not change at all.

    Args:
        run: A trained run.
        asked: Goal, budgets and constraints.
        clusters: ``(n_users,)`` a number or name for each user; users of one cluster are not independent. By default,
            users are independent.
        overwrite: Replace the result that is there.
        on_step: Receives the progress.

    Raises:
        InputError: If the run has a result that may not be replaced, or no labels that certify.
        ConstraintError: If the lists cannot keep a constraint.
    """
    run.require_undiversified(overwrite=overwrite)
    problem = run.problem(constraints=asked.constraints).with_window(asked.history_window)
    problem = problem.with_clusters(clusters)
    if asked.clusters not in (None, clusters_hash(problem.clusters)):
        raise InputError("the request was made with clusters of users; pass the same ones as clusters=")
    found, before = ask(problem, asked.question, on_step)
    kept = replace(Result.of_rule(problem, found), asked_before=before, run=run)
    _require_kept(asked, kept)
    if kept.is_changed:  # the path first: a run that is read between the two writes has no result without its path
        problem.keep_path(found.question.goal)
    keep_result(run, asked, kept, kept.to_dict())
    return kept


@phase("writing the result", __name__)
def keep_result(run: Run, asked: BudgetConfig, kept: Result, certificate: Mapping[str, Any]) -> None:
    """Replace the run's result by another one and its certificate; without a change, the run stays as it is.

    Args:
        run: The run.
        asked: Goal, budgets and constraints.
        kept: What was found.
        certificate: What certificate.json holds.

    Raises:
        ConstraintError: If the lists violate a constraint, and ``asked`` does not allow it.
    """
    if not kept.is_changed:
        return
    _require_kept(asked, kept)
    staged = run.staged()
    with staged.discarded_on_failure():
        clusters = clusters_hash(kept.problem.clusters)
        staged.set_diversify(DiversifyConfig(within=asked.model_copy(update={"clusters": clusters})))
        staged.save_result(kept)
        staged.save_certificate(certificate)
        staged.event(
            "diversified within a budget",
            goal=kept.towards,
            trade_off=kept.trade_off,
            certificate=None if kept.certificate is None else kept.certificate.figures(),
            **{name: certificate[name] for name in ("like", "retrained") if name in certificate},
        )
        write_card(staged, about=BEFORE)
        staged.commit()
    unfinished = run.unfinished(SEARCH)
    if unfinished is not None:  # it would replace this result
        unfinished.discard()


def _require_kept(asked: BudgetConfig, found: Result) -> None:
    """Refuse lists that violate a constraint, unless that is allowed."""
    if found.violations is not None and not asked.constraints.allow_violations:
        found.violations.require_none()


def _controls(found: Result, seed: int) -> dict[str, tuple[Ranker, Problem]]:
    """Return name -> a randomised model, and the problem that ranks its lists.

    A change of vectors is permuted, and replaced by noise of its size. A rule is run on shuffled categories.
    """
    problem, rule, search = found.problem, found.rule, found.search
    if rule is not None:
        mixed = None if rule.goal.needing("categories") is None else problem.shuffled(seed)
        return {} if mixed is None else {"shuffled categories": (rule, mixed)}
    assert search is not None
    drawn = control_perturbations(search.base_, search.delta_, search.max_step, seed)
    return {name: (it.applied_to(search.base_), problem) for name, it in drawn.items()}


def require_goals(model: CMB, run: Run) -> None:
    """Refuse unknown goals, and goals of categories if the run has none, before anything is written."""
    model.require_known_goals()
    model.require_items(run.split().n_items)
    if "subtopics" in model.objective.needs and not len(run.subtopics()):
        raise InputError(
            f"{run.path}: {model.objective.name} needs categories of the items and there are none; choose "
            "--goal ilad or catalogue_coverage, or make the run again with --items FILE --subtopic-column NAME"
        )


@phase("measuring the effect", __name__)
def effect(
    run: Run,
    metrics: Sequence[str] | None = None,
    *,
    part: Part = "test",
    controls: bool = True,
    result: Result | None = None,
    on_step: ProgressCallback | None = None,
) -> Effect:
    """Measure the lists before and after the change of a run.

    Args:
        run: A diversified run.
        metrics: Names with cuts; the usual ones by default.
        part: The part that judges.
        controls: Whether to measure the permuted change, noise of its size, and popularity, too.
        result: The result of the run on the part, if it is known already.
        on_step: Receives the progress.
    """
    found = run.load_result(part) if result is None else result
    problem = found.problem
    others = _controls(found, run.config.seed) if controls else {}
    step = count_steps(on_step, "measuring", 2 + len(others))

    def judge(model: Ranker, of: Problem = problem) -> Evaluation:
        judged = problem.evaluate(model, metrics, lists_of=of)
        step()
        return judged

    before, after = judge(problem.base), judge(found.model)
    if not controls:
        return Effect(before, after, compare(before, after), {})
    judged = {name: judge(*it) for name, it in others.items()}
    judged[POPULARITY] = judged_popularity(problem.split, part, problem.context, metrics, hidden=problem.hidden)
    return Effect(before, after, compare(before, after), {name: compare(before, it) for name, it in judged.items()})
