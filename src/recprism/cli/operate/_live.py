"""The live certificate: what ``recprism monitor-log --certify`` calls and prints."""

from __future__ import annotations

from pathlib import Path

import typer

from recprism.cli._output import print_json, print_sentence, print_table, print_title
from recprism.cli._values import key_values
from recprism.cli.operate.monitor import write_found
from recprism.common.shares import percent, percent_interval


def certify_log(
    export: Path,
    log: Path,
    outcomes: Path,
    words: list[str],
    window: float,
    confidence: float,
    output: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Test budgets on a log, print the answers, and exit with 1 if one is broken."""
    from recprism.operate.traffic.certificate import LiveAnswer, certify_live

    budgets = key_values(words, "--certify")
    found = certify_live(export, log, outcomes, budgets, window=window, confidence=confidence)
    write_found(LiveAnswer, found, output, junit)
    if as_json:
        print_json(found.to_dict())
    else:
        print_title(f"{log}: the rule against the random holdout")
        columns = ("outcome", "budget", "clusters", "holdout", "rule", "lost", "interval", "answer")
        rows = [
            (
                *(it.question, percent(it.budget), it.clusters, it.holdout, it.rule),
                *(percent(it.loss, ".1f"), percent_interval(it.low, it.high), it.answer),
            )
            for it in found.rows
        ]
        print_table(columns, rows, numeric=columns[1:-1])
        for it in found.rows:
            print_sentence(it.sentence())
        for note in found.notes:
            print_sentence(f"note: {note}")
        print_sentence(found.verdict())
    if not found.passed:
        raise typer.Exit(1)
