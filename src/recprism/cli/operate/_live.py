"""The live certificate: what ``recprism monitor-log --certify`` and ``--what-if`` call and print."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from recprism.cli._output import print_json, print_sentence, print_table, print_title
from recprism.cli._values import key_values
from recprism.cli.operate.monitor import write_found
from recprism.common.shares import percent, percent_interval, share
from recprism.errors import InputError


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


def estimate_prices(
    export: Path,
    log: Path,
    outcomes: Path,
    words: str,
    window: float,
    confidence: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate each outcome at each price, and print the estimates."""
    from recprism.operate.traffic.off_policy import WhatIf, what_if

    name, _, values = words.partition("=")
    if name.strip() != "price" or not values:
        raise InputError(f"--what-if {words}: write price=PRICE, or price=PRICE,PRICE")
    prices = tuple(share(it, "--what-if price") for it in values.split(","))
    found = what_if(export, log, outcomes, prices, window=window, confidence=confidence)
    write_found(WhatIf, found, output, None)
    if as_json:
        print_json({"export": found.export, "log": str(log), "rows": [asdict(it) for it in found.rows]})
        return
    print_title(f"{log}: each outcome if all users had one price")
    columns = ("price", "outcome", "effective", "ips", "low", "high", "dr", "low", "high")
    rows = [
        (it.price, it.outcome, round(it.effective), it.ips, it.ips_low, it.ips_high, it.dr, it.dr_low, it.dr_high)
        for it in found.rows
    ]
    print_table(columns, rows, numeric=columns[:1] + columns[2:])
    for it in found.rows:
        if it.refused:
            print_sentence(f"refused: {it.outcome} at price {it.price:g}: {it.refused}")
