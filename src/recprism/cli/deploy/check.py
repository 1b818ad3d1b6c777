"""recprism check: exit codes for pipelines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._options import ResultName, metric_shares, share_option
from recprism.cli._output import AsJson, next_step, print_json, print_sentence, print_title, progress_of_steps


def check(
    run_directory: Annotated[Path, typer.Argument(help="A run that was diversified.")],
    max_ndcg_loss: Annotated[float | None, share_option(help="Largest loss of NDCG@10: 0.01 or 1%.")] = None,
    min_sc_gain: Annotated[
        float | None, share_option(help="Least gain in subtopic coverage@10: 0.05 or 5%.", high=math.inf)
    ] = None,
    max_loss: Annotated[
        list[str] | None, typer.Option(help="METRIC=SHARE for any other metric, as in recall@20=2%.")
    ] = None,
    min_gain: Annotated[list[str] | None, typer.Option(help="METRIC=SHARE, as in catalogue_coverage@10=10%.")] = None,
    confident: Annotated[
        bool, typer.Option("--confident", help="Judge by the doubtful end of the 95 % interval, not by the mean.")
    ] = False,
    part: Annotated[str, typer.Option(help="Judge on validation or on test.")] = "test",
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file for the build server.")] = None,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Is a diversified run within limits? Exit code 0 if all hold, 1 if any fails, 2 for a wrong question.

    Example: `recprism check runs/x --max-ndcg-loss 1% --min-sc-gain 5% --junit check.xml`
    """
    from recprism.data._files import write_text
    from recprism.deploy.check import check
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    losses = {**({} if max_ndcg_loss is None else {"ndcg@10": max_ndcg_loss}), **metric_shares(max_loss, "--max-loss")}
    gains = {
        **({} if min_sc_gain is None else {"subtopic_coverage@10": min_sc_gain}),
        **metric_shares(min_gain, "--min-gain", math.inf),
    }
    run = Run.open(run_directory, name)
    with progress_of_steps() as on_step:
        found = check(run, losses, gains, part=part_named(part), confident=confident, on_step=on_step)
    if junit is not None:
        write_text(junit, found.to_junit())
    if as_json:
        print_json(found.to_dict())
    else:
        print_title(f"{run.argument}: limits, on the {found.part} part")
        for limit in found.limits:
            print_sentence(limit.sentence())
        next_step(f"recprism explain {run.argument}" if found.passed else f"recprism audit {run_directory}")
    if not found.passed:
        raise typer.Exit(1)
