"""recprism diversify: search for a perturbation of a trained run's factors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from recprism.cli._options import (
    Mlflow,
    comma_words,
    key_values,
    metric_shares,
    mlflow_sink,
    share_option,
    typed_values,
)
from recprism.cli._output import (
    AsJson,
    ExecutorName,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_bar,
    progress_of_steps,
    say,
    say_removed,
)
from recprism.cli.diversity.audit import Guards
from recprism.data.shares import share
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.budget.diversified import Diversified
    from recprism.cmb import CMB, Step
    from recprism.data.split import Part
    from recprism.parallel import Executor
    from recprism.runs.config import BudgetConfig
    from recprism.runs.jobs.diversify import Effect
    from recprism.runs.run import Run


JUDGED_ON: Literal["test"] = "test"
"""The part that the table of what was done is measured on."""


def diversify(
    run_directory: Annotated[
        Path | None, typer.Argument(help="A run made by `recprism train`.", show_default=False)
    ] = None,
    diversity: Annotated[
        str,
        typer.Option(
            help="The metric to raise: subtopic_coverage, alpha_ndcg, ilad, catalogue_coverage, or any other."
        ),
    ] = "subtopic_coverage",
    accuracy: Annotated[
        str | None, typer.Option(help="The metric to hold: recall, ndcg, ...", show_default="none: diversity alone")
    ] = None,
    budget: Annotated[
        float | None,
        share_option(
            help="The most diversity for at most this share of NDCG@10, certified: 0.01 or 1%.",
            low=0.0001,
            high=0.5,
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
        share_option(
            help="With --like: at most this share of the places of its lists changes.", show_default="no bound"
        ),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            help="With --budget: subtopic_coverage, alpha_ndcg, ilad_subtopics, ilad, catalogue_coverage, or several "
            "joined by +."
        ),
    ] = "subtopic_coverage",
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
        float, share_option(help="With --budget: share of all places that goes to tail items.")
    ] = 0.0,
    per_user_diversity: Annotated[
        bool, typer.Option("--per-user-diversity", help="With --budget: more for users whose own history is diverse.")
    ] = False,
    confidence: Annotated[float, share_option(help="Of the certificate.", low=0.5, high=0.9999)] = 0.95,
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
    executor: ExecutorName = "local",
    shards: Annotated[
        int | None,
        typer.Option(help="Parts that users go into; the same number, the same result.", min=1, show_default=False),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "-m", "--metrics", help="What to report, as in ndcg@10,subtopic_coverage@10.", show_default="a dozen at 10"
        ),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted search.", show_default=False)] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Keep the result under this name, next to others of the run.",
            show_default="the unnamed one",
        ),
    ] = None,
    like_name: Annotated[
        str | None, typer.Option(help="With --like: which result of that run.", show_default="the unnamed one")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the result that is there.")] = False,
    mlflow: Mlflow = None,
    as_json: AsJson = False,
) -> None:
    """Change the vectors a little so that the lists become more diverse, and show what it did.

    With --budget: the most diverse vectors whose loss of NDCG@10 is certified on the held-out interactions to stay
    within it. Without: players search for a change (CMB). Beside it stand two controls, perturbations of the same kind
    that know nothing: what they reach too, was not learned.

    Examples:

    - `recprism diversify runs/x --budget 1% --goal subtopic_coverage --guard recall@20=2%`
    - `recprism diversify runs/x --diversity subtopic_coverage --set side=user`
    - `recprism diversify runs/x --preset paper --diversity ilad --accuracy recall`
    - `recprism diversify runs/x --executor ray --shards 8`
    - `recprism diversify runs/x --budget 0.02 --name cautious`
    - `recprism diversify --resume runs/x`
    - after a retraining: `recprism diversify runs/new --like runs/x --max-churn 0.2`
    """
    from recprism.budget.path import check_goal
    from recprism.cmb import CMB
    from recprism.parallel import executor_named
    from recprism.runs._lock import held
    from recprism.runs.config import BudgetConfig, ConstraintsConfig, DiversifyConfig
    from recprism.runs.jobs.diversify import effect, require_goals
    from recprism.runs.jobs.train import metric_names, part_named
    from recprism.runs.neighbours import neighbours_of
    from recprism.runs.run import Run
    from recprism.runs.sinks import followed

    names, deciding = metric_names(metrics), None if certify_on is None else part_named(certify_on)
    if (run_directory is None) == (resume is None):
        raise InputError("name a run to diversify, or --resume one that was interrupted")
    if like is not None or max_churn is not None or like_name is not None:
        if like is None or run_directory is None or budget is not None:
            raise InputError(
                "--like OLD takes goal and budget from OLD: name the new run, without --budget or --resume"
            )
        run, old, sink = _result(run_directory, name, overwrite), Run.open(like, like_name), mlflow_sink(mlflow)
        with followed(run, sink):
            _like(run, old, max_churn, deciding, names, overwrite, as_json)
        return
    if budget is not None:
        asked = BudgetConfig(
            goal=check_goal(goal),
            budgets={"ndcg@10": budget, **metric_shares(guard, "--guard")},
            side=_side(side),
            confidence=confidence,
            certify_on=deciding,
            constraints=ConstraintsConfig(
                banned=list(comma_words(ban or [])),
                pinned=_pins(pin or []),
                min_share=_amounts(min_share, "--min-share"),
                max_share=_amounts(max_share, "--max-share"),
                tail_floor=tail_floor,
                per_user_diversity=per_user_diversity,
            ),
        )
        if run_directory is None:
            raise InputError("a search within a budget starts anew: name the run, without --resume")
        run, sink = _result(run_directory, name, overwrite), mlflow_sink(mlflow)
        with followed(run, sink):
            _within(run, asked, names, overwrite, as_json)
        return
    sink, workers = mlflow_sink(mlflow), executor_named(executor)
    chosen: dict[str, Any] = {}
    if resume is not None:
        run = Run.open(resume, name)
    else:
        run = _result(run_directory or Path(), name, overwrite)
        chosen = {"diversity": diversity, **typed_values(settings or [], "--set")}
        chosen |= {name: it for name, it in (("accuracy", accuracy), ("shards", shards)) if it is not None}
        require_goals(CMB.preset(preset, **chosen), run)
        run.factors()
    with held(run.path), followed(run, sink):
        if resume is None:
            run.set_diversify(DiversifyConfig(preset=preset, settings=chosen), overwrite=overwrite)
        model = _search_with_progress(run, workers)
    with progress_of_steps() as on_step:
        found, overlap = effect(run, names, on_step=on_step), neighbours_of(run)
    if as_json:
        controls = {name: control.to_dict() for name, control in found.controls.items()}
        change = {"change": found.change.to_dict(), "controls": controls, "neighbours": overlap.to_dict()}
        print_json({"run": str(run.path), "settings": model.settings(), **change})
        return
    _print_effect(run, found)
    print_sentence(overlap.sentence())
    next_step(f"recprism recommend {run.argument} --users ID", f"recprism evaluate {run.argument}")


def _result(run_directory: Path, name: str | None, overwrite: bool) -> Run:
    """The result to make; with --overwrite, what is about to be removed is said."""
    from recprism.runs.run import Run

    run = Run.open(run_directory).named(name)
    if overwrite:
        say_removed(run.path, run.replaced())
    return run


def _pins(words: list[str]) -> dict[str, int | str]:
    pairs = key_values(words, "--pin")
    for place in pairs:
        if not place.isdigit() or int(place) < 1:
            raise InputError(f"--pin {place}={pairs[place]}: write PLACE=ITEM with 1 for the top place, as in 1=318")
    return {**pairs}


def _amounts(words: list[str] | None, option: str) -> dict[str, float]:
    return {name: share(value, f"{option} {name}") for name, value in key_values(words or [], option).items()}


def _side(word: str) -> Any:
    if word not in ("user", "item"):
        raise InputError(f"--side is user or item, not {word!r}")
    return word


def _within(run: Run, asked: BudgetConfig, names: tuple[str, ...] | None, overwrite: bool, as_json: bool) -> None:
    from recprism.runs.jobs.diversify import diversify_within

    say("walking to more diverse lists, each put into vectors and tested, until the budget is used up")
    with progress_of_steps() as on_step:
        kept = diversify_within(run, asked, overwrite=overwrite, on_step=on_step)
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
    from recprism.deploy.refitted_run import refit_run

    say(f"turning the vectors onto the axes of {old.argument}, then as far towards its goal as it went")
    with progress_of_steps() as on_step:
        found = refit_run(run, old, max_churn=max_churn, certify_on=certify_on, overwrite=overwrite, on_step=on_step)
    also = [found.churn.sentence()]
    if found.judged < 1:
        also.append(f"{found.judged:.0%} of the held-out interactions judge it: {old.path} had seen the others")
    _tell(run, found.kept, found.to_dict(), names, as_json, also)


def _tell(
    run: Run,
    kept: Diversified,
    facts: dict[str, Any],
    names: tuple[str, ...] | None,
    as_json: bool,
    also: Sequence[str] = (),
) -> None:
    """What vectors within a budget did; ``facts`` are what --json prints of how they were found, ``also`` in words."""
    from recprism.runs.jobs.diversify import effect
    from recprism.runs.neighbours import neighbours_of

    assert kept.certificate is not None  # a budget was given
    with progress_of_steps() as on_step:
        found = effect(run, names, on_step=on_step) if kept.compiled is not None else None
        overlap = neighbours_of(run) if kept.compiled is not None else None
    if as_json:
        change = None if found is None else found.change.to_dict()
        moved = None if overlap is None else overlap.to_dict()
        print_json({"run": str(run.path), **facts, "change": change, "neighbours": moved})
        return
    if found is None:
        print_title(f"{run.path}: lists unchanged")
    if found is not None and kept.compiled is not None:
        _print_effect(run, found)
        if not len(run.split().part(JUDGED_ON)):
            print_sentence(f"nobody has interactions in the {JUDGED_ON} part: what it costs there is not known")
        elif kept.certificate.part != JUDGED_ON:
            print_sentence(f"judged on the {JUDGED_ON} part, which had no say in what was chosen")
        print_sentence(kept.compiled.sentence())
        if kept.violations is not None:
            print_sentence(kept.violations.sentence())
    print_sentence(kept.certificate.sentence())
    if kept.certificate.last is not None:
        print_sentence(kept.certificate.scope())
    for sentence in also:
        print_sentence(sentence)
    if overlap is not None:
        print_sentence(overlap.sentence())
    if found is None:
        print_sentence("the vectors stay as they are; a larger --budget, or more held-out users, may be certified")
    next_step(f"recprism recommend {run.argument} --users ID", f"recprism evaluate {run.argument}")


def _note(step: Step) -> str:
    """What the lists were worth, with the error where not all users were looked at."""
    sampled = "" if step.users is None else f" ± {step.error:.4f} ({step.users:,} users)"
    return f"psi {step.psi:.4f}{sampled}, reward {step.reward:.4f}"


def _search_with_progress(run: Run, executor: Executor) -> CMB:
    from recprism.cmb import CMB
    from recprism.runs.jobs.diversify import diversify as search

    wanted = run.config.diversify
    total = CMB.preset(wanted.preset, **wanted.settings).iterations if wanted else 0
    with progress_bar() as progress:
        task = progress.add_task("searching", total=total, note="")

        def show(step: Step) -> None:
            progress.update(task, completed=step.iteration + 1, note=_note(step))

        try:
            return search(run, show, executor=executor)
        except KeyboardInterrupt:
            say(f"stopped; go on with: recprism diversify --resume {run.argument}")
            raise


def _print_effect(run: Run, found: Effect) -> None:
    """Base, perturbed, change in percent with its p-value, and the change that each control reaches."""
    print_title(f"{run.path}: lists before and after, on the {JUDGED_ON} part")
    rows = []
    for row in found.change.rows:
        controls = [control[row.name].relative for control in found.controls.values()]
        rows.append((row.name, row.a, row.b, _percent(row.relative), row.p_value, *map(_percent, controls)))
    columns = ("metric", "base", "perturbed", "change", "p", *found.controls)
    print_table(columns, rows, numeric=columns[1:])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:+.1%}"
