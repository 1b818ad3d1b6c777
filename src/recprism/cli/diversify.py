"""recprism diversify: search for a perturbation of a trained run's factors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from recprism.cli.audit import Guards
from recprism.cli.options import Mlflow, comma_words, key_values, mlflow_sink, shares, typed_values
from recprism.cli.output import AsJson, next_step, print_json, print_table, progress_bar, say
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.counterfactual import CMB, Step
    from recprism.data.split import Part
    from recprism.study.config import BudgetConfig
    from recprism.study.diversify import Effect
    from recprism.study.path import Kept
    from recprism.study.run import Run


JUDGED_ON: Literal["test"] = "test"
"""The part that the table of what was done is measured on."""


def diversify(
    run_directory: Annotated[
        Path | None, typer.Argument(help="A run made by `recprism train`.", show_default=False)
    ] = None,
    diversity: Annotated[str, typer.Option(help="The metric to raise: sc, alpha_ndcg, ilad, pc, or any other.")] = "sc",
    accuracy: Annotated[
        str | None, typer.Option(help="The metric to hold: recall, ndcg, ...", show_default="none: diversity alone")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="The most diversity for at most this share of NDCG@10, certified: 0.01 is 1 %.",
            min=0.0001,
            max=0.5,
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="A run made before a retraining: its goal and budget again, on its axes, its lists as the measure.",
            show_default=False,
        ),
    ] = None,
    max_churn: Annotated[
        float | None,
        typer.Option(
            help="With --like: at most this share of the places of its lists changes.",
            min=0.0,
            max=1.0,
            show_default="no bound",
        ),
    ] = None,
    goal: Annotated[
        str, typer.Option(help="With --budget: sc, alpha_ndcg, ilad_subtopics, ilad, pc, or several joined by +.")
    ] = "sc",
    guard: Guards = None,
    side: Annotated[
        str, typer.Option(help="With --budget: whose vectors change, user (the index stays) or item.")
    ] = "user",
    ban: Annotated[
        list[str] | None,
        typer.Option(
            help="With --budget: item ids that never appear, with commas between, or repeated.", show_default=False
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(help="With --budget: PLACE=ITEM for all lists, 1 is the top.", show_default=False),
    ] = None,
    min_share: Annotated[
        list[str] | None,
        typer.Option(help="With --budget: SUBTOPIC=SHARE of every list, at least.", show_default=False),
    ] = None,
    max_share: Annotated[
        list[str] | None, typer.Option(help="With --budget: SUBTOPIC=SHARE of every list, at most.", show_default=False)
    ] = None,
    tail_floor: Annotated[
        float, typer.Option(help="With --budget: share of all places that goes to tail items.", min=0.0, max=1.0)
    ] = 0.0,
    appetite: Annotated[
        bool, typer.Option("--appetite", help="With --budget: more for users whose own history is diverse.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="Of the certificate.", min=0.5, max=0.999)] = 0.95,
    certify_on: Annotated[
        str | None,
        typer.Option(
            help="With --budget or --like: whose labels decide how far it goes, validation or test.",
            show_default="validation, where there is one",
        ),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="default, shared (one reward for all players), or paper (the settings behind the paper's tables)."
        ),
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting of CMB, as in iterations=500 or policy=ucb; repeatable.", show_default=False
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="local, or ray: players' users on a Ray cluster (extra [ray]).", show_default="local"),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Parts that users go into; the same number, the same result.", min=1, show_default=False),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("-m", "--metrics", help="What to report, as in ndcg@10,sc@10.", show_default="a dozen at 10"),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted search.", show_default=False)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run's perturbation.")] = False,
    mlflow: Mlflow = None,
    as_json: AsJson = False,
) -> None:
    """Change the vectors a little so that the lists become more diverse, and show what it did.

    With --budget: the most diverse vectors whose loss of NDCG@10 is certified on the held-out interactions to stay
    within it. Without: players search for a change (CMB). Beside it stand two controls, perturbations of the same kind
    that know nothing: what they reach too, was not learned.

    Examples:

    - `recprism diversify runs/x --budget 0.01 --goal sc --guard recall@20=0.02`
    - `recprism diversify runs/x --diversity sc --set side=user`
    - `recprism diversify runs/x --preset paper --diversity ilad --accuracy recall`
    - `recprism diversify runs/x --engine ray --shards 8`
    - `recprism diversify --resume runs/x`
    - after a retraining: `recprism diversify runs/new --like runs/x --max-churn 0.2`
    """
    from recprism.counterfactual import CMB
    from recprism.study.config import BudgetConfig, DiversifyConfig, RulesConfig
    from recprism.study.diversify import effect, require_goals
    from recprism.study.lock import held
    from recprism.study.neighbours import neighbours_of
    from recprism.study.path import check_goal
    from recprism.study.pipeline import metric_names, part_named
    from recprism.study.run import Run
    from recprism.study.sinks import followed

    names, deciding = metric_names(metrics), None if certify_on is None else part_named(certify_on)
    if (run_directory is None) == (resume is None):
        raise InputError("name a run to diversify, or --resume one that was interrupted")
    if like is not None or max_churn is not None:
        if like is None or run_directory is None or budget is not None:
            raise InputError(
                "--like OLD takes goal and budget from OLD: name the new run, without --budget or --resume"
            )
        run, sink = Run.open(run_directory), mlflow_sink(mlflow)
        with followed(run, sink):
            _like(run, Run.open(like), max_churn, deciding, names, overwrite, as_json)
        return
    if budget is not None:
        asked = BudgetConfig(
            goal=check_goal(goal),
            budgets={"ndcg@10": budget, **shares(guard or [], "--guard")},
            side=_side(side),
            confidence=confidence,
            certify_on=deciding,
            rules=RulesConfig(
                banned=list(comma_words(ban or [])),
                pinned=_pins(pin or []),
                min_share=_amounts(min_share, "--min-share"),
                max_share=_amounts(max_share, "--max-share"),
                tail_floor=tail_floor,
                appetite=appetite,
            ),
        )
        if run_directory is None:
            raise InputError("a search within a budget starts anew: name the run, without --resume")
        run, sink = Run.open(run_directory), mlflow_sink(mlflow)
        with followed(run, sink):
            _within(run, asked, names, overwrite, as_json)
        return
    sink = mlflow_sink(mlflow)
    chosen: dict[str, Any] = {}
    if resume is not None:
        run = Run.open(resume)
    else:
        run = Run.open(run_directory or "")
        chosen = {"diversity": diversity, **typed_values(settings or [], "--set")}
        asked_for = {"accuracy": accuracy, "engine": engine, "shards": shards}
        chosen |= {name: value for name, value in asked_for.items() if value is not None}
        require_goals(CMB.preset(preset, **chosen), run)
        run.factors()
    with held(run.path), followed(run, sink):
        if resume is None:
            run.set_diversify(DiversifyConfig(preset=preset, settings=chosen), overwrite=overwrite)
        model = _search_with_progress(run)
    found, overlap = effect(run, names), neighbours_of(run)
    if as_json:
        controls = {name: control.to_dict() for name, control in found.controls.items()}
        change = {"change": found.change.to_dict(), "controls": controls, "neighbours": overlap.to_dict()}
        print_json({"run": str(run.path), "settings": model.settings(), **change})
        return
    _print_effect(found)
    say(overlap.sentence())
    next_step(f"recprism recommend {run.path} --users ID", f"recprism evaluate {run.path}")


def _pins(words: list[str]) -> dict[str, int | str]:
    pairs = key_values(words, "--pin")
    for place in pairs:
        if not place.isdigit() or int(place) < 1:
            raise InputError(f"--pin {place}={pairs[place]}: write PLACE=ITEM with 1 for the top place, as in 1=318")
    return {**pairs}


def _amounts(words: list[str] | None, option: str) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in key_values(words or [], option).items()}
    except ValueError:
        raise InputError(f"{option}: write SUBTOPIC=SHARE, as in Drama=0.2") from None


def _side(word: str) -> Any:
    if word not in ("user", "item"):
        raise InputError(f"--side is user or item, not {word!r}")
    return word


def _within(run: Run, asked: BudgetConfig, names: tuple[str, ...] | None, overwrite: bool, as_json: bool) -> None:
    from recprism.study.diversify import diversify_within

    say("walking to more diverse lists, each put into vectors and tested, until the budget is used up")
    kept = diversify_within(run, asked, overwrite=overwrite)
    _tell(run, kept, kept.to_dict(), names, as_json)


def _like(
    run: Run,
    old: Run,
    max_churn: float | None,
    certify_on: Part | None,
    names: tuple[str, ...] | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    from recprism.study.diversify import diversify_like

    say(f"turning the vectors onto the axes of {old.path}, then as far towards its goal as it went")
    found = diversify_like(run, old, max_churn=max_churn, certify_on=certify_on, overwrite=overwrite)
    if not as_json:
        say(found.churn.sentence())
        if found.judged < 1:
            say(f"{found.judged:.0%} of the held-out interactions judge it: {old.path} had seen the others")
    _tell(run, found.kept, found.to_dict(), names, as_json)


def _tell(run: Run, kept: Kept, facts: dict[str, Any], names: tuple[str, ...] | None, as_json: bool) -> None:
    """What vectors within a budget did; ``facts`` are what --json prints of how they were found."""
    from recprism.study.diversify import effect
    from recprism.study.neighbours import neighbours_of

    found = effect(run, names) if kept.baked is not None else None
    overlap = neighbours_of(run) if kept.baked is not None else None
    if as_json:
        change = None if found is None else found.change.to_dict()
        moved = None if overlap is None else overlap.to_dict()
        print_json({"run": str(run.path), **facts, "change": change, "neighbours": moved})
        return
    if found is not None and kept.baked is not None:
        _print_effect(found)
        if not len(run.split().part(JUDGED_ON)):
            say(f"nobody has interactions in the {JUDGED_ON} part: what it costs there is not known")
        elif kept.certificate.part != JUDGED_ON:
            say(f"judged on the {JUDGED_ON} part, which had no say in what was chosen")
        say(kept.baked.sentence())
        if kept.violations is not None:
            say(kept.violations.sentence())
    say(kept.certificate.sentence())
    if overlap is not None:
        say(overlap.sentence())
    if found is None:
        say("the vectors stay as they are; a larger --budget, or more held-out users, may be certified")
    next_step(f"recprism recommend {run.path} --users ID", f"recprism evaluate {run.path}")


def _note(step: Step) -> str:
    """What the lists were worth, with the error where not all users were looked at."""
    sampled = "" if step.users is None else f" ± {step.error:.4f} ({step.users:,} users)"
    return f"psi {step.psi:.4f}{sampled}, reward {step.reward:.4f}"


def _search_with_progress(run: Run) -> CMB:
    from recprism.counterfactual import CMB
    from recprism.study.diversify import diversify as search

    wanted = run.config.diversify
    total = CMB.preset(wanted.preset, **wanted.settings).iterations if wanted else 0
    with progress_bar() as progress:
        task = progress.add_task("searching", total=total, note="")

        def show(step: Step) -> None:
            progress.update(task, completed=step.iteration + 1, note=_note(step))

        try:
            return search(run, show)
        except KeyboardInterrupt:
            say(f"stopped; go on with: recprism diversify --resume {run.path}")
            raise


def _print_effect(found: Effect) -> None:
    """Base, perturbed, change in percent with its p-value, and the change that each control reaches."""
    rows = []
    for row in found.change.rows:
        controls = [control[row.name].relative for control in found.controls.values()]
        rows.append((row.name, row.a, row.b, _percent(row.relative), row.p_value, *map(_percent, controls)))
    columns = ("metric", "base", "perturbed", "change", "p", *found.controls)
    print_table(columns, rows, numeric=columns[1:])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:+.1%}"
