"""recprism holdout: how many requests a randomised holdout needs."""

from __future__ import annotations

from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli.operate.experiment import Alpha, Power
from recprism.common.command_line import command_line


def holdout(
    run_directory: options.DiversifiedRun,
    share: Annotated[float, options.share_option(help="Share of the requests at price 0.", low=0.001, high=0.999)],
    click_rate: Annotated[
        float,
        options.share_option(
            help="Share of the holdout's requests with a click, from your logs.", low=0.0001, high=0.9999
        ),
    ],
    change: Annotated[
        float, options.share_option(help="Share of the click rate whose loss must be seen.", low=0.001, high=0.9)
    ] = 0.05,
    requests_per_day: Annotated[
        int | None, typer.Option(help="Requests per day, each of another user; the plan then gives days.", min=1)
    ] = None,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    part: options.Part = "test",
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Plan a holdout: the requests it needs, at price 0.

    `recprism serve --holdout` gives a random share of the users another price, so that the price of diversity is
    measured. The plan gives the requests for a test with a single look, and for the confidence sequences of
    `recprism monitor-log`, which may be read at any time.

    Examples:

    - `recprism holdout runs/x --share 5% --click-rate 8%`
    - `recprism holdout runs/x --share 5% --click-rate 8% --change 3% --requests-per-day 100000`
    """
    from recprism.operate.served.holdout_plan import plan_holdout
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    with progress_of_steps() as on_step:
        found = plan_holdout(
            Run.open(run_directory, name),
            share,
            click_rate,
            change=change,
            power=power,
            alpha=alpha,
            part=part_named(part),
            on_step=on_step,
        )
    days = None if requests_per_day is None else -(-found.requests // requests_per_day)
    if as_json:
        print_json({**found.to_dict(), "days": days})
        return
    print_title(f"{found.run}: a holdout at price 0")
    rows = [(it.question, f"{it.share:.3g}", it.holdout, it.usual, it.fixed, it.anytime) for it in found.sizes]
    columns = ("question", "share", "holdout", "usual price", "one look", "at any time")
    print_table(columns, rows, numeric=columns[1:])
    print_sentence(found.sentence())
    if days is not None:
        print_sentence(f"With {requests_per_day:,} requests a day: {days:,} days.")
    watch = command_line("monitor-log", "EXPORT", served="LOG", taken="FILE", holdout_share=f"{found.share:g}")
    say(f"when there is a log of `recprism serve`, watch it: {watch}")
