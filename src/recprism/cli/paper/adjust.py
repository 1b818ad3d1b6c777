"""recprism adjust: scale factors of a perturbation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._options import AsJson, Metrics, Part, ResultName, run_argument
from recprism.cli._output import next_step, print_json, print_table, print_title
from recprism.cli._values import finite_number, numbered_values
from recprism.data.shares import percent


def adjust(
    run_directory: Annotated[Path, run_argument("A run whose item vectors were changed.")],
    factor: Annotated[
        list[str],
        typer.Option(
            "-f",
            "--factor",
            metavar="NUMBER=AMOUNT",
            help="A factor and its scale: 0 erases what was learned for it, 1 keeps it, 2 doubles it. Repeatable.",
        ),
    ],
    metrics: Metrics = None,
    part: Part = "validation",
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Scale single factors of a change and measure the effect.

    The command measures every metric before and after. The run itself stays as it is.

    Examples:

    - `recprism adjust runs/x -f 12=0 -f 3=2`
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
    rows = [(row.name, row.a, row.b, percent(row.relative, "+.1f", "%"), row.p_value) for row in found.change.rows]
    columns = ("metric", "as learned", "turned", "change", "p")
    print_table(columns, rows, numeric=columns[1:])
    next_step(f"recprism evaluate {run.argument}")


def _dial(words: list[str]) -> dict[int, float]:
    form = "NUMBER=AMOUNT, as in 12=0.5"
    pairs = numbered_values(words, "--factor", form)
    return {number: finite_number(amount, f"--factor {number}={amount}", form) for number, amount in pairs.items()}
