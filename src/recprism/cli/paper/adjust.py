"""recprism adjust: turn factors of a perturbation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._options import ResultName, key_values
from recprism.cli._output import AsJson, next_step, print_json, print_table, print_title
from recprism.errors import InputError


def adjust(
    run_directory: Annotated[Path, typer.Argument(help="A run whose item vectors were diversified.")],
    factor: Annotated[
        list[str],
        typer.Option("-f", "--factor", help="NUMBER=AMOUNT: 0 erases what was learned for it, 1 keeps, 2 doubles."),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            "-m", "--metrics", help="What to show, as in ndcg@10,subtopic_coverage@10.", show_default="a dozen at 10"
        ),
    ] = None,
    part: Annotated[str, typer.Option(help="Judge on validation or on test.")] = "validation",
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Turn the dial of single factors, and see what it does to every metric; the run stays as it is.

    Example: `recprism adjust runs/x -f 12=0 -f 3=2`
    """
    from recprism.cmb.cmb import adjust_factors
    from recprism.runs.jobs.train import metric_names, part_named
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    result = run.diversified()
    found = adjust_factors(
        result.base,
        result.change,
        _dial(factor),
        run.split(),
        run.subtopics(),
        metric_names(metrics),
        part=part_named(part),
    )
    if as_json:
        print_json({"run": str(run.path), "change": found.change.to_dict()})
        return
    print_title(f"{run.path} with factors turned by hand, on the {part} part")
    rows = [
        (row.name, row.a, row.b, "" if row.relative is None else f"{row.relative:+.1%}", row.p_value)
        for row in found.change.rows
    ]
    columns = ("metric", "as learned", "turned", "change", "p")
    print_table(columns, rows, numeric=columns[1:])
    next_step(f"recprism evaluate {run.argument}")


def _dial(words: list[str]) -> dict[int, float]:
    try:
        return {int(name): float(value) for name, value in key_values(words, "--factor").items()}
    except ValueError:
        raise InputError(f"--factor {' '.join(words)}: write NUMBER=AMOUNT, as in 12=0.5") from None
