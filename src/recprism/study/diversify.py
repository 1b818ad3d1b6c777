"""Diversifying a run: search for a perturbation of its factors, keep it, and say what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recprism.counterfactual import CMB, Progress, Step
from recprism.counterfactual.cmb import evaluate_factors
from recprism.counterfactual.space import Perturbation
from recprism.data.ids import as_id_array, id_positions
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Comparison, Context, Evaluation, compare
from recprism.models import Factors
from recprism.study.card import BEFORE, write_card
from recprism.study.config import BudgetConfig, DiversifyConfig, RulesConfig
from recprism.study.controls import control_perturbations
from recprism.study.lock import writing
from recprism.study.neighbours import overlap_of
from recprism.study.path import Kept, within_budget
from recprism.study.pipeline import situation_of
from recprism.study.popularity import POPULARITY, judged_popularity
from recprism.study.retrain import Before, Refit, refit
from recprism.study.run import Run


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
def diversify(run: Run, on_step: Callable[[Step], None] | None = None) -> CMB:
    """Search as the run's configuration says, from where an interrupted search stands or from the start."""
    wanted = run.config.diversify
    if wanted is None:
        raise InputError(f"{run.path}: nothing was asked to be diversified; run `recprism diversify {run.path}`")
    model = CMB.preset(wanted.preset, seed=run.config.seed, device=run.config.device, **wanted.settings)
    stored = run.load_checkpoint("search")
    resume = None if stored is None else Progress.from_json(stored[1]["steps"], stored[0], stored[1].get("begun_with"))

    def follow(progress: Progress) -> None:
        facts = {"steps": progress.to_json(), "begun_with": dict(progress.begun_with)}
        run.save_checkpoint(progress.arrays, facts, "search")
        step = progress.steps[-1]
        sampled = {} if step.users is None else {"error": step.error, "users": step.users}
        run.event("step", done=step.iteration + 1, total=model.iterations, psi=step.psi, reward=step.reward, **sampled)
        if on_step is not None:
            on_step(step)

    model.fit(run.factors(), run.split(), run.subtopics(), follow=follow, resume=resume)
    run.save_cmb(model)
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
def diversify_within(run: Run, asked: BudgetConfig, *, overwrite: bool = False) -> Kept:
    """The most diverse vectors within the budgets, certified on held-out labels of the run and kept in it.

    Nothing changes before they are found; ``overwrite`` then replaces the perturbation that was there.
    """
    run.require_undiversified(overwrite=overwrite)
    situation, factors = situation_of(run), run.factors()
    kept = within_budget(
        situation,
        asked.goal,
        asked.budgets,
        side=asked.side,
        rules=rules_of(asked.rules, factors),
        confidence=asked.confidence,
        certify_on=asked.certify_on,
    )
    _keep(run, asked, kept, factors, kept.to_dict(), overwrite)
    return kept


@writing
def diversify_like(
    run: Run, old: Run, *, max_churn: float | None = None, certify_on: Part | None = None, overwrite: bool = False
) -> Refit:
    """What was asked of ``old`` asked again of a retrained ``run``, whose vectors are turned onto the old axes.

    certify_on: as ``old`` was asked unless named. See :func:`recprism.study.retrain.refit`. Nothing is turned or
    changed where nothing is certified.
    """
    run.require_undiversified(overwrite=overwrite)
    wanted, certified = old.config.diversify, old.certificate()
    if wanted is None or wanted.within is None or certified is None or not old.is_diversified():
        raise InputError(
            f"{old.path}: holds no vectors within a budget to follow; run `recprism diversify {old.path} --budget 0.01`"
        )
    asked = wanted.within.model_copy(update={"certify_on": certify_on or wanted.within.certify_on})
    before = Before(old.factors(), old.served_factors(), old.split().seen_before("test"))
    found = refit(
        situation_of(run),
        before,
        asked.goal,
        asked.budgets,
        trade_off=certified["trade_off"],
        side=asked.side,
        rules=rules_of(asked.rules, run.factors()),
        confidence=asked.confidence,
        max_churn=max_churn,
        certify_on=asked.certify_on,
    )
    _keep(run, asked, found.kept, found.aligned.factors, {**found.to_dict(), "like": str(old.path)}, overwrite)
    return found


def _keep(
    run: Run, asked: BudgetConfig, kept: Kept, base: Factors, certificate: Mapping[str, Any], overwrite: bool
) -> None:
    """Write down what was found; ``base`` are the vectors that it is a change of."""
    run.set_diversify(DiversifyConfig(within=asked), overwrite=overwrite)
    if kept.baked is not None:
        run.save_cmb(CMB.holding(base, kept.perturbation, diversity=asked.goal, side=asked.side))
    run.save_certificate(certificate)
    run.event(
        "diversified within a budget",
        goal=kept.goal,
        trade_off=kept.trade_off,
        side=kept.side,
        certificate=kept.certificate.figures(),
        neighbours=None if kept.baked is None else overlap_of(base, kept.perturbation).to_dict(),
        **{name: certificate[name] for name in ("like", "retrained") if name in certificate},
    )
    write_card(run, about=None if kept.baked is None else BEFORE)


def require_goals(model: CMB, run: Run) -> None:
    """Refuse goals that are unknown or that need categories the run does not have, before anything is written."""
    model.require_known_goals()
    if "subtopics" in model.objective.needs and not len(run.subtopics()):
        raise InputError(
            f"{run.path}: {model.objective.name} needs categories of the items and there are none; choose "
            "--diversity ilad or pc, or make the run again with --items FILE --subtopic-column NAME"
        )


def rules_of(asked: RulesConfig, factors: Factors) -> dict[str, Any]:
    """Settings of ``Constrained``: ids become item numbers, and what was not asked for is left out."""

    def number(item: int | str) -> int:
        return int(id_positions(as_id_array([item], "item"), factors.item_ids, "item")[0])

    found = {
        "banned": [number(item) for item in asked.banned],
        "pinned": {int(place): number(item) for place, item in asked.pinned.items()},
        "min_share": asked.min_share,
        "max_share": asked.max_share,
        "tail_floor": asked.tail_floor,
        "appetite": "history" if asked.appetite else None,
    }
    return {name: value for name, value in found.items() if value}


def effect(run: Run, metrics: Sequence[str] | None = None, *, part: Part = "test", controls: bool = True) -> Effect:
    """Judge base and perturbed lists on ``part``; beside them the permuted delta, plain noise, and popularity."""
    model, split = run.cmb(), run.split()
    context = Context.from_split(split, part, subtopics=run.subtopics(), vectors=model.base_.item)
    seen = split.seen_before(part)

    def judge(perturbation: Perturbation) -> Evaluation:
        return evaluate_factors(perturbation.applied_to(model.base_), context, seen, metrics)

    before, after = judge(Perturbation()), judge(model.delta_)
    if not controls:
        return Effect(before, after, compare(before, after), {})
    others = {name: judge(it) for name, it in control_perturbations(model, run.config.seed).items()}
    others[POPULARITY] = judged_popularity(split, part, context, metrics)
    return Effect(before, after, compare(before, after), {name: compare(before, it) for name, it in others.items()})
