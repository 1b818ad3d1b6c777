"""recprism check: exit codes for pipelines."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import Without
from recprism.cli._output import next_step, print_json, print_sentence, print_title, progress_of_steps
from recprism.cli._values import limits, metric_shares, part_option
from recprism.common.command_line import command_line


def check(
    run_directory: options.DiversifiedRun,
    max_ndcg_loss: Annotated[
        float | None, options.share_option(help="The largest loss of NDCG@10: 0.01 or 1%.")
    ] = None,
    max_loss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=SHARE", help="The largest loss of any other metric, as in recall@20=2%. Repeatable."
        ),
    ] = None,
    min_gain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=SHARE", help="The least gain of a metric, as in subtopic_coverage@10=5%. Repeatable."
        ),
    ] = None,
    confidence: Annotated[
        float,
        options.share_option(help="Confidence that all limits hold, if all pass.", low=0.5, high=0.9999),
        Without("measured"),
    ] = 0.95,
    measured: Annotated[
        bool, typer.Option("--measured", help="Compare measured values with the limits, whatever their uncertainty.")
    ] = False,
    part: options.Part = "test",
    junit: options.JUnit = None,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Check limits on loss and gain, with exit codes for pipelines.

    Exit code 0: all limits hold. 1: a limit fails. 2: the question is wrong. A metric without a cut means the first
    10 places: sc=5% is subtopic_coverage@10=5%.

    A limit holds if the test of the certificate shows it on the users of the part: the upper bound of a loss, or the
    lower bound of a gain, is within the limit. Metrics of all lists together are measured, and their row says so.

    Examples:

    - `recprism check runs/x --max-ndcg-loss 1% --min-gain subtopic_coverage@10=5%`
    - `recprism check runs/x --max-loss recall@20=2% --measured --junit check.xml`
    """
    from recprism.common.files import write_text
    from recprism.operate.check import check
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    losses = limits(max_ndcg_loss, "--max-ndcg-loss", max_loss, "--max-loss")
    gains = metric_shares(min_gain, "--min-gain", math.inf)
    run = Run.open(run_directory, name)
    level = None if measured else confidence
    with progress_of_steps() as on_step:
        found = check(run, losses, gains, part=part_named(part), confidence=level, on_step=on_step)
    if junit is not None:
        write_text(junit, found.to_junit())
    if as_json:
        print_json(found.to_dict())
    else:
        print_title(f"{run.argument}: limits, on the {found.part} part")
        for limit in found.limits:
            print_sentence(limit.sentence())
        next_step(run.command("explain", part=part_option(part)) if found.passed else command_line("audit", run.path))
    if not found.passed:
        raise typer.Exit(1)
