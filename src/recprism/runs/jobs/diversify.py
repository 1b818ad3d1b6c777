"""Diversifying a run: search for a perturbation of its factors, keep it, and say what it did."""

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
    """What a perturbation did to the lists, and what perturbations of its size do that know nothing.

    change: before against after, user by user
    controls: name -> the same comparison for a control, and for lists of the most popular items
    """

    before: Evaluation
    after: Evaluation
    change: Comparison
    controls: dict[str, Comparison]


@writing
@phase("searching", __name__)
def diversify(run: Run, on_step: Callable[[Step], None] | None = None, *, executor: Executor | None = None) -> CMB:
    """Search as the configuration of the run says, from the start or from where an interrupted search ended.

    Args:
        run: The run; its configuration has the settings.
        on_step: Called after every iteration.
        executor: Where the users are ranked; None for this process.
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
    """The most diverse vectors within the budgets, certified on held-out labels of the run and kept in it.

    Nothing changes before they are found; ``overwrite`` then replaces the perturbation that was there.
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
    """Keep what was found, with its certificate."""
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
    """Refuse goals that are unknown or that need categories the run does not have, before anything is written."""
    model.require_known_goals()
    if "subtopics" in model.objective.needs and not len(run.subtopics()):
        raise InputError(
            f"{run.path}: {model.objective.name} needs categories of the items and there are none; choose "
            "--goal ilad or catalogue_coverage, or make the run again with --items FILE --subtopic-column NAME"
        )


def constraints_of(asked: ConstraintsConfig, factors: Factors) -> dict[str, Any]:
    """Settings of ``Constrained``: ids become item numbers, and what was not asked for is left out."""

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
    """Judge base and perturbed lists on ``part``; beside them the permuted delta, plain noise, and popularity."""
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
