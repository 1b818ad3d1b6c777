"""recprism search: the paper's players search for a perturbation of a run's factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._changed import print_effect, result_to_make
from recprism.cli._commands import refuse
from recprism.cli._output import next_step, print_json, progress_bar, progress_of_steps
from recprism.cli._values import mlflow_sink, typed_values
from recprism.common.command_line import in_commas
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.cmb import CMB, Step
    from recprism.runs.run import Run
    from recprism.runs.sinks import Sink

DEFAULT_GOAL = "subtopic_coverage"
OF_CREDIT = {
    "marginal": ("relevance", "candidates", "width", "rate"),
    "shared": ("lambda2", "epsilon", "confidence", "learning_rate", "ties", "patience"),
}
"""Credit -> the settings that only a search with this credit uses."""


def search(
    run_directory: options.TrainedRun,
    goal: Annotated[str | None, options.goal_option(DEFAULT_GOAL)] = None,
    accuracy: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="An accuracy metric in the reward, such as recall or ndcg. For shared credit (--preset paper).",
            show_default="none: the goal alone",
        ),
    ] = None,
    relevance: Annotated[
        float | None,
        options.share_option(
            help="Weight of the base scores against the goal; more keeps more accuracy. Not for shared credit.",
            show_default="0.7",
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
            "--set", metavar="NAME=VALUE", help="A setting of CMB, as in iterations=500 or policy=ucb. Repeatable."
        ),
    ] = None,
    metrics: options.Metrics = None,
    name: options.NewName = None,
    overwrite: options.OverwriteResult = False,
    mlflow: options.Mlflow = None,
    as_json: options.AsJson = False,
) -> None:
    """Search for a change of the factors with the paper's bandit.

    The goal is any metric. The search has no budget: for a certified loss, run `recprism diversify`. The table also
    shows what two random changes of the same size reach: a gain that they reach as well was not learned.

    Examples:

    - `recprism search runs/x --goal subtopic_coverage --set side=user`
    - `recprism search runs/x --preset paper --goal ilad --accuracy recall`
    """
    from recprism.cmb import CMB
    from recprism.cmb.jobs.search import begin_search, require_goals
    from recprism.runs.config import DiversifyConfig
    from recprism.runs.jobs.train import metric_names
    from recprism.runs.lock import held

    names, sink = metric_names(metrics), mlflow_sink(mlflow)
    run = result_to_make(run_directory, name, overwrite)
    options = {"accuracy": accuracy, "relevance": relevance}
    chosen = _settings(goal, options, typed_values(settings, "--set"))
    model = CMB.preset(preset, **chosen)
    _refuse_idle({name: f"--{'' if options.get(name) is not None else 'set '}{name}" for name in chosen}, model)
    require_goals(model, run)
    run.factors()
    with held(run.path):
        run = begin_search(run, DiversifyConfig(preset=preset, settings=chosen), overwrite=overwrite)
        model = search_with_progress(run, sink)
    print_search(run, model, names, as_json)


def print_search(run: Run, model: CMB, names: tuple[str, ...] | None, as_json: bool) -> None:
    """Print what a search did to the lists, next to random changes; ``names`` are metrics, None the usual ones."""
    from recprism.cmb.jobs.search import random_changes
    from recprism.result.effect import effect

    with progress_of_steps() as on_step:
        result = run.load_result()
        others = random_changes(result, run.config.seed)
        found = effect(result, names, controls=others, on_step=on_step)
    if as_json:
        controls = {name: control.to_dict() for name, control in found.controls.items()}
        change = {"change": found.change.to_dict(), "controls": controls}
        print_json({"run": str(run.path), "settings": model.settings(), **change})
        return
    print_effect(run, found)
    first = in_commas(run.split().user_ids[0])
    next_step(run.command("recommend", users=first), run.command("evaluate"))


def _settings(goal: str | None, options: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of CMB from all options; a setting that is given in two ways is refused."""
    given = {name: value for name, value in options.items() if value is not None}
    if goal is not None:
        given["diversity"] = _goal_name(goal)
    twice = next((name for name in given if name in typed), None)
    if twice is not None:
        option = "goal" if twice == "diversity" else twice
        raise InputError(f"--{option} and --set {twice}= are the same setting; give one of them")
    return {"diversity": DEFAULT_GOAL, **given, **typed}


def _refuse_idle(given: Mapping[str, str], model: CMB) -> None:
    """Refuse settings (name -> option) that this kind of credit, or this policy, does not use."""
    from recprism.cmb.settings import POLICY_SETTINGS

    other = "shared" if model.credit == "marginal" else "marginal"
    for name, option in given.items():
        of_policies = [policy for policy, settings in POLICY_SETTINGS.items() if name in settings]
        if name in OF_CREDIT[other]:
            refuse(option, f"with {model.credit} credit", f"with {other} credit")
        if of_policies and model.policy not in of_policies:
            refuse(option, f"with policy={model.policy}", f"with policy={' or '.join(of_policies)}")
        if name == "lambda2" and model.accuracy is None:
            refuse(option, "without --accuracy", "with --accuracy")


def _goal_name(goal: str) -> str:
    """The registered name behind an alias, with its cut."""
    from recprism.metrics.registry import canonical

    name, at, cut = goal.partition("@")
    return f"{canonical(name)}{at}{cut}"


def search_with_progress(run: Run, sink: Sink | None) -> CMB:
    """Search in a run that has begun, and show how far it is."""
    from recprism.cmb import CMB
    from recprism.cmb.jobs.search import search as search_in
    from recprism.runs.sinks import followed

    wanted = run.config.diversify
    total = CMB.preset(wanted.preset, **wanted.settings).iterations if wanted else 0
    with followed(run, sink), progress_bar() as progress:
        task = progress.add_task("searching", total=total, note="")

        def show(step: Step) -> None:
            progress.update(task, completed=step.iteration + 1, note=_note(step))

        try:
            return search_in(run, show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"continue with: recprism resume {run.argument}") from None


def _note(step: Step) -> str:
    """The worth of the lists, with its error where only some users were ranked."""
    sampled = "" if step.users is None else f" ± {step.error:.4f} ({step.users:,} users)"
    return f"psi {step.psi:.4f}{sampled}, reward {step.reward:.4f}"
