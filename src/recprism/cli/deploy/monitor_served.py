"""The part of recprism monitor that reads a log of served requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from recprism._command_line import command_line
from recprism.cli._output import (
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
)
from recprism.data.shares import percent

if TYPE_CHECKING:
    from recprism.deploy.served.alarms import AlarmLimits
    from recprism.deploy.served.confidence import Interval
    from recprism.deploy.served.holdout import HoldoutResult
    from recprism.deploy.served.monitored import ServedMonitored


def monitor_log(
    export: Path,
    log: Path,
    taken: Path | None,
    limits: AlarmLimits,
    columns: Mapping[str, str],
    output: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Measure a log, print the figures, and exit with 1 if an alarm fires."""
    from recprism.data._files import write_text
    from recprism.deploy.served.figures import ServedRow
    from recprism.deploy.served.monitored import monitor_served
    from recprism.metrics.evaluation import frame_of
    from recprism.runs._tables import write_table
    from recprism.runs.run import Run

    with progress_of_steps() as on_step:
        found = monitor_served(export, log, taken=taken, limits=limits, columns=columns, on_step=on_step)
    if output is not None:
        say(f"rows written to {write_table(frame_of(ServedRow, found.rows), output)}")
    if junit is not None:
        write_text(junit, found.to_junit())
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
        run = next((it for it in export.parents if Run.is_at(it)), None)  # `recprism export` writes there by default
        page = command_line("studio", run or "RUN", served=log, export=export)
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
