"""recprism monitor-log: what users got, by a log of served requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With, Without
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli._values import column_map
from recprism.cli.operate._live import certify_log, estimate_prices
from recprism.cli.operate.monitor import Floor, write_found
from recprism.common.command_line import command_line
from recprism.common.shares import percent
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.operate.served.confidence import Interval
    from recprism.operate.served.holdout import HoldoutResult
    from recprism.operate.served.monitored import ServedMonitored

LIVE, USUAL = With("certify", "what_if"), Without("certify", "what_if")


def monitor_log(
    export: Annotated[
        Path, typer.Argument(metavar="EXPORT", help="The rule that was served: a folder of `recprism export RUN`.")
    ],
    served: Annotated[Path, typer.Option(help="The log of `recprism serve --log`: a folder, or a .parquet file.")],
    taken: Annotated[
        Path | None,
        typer.Option(
            help="What users took: item, and request or user (as hashed in the log). Then accuracy is measured too."
        ),
        USUAL,
    ] = None,
    columns: Annotated[options.ColumnMap, With("taken")] = None,
    floor: Annotated[Floor, USUAL] = 0.8,
    max_fallbacks: Annotated[
        float, options.share_option(help="Largest share of requests without a list of the rule."), USUAL
    ] = 0.05,
    max_unmet: Annotated[
        float | None, options.share_option(help="Largest share of requests with an unmet constraint."), USUAL
    ] = None,
    max_milliseconds: Annotated[
        float | None, typer.Option(help="99 % of the requests must be faster.", min=0, max=1e9), USUAL
    ] = None,
    max_hit_loss: Annotated[
        float | None,
        options.share_option(help="With --taken: largest loss of the hit rate against a holdout at a lower price."),
        With("taken"),
    ] = None,
    holdout_share: Annotated[
        float | None,
        options.share_option(help="The share that `recprism serve --holdout` draws; then the draw is checked."),
        USUAL,
    ] = None,
    certify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OUTCOME=SHARE",
            help="Test that at most this share of an outcome is lost against the holdout: clicks=2%, or clicks@new=2% "
            "for the segment new. Repeat it; all share the error.",
            show_default="no test",
        ),
    ] = None,
    what_if: Annotated[
        str | None,
        typer.Option(
            metavar="price=PRICE,...",
            help="Estimate each outcome if all users had one of these prices, from the random draws of the log.",
            show_default="no estimate",
        ),
        Without("certify"),
    ] = None,
    outcomes: Annotated[
        Path | None,
        typer.Option(
            help="With --certify or --what-if: a table with request, a column from 0 to 1 for each outcome, and "
            "optionally time."
        ),
        LIVE,
    ] = None,
    window: Annotated[
        float,
        options.number_option(
            help="With --certify or --what-if: days in which outcomes arrive; later ones do not count.", least=0.001
        ),
        LIVE,
    ] = 1.0,
    confidence: Annotated[options.Confidence, LIVE] = 0.95,
    output: options.Rows = None,
    junit: Annotated[options.JUnit, Without("what_if")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure what users got, by the log of a service.

    The command prints the coverage of the shown lists, the share of the gain that users saw, exposure, fallbacks and
    latency, day by day. Its intervals hold at all times together, so you may look as often as you like.

    With --certify it tests instead that the rule keeps budgets of outcomes against the random holdout: *certified*,
    *undecided* with the traffic still needed, or *broken*. These answers, too, hold at all times together.

    With --what-if it estimates each outcome if all users had one price. A price must have been drawn often enough.

    Exit code 0: no alarm fires, and no budget is broken. 1: an alarm fires, because the whole interval is beyond its
    limit, or a budget is broken. 2: the question is wrong.

    Examples:

    - `recprism monitor-log rule --served log`
    - `recprism monitor-log rule --served log --taken taken.parquet --holdout-share 5%`
    - `recprism monitor-log rule --served log --max-milliseconds 20 --junit monitor.xml`
    - `recprism monitor-log rule --served log --certify clicks=2% --outcomes outcomes.parquet`
    - `recprism monitor-log rule --served log --what-if price=0,0.14 --outcomes outcomes.parquet`
    """
    from recprism.operate.served.alarms import AlarmLimits
    from recprism.operate.served.figures import ServedRow
    from recprism.operate.served.monitored import monitor_served
    from recprism.runs.run import Run
    from recprism.runs.tables import require_table_name

    require_table_name(output)
    if certify or what_if:
        option = "--certify" if certify else "--what-if"
        if outcomes is None:
            raise InputError(f"{option} needs --outcomes FILE: a table with request and a column for each outcome")
        if what_if:
            estimate_prices(export, served, outcomes, what_if, window, confidence, output, as_json)
            return
        assert certify is not None
        certify_log(export, served, outcomes, certify, window, confidence, output, junit, as_json)
        return
    limits = AlarmLimits(floor, max_fallbacks, max_unmet, max_milliseconds, max_hit_loss, holdout_share)
    mapped = column_map(columns, ("request", "user", "item"))
    with progress_of_steps() as on_step:
        found = monitor_served(export, served, taken=taken, limits=limits, columns=mapped, on_step=on_step)
    write_found(ServedRow, found, output, junit)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
        run = next((it for it in export.parents if Run.is_at(it)), None)  # `recprism export` writes there by default
        page = command_line("studio", run or "RUN", served=served, export=export)
        if run is None:
            say(f"to see this as a page, name the run of the export: {page}")
        else:
            next_step(page)
    if not found.passed:
        raise typer.Exit(1)


def _print(found: ServedMonitored) -> None:
    print_title(f"{found.log}: {found.metric} of the lists that users saw")
    lines: list[tuple[Any, ...]] = [
        (
            *(row.day, row.requests, row.base, row.rule, row.shown),
            *(percent(it, ".1f", "%") for it in (row.retained, row.low, row.high)),
        )
        for row in (*found.days, found.rows[0])
    ]
    columns: tuple[str, ...] = ("day", "requests", "base", "rule", "shown", "kept", "low", "high")
    print_table(columns, lines, numeric=columns[1:])
    print_title("\nthe service:")
    lines = [
        (
            row.day,
            *(percent(it, ".2f", "%") for it in (row.fallbacks, row.unmet, row.holdout)),
            *(f"{it:.2f}" for it in (row.swaps, row.median_ms, row.p99_ms)),
        )
        for row in (*found.days, found.rows[0])
    ]
    columns = ("day", "fallbacks", "not met", "holdout", "swaps", "median ms", "p99 ms")
    print_table(columns, lines, numeric=columns[1:])
    if found.fallbacks:
        print_sentence("fallbacks: " + ", ".join(f"{name} {count:,}" for name, count in found.fallbacks.items()))
    for name, it in found.accuracy.items():
        print_sentence(f"{name} of the shown lists at the usual price: {it.mean:.4f} ({it.low:.4f} to {it.high:.4f})")
    _print_exposure(found)
    if found.holdout is not None:
        _print_holdout(found.holdout)
    _print_alarms(found)
    for note in found.notes:
        print_sentence(f"note: {note}")
    print_sentence(found.verdict())


def _print_exposure(found: ServedMonitored) -> None:
    print_title("\nwho is shown (share of places, the largest changes):")
    seen = found.exposure
    rows = [(it.category, it.base, it.shown) for it in seen.categories]
    print_table(("category", "base", "shown"), rows, numeric=("base", "shown"))
    print_sentence(
        f"items shown: {seen.shown_items:,} of {seen.items:,}, in base lists {seen.base_items:,}; "
        f"Gini {seen.shown_gini:.4f}, of base lists {seen.base_gini:.4f}"
    )


def _print_holdout(found: HoldoutResult) -> None:
    print_title("\nthe holdout:")
    rows = [
        (it.arm, f"{it.price:.3g}", it.requests, it.users, it.coverage.mean, *map(_cell, (it.hit_rate, it.ndcg)))
        for it in (found.usual, found.holdout)
    ]
    columns = ("arm", "price", "requests", "users", "coverage", "hit rate", "ndcg")
    print_table(columns, rows, numeric=columns[1:])
    print_sentence(found.sentence())


def _print_alarms(found: ServedMonitored) -> None:
    """Print the alarms of all days, and those of single days that fire."""
    print_title("\nalarms, each false with a chance of at most 5 % however often you look:")
    for it in found.alarms:
        if it.day == found.rows[0].day or it in found.fired:
            print_sentence(f"{'FIRES' if it in found.fired else it.state}: {it.sentence()}")


def _cell(interval: Interval | None) -> float | None:
    return None if interval is None else interval.mean
