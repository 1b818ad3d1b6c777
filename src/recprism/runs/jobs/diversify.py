"""Diversifies a run: finds a change of its vectors, writes it, and measures its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recprism._log import phase
from recprism.budget._popularity import POPULARITY, judged_popularity
from recprism.budget.diversified import Diversified, within_budget
from recprism.cmb import CMB, Progress, Step
from recprism.cmb._executor import Executor
from recprism.cmb.cmb import evaluate_factors
from recprism.cmb.controls import control_perturbations
from recprism.data._ids import as_id_array, id_positions
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Comparison, Context, Evaluation, compare
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.runs._card import BEFORE, write_card
from recprism.runs._lock import writing
from recprism.runs.config import BudgetConfig, ConstraintsConfig, DiversifyConfig
from recprism.runs.jobs.train import scenario_of
from recprism.runs.neighbours import overlap_of
from recprism.runs.run import Run


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of a change of vectors on the lists, and that of random changes of the same size.

    Attributes:
        before: The lists of the model.
        after: The lists of the changed vectors.
        change: Before against after, user by user.
        controls: Name -> the same comparison for a control, and for lists of the most popular items.

    Stability: provisional.
    """

    before: Evaluation
    after: Evaluation
    change: Comparison
    controls: dict[str, Comparison]


@writing
@phase("searching", __name__)
def diversify(run: Run, on_step: Callable[[Step], None] | None = None, *, executor: Executor | None = None) -> CMB:
    """Search with players as the run's configuration says, from the checkpoint of an interrupted search or the start.

    Args:
        run: A trained run whose configuration has the settings.
        on_step: Called after every iteration.
        executor: Where the users are ranked; this process by default.

    Raises:
        InputError: If no search was configured.
    """
    wanted = run.config.diversify
    if wanted is None:
        raise InputError(f"{run.path}: no search was started in this run; run `recprism search {run.argument}`")
    model = CMB.preset(wanted.preset, seed=run.config.seed, device=run.config.device, **wanted.settings)
    stored = run.load_checkpoint("search")
    resume = None
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

    model.fit(run.factors(), run.split(), run.subtopics(), follow=follow, resume=resume, executor=executor)
    run.save_result(Diversified.of_search(model))
    run.drop_checkpoint("search")
    run.event(
        "diversified",
        iterations=len(model.history_),
        converged=model.converged_,
        neighbours=overlap_of(model.base_, model.delta_).to_dict(),
    )
    write_card(run, about=BEFORE)
    return model


@writing
def diversify_within(
    run: Run, asked: BudgetConfig, *, overwrite: bool = False, on_step: ProgressCallback | None = None
) -> Diversified:
    """Find the most diverse vectors within the budgets, certify them on held-out labels, and write them into the run.

    The run does not change before they are found.

    Args:
        run: A trained run.
        asked: Goal, budgets and constraints.
        overwrite: Replace the result that is there.
        on_step: Receives the progress.

    Raises:
        InputError: If the run has a result that may not be replaced, or no labels that certify.

    Stability: provisional.
    """
    run.require_undiversified(overwrite=overwrite)
    scenario, factors = scenario_of(run), run.factors()
    kept = within_budget(
        scenario,
        asked.goal,
        asked.budgets,
        side=asked.side,
        constraints=constraints_of(asked.constraints, factors),
        confidence=asked.confidence,
        certify_on=asked.certify_on,
        on_step=on_step,
    )
    keep_result(run, asked, kept, kept.to_dict(), overwrite)
    return kept


@phase("writing the result", __name__)
def keep_result(
    run: Run, asked: BudgetConfig, kept: Diversified, certificate: Mapping[str, Any], overwrite: bool
) -> None:
    """Write a result and its certificate into the run.

    Args:
        run: The run.
        asked: Goal, budgets and constraints.
        kept: What was found.
        certificate: What certificate.json holds.
        overwrite: Replace the result that is there.
    """
    run.set_diversify(DiversifyConfig(within=asked), overwrite=overwrite)
    if kept.is_changed:
        run.save_result(kept)
    run.save_certificate(certificate)
    run.event(
        "diversified within a budget",
        goal=kept.goal,
        trade_off=kept.trade_off,
        side=kept.side,
        certificate=None if kept.certificate is None else kept.certificate.figures(),
        neighbours=overlap_of(kept.base, kept.change).to_dict() if kept.is_changed else None,
        **{name: certificate[name] for name in ("like", "retrained") if name in certificate},
    )
    write_card(run, about=BEFORE if kept.is_changed else None)


def require_goals(model: CMB, run: Run) -> None:
    """Refuse unknown goals, and goals of categories if the run has none, before anything is written."""
    model.require_known_goals()
    model.require_items(run.split().n_items)
    if "subtopics" in model.objective.needs and not len(run.subtopics()):
        raise InputError(
            f"{run.path}: {model.objective.name} needs categories of the items and there are none; choose "
            "--goal ilad or catalogue_coverage, or make the run again with --items FILE --subtopic-column NAME"
        )


def constraints_of(asked: ConstraintsConfig, factors: Factors) -> dict[str, Any]:
    """Return settings of ``Constrained``: ids become item numbers, and unset constraints are left out."""

    def number(item: int | str) -> int:
        return int(id_positions(as_id_array([item], "item"), factors.item_ids, "item")[0])

    found = {
        "banned": [number(item) for item in asked.banned],
        "pinned": {int(place): number(item) for place, item in asked.pinned.items()},
        "min_share": asked.min_share,
        "max_share": asked.max_share,
        "tail_floor": asked.tail_floor,
        "per_user_diversity": "history" if asked.per_user_diversity else None,
    }
    return {name: value for name, value in found.items() if value}


@phase("measuring the effect", __name__)
def effect(
    run: Run,
    metrics: Sequence[str] | None = None,
    *,
    part: Part = "test",
    controls: bool = True,
    on_step: ProgressCallback | None = None,
) -> Effect:
    """Measure the lists before and after the change of a run.

    Args:
        run: A diversified run.
        metrics: Names with cuts; the usual ones by default.
        part: The part that judges.
        controls: Whether to measure the permuted change, noise of its size, and popularity, too.
        on_step: Receives the progress.
    """
    found, split = run.diversified(), run.split()
    context = Context.from_split(split, part, subtopics=run.subtopics(), vectors=found.base.item)
    seen = split.seen_before(part)

    max_step = CMB().max_step if found.search is None else found.search.max_step
    others = control_perturbations(found.base, found.change, max_step, run.config.seed) if controls else {}
    step = count_steps(on_step, "measuring", 2 + len(others))

    def judge(perturbation: Perturbation) -> Evaluation:
        judged = evaluate_factors(perturbation.applied_to(found.base), context, seen, metrics)
        step()
        return judged

    before, after = judge(Perturbation()), judge(found.change)
    if not controls:
        return Effect(before, after, compare(before, after), {})
    judged = {name: judge(it) for name, it in others.items()}
    judged[POPULARITY] = judged_popularity(split, part, context, metrics)
    return Effect(before, after, compare(before, after), {name: compare(before, it) for name, it in judged.items()})
