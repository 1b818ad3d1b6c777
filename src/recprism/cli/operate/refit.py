"""recprism refit: the goal and budget of an earlier run, again after a retraining."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._changed import print_diversified, result_to_make
from recprism.cli._output import progress_of_steps, say
from recprism.cli._values import mlflow_sink


def refit(
    run_directory: Annotated[Path, options.run_argument("The retrained run.")],
    like: Annotated[
        Path, typer.Option(metavar="OLD", help="The run before the retraining, which `diversify` has changed.")
    ],
    like_name: Annotated[
        str | None, typer.Option(help="The result of the old run to follow.", show_default="the unnamed one")
    ] = None,
    max_churn: Annotated[
        float | None,
        options.share_option(
            help="The largest share of the places of its lists that may change; user vectors then serve the lists.",
            show_default="no bound",
        ),
    ] = None,
    certify_on: Annotated[str | None, options.certify_option("as for the old run")] = None,
    metrics: options.Metrics = None,
    name: options.NewName = None,
    overwrite: options.OverwriteResult = False,
    mlflow: options.Mlflow = None,
    as_json: options.AsJson = False,
) -> None:
    """Apply the goal and budget of an old run after a retraining.

    The command goes as far towards the old goal as the old run did, within the old budget. It reports how many places
    of the lists changed.

    Examples:

    - `recprism refit runs/new --like runs/old`
    - `recprism refit runs/new --like runs/old --max-churn 20%`
    - `recprism refit runs/new --like runs/old --like-name cautious`
    """
    from recprism.operate.refitted_run import refit_run
    from recprism.result.result import Result
    from recprism.runs.jobs.train import metric_names, part_named, require_measurable
    from recprism.runs.run import Run
    from recprism.runs.sinks import followed

    names, part = metric_names(metrics), None if certify_on is None else part_named(certify_on)
    run, old, sink = result_to_make(run_directory, name, overwrite), Run.open(like, like_name), mlflow_sink(mlflow)
    require_measurable(run, names)
    with followed(run, sink):
        say(f"as far towards the goal of {old.argument} as it went")
        with progress_of_steps() as on_step:
            found = refit_run(run, old, max_churn=max_churn, certify_on=part, overwrite=overwrite, on_step=on_step)
        also = [found.churn.sentence()]
        if found.judged < 1:
            also.append(f"{found.judged:.0%} of the held-out interactions judge it: {old.path} had seen the others")
        result = replace(Result.of_rule(found.problem, found.kept), asked_before=found.asked_before)
        print_diversified(run, result, {**result.to_dict(), "retrained": found.to_dict()}, names, as_json, also)
