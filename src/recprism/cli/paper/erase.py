"""recprism erase: does the ranking of features predict what erasing them does?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli._options import AsJson, DiversifiedRun, OwnGoal, Part, ResultName, Seed, share_option
from recprism.cli._output import (
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
)
from recprism.data.shares import percent
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.explain.factors.controls import Controls
    from recprism.explain.factors.erasure import Erasure
    from recprism.runs.jobs.erasure import ErasureReport


def erase(
    run_directory: DiversifiedRun,
    goal: OwnGoal = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="How many features to erase, with commas between.", show_default="5,10"),
    ] = None,
    curve: Annotated[bool, typer.Option("--curve", help="Show the whole curve, from no feature to all.")] = False,
    draws: Annotated[int, typer.Option(help="Draws of each random erasure.", min=1)] = 20,
    controls: Annotated[int, typer.Option(help="Draws of each control; 0 runs none.", min=0)] = 199,
    part: Part = "test",
    held_out_users: Annotated[
        float,
        share_option(help="Search again without this share of the users, and judge on them.", high=0.9),
    ] = 0.0,
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Erase features of a change and measure what is left of the gain.

    The command erases the largest, the smallest and random features. Erasing the largest takes the most away in any
    case. So "matched" erases as much at random: only what "top" takes back beyond "matched" supports the ranking of
    features. The controls follow, with a verdict on whether the factors explain anything.

    Examples:

    - `recprism erase runs/x`
    - `recprism erase runs/x --goal catalogue_coverage@10 --held-out-users 20% --json`
    """
    from recprism.runs.jobs.erasure import erase_run, shown_features
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    counts = None if features is None else _numbers(features)
    with progress_of_steps() as show:
        found = erase_run(
            run,
            goal,
            features=counts,
            draws=draws,
            controls=controls,
            part=part_named(part),
            held_out=held_out_users,
            seed=seed,
            on_step=show,
        )
    if as_json:
        print_json({"run": str(run_directory), **found.to_dict()})
        return
    everything = [int(n) for n in found.erasure.features]
    spoken_of = shown_features(everything[-1], counts)
    print_title(f"{run.argument}: what is left of the gain in {found.objective}, on the {part} part")
    _print(found, everything if curve else spoken_of, spoken_of[0])
    next_step(f"recprism explain {run.argument}", f"recprism evaluate {run.argument}")


def _numbers(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise InputError(f"--features {words}: write whole numbers with commas between, as in 5,10") from None


def _print(found: ErasureReport, counts: list[int], spoken_of: int) -> None:
    _print_erasure(found.erasure, counts)
    if found.controls is not None:
        _print_controls(found.controls)
    if found.held_out is not None:
        print_sentence(f"judged on {found.held_out:,} users whom the perturbation never saw")
    print_sentence(found.parts.sentence(found.objective))
    print_sentence(found.erasure.sentence("individual", spoken_of))
    print_sentence(found.erasure.sentence("shared", spoken_of))
    if found.verdict is not None:
        print_sentence(found.verdict.sentence())


def _print_erasure(erasure: Erasure, counts: list[int]) -> None:
    """Print every metric, and the share of the gain in the goal that is left."""
    from recprism.explain.factors.erasure import BY, WHICH

    rows = {(row["by"], row["which"], row["features"], row["metric"]): row for row in erasure.rows()}
    ends = [("", name, None, *values, None) for name, values in (("base", erasure.base), ("learned", erasure.learned))]
    table = [
        (
            *(by, which, n),
            *(rows[by, which, n, metric]["value"] for metric in erasure.metrics),
            percent(rows[by, which, n, erasure.objective]["remaining"], ".0f", "%"),
        )
        for by in BY
        for n in counts
        for which in WHICH
    ]
    columns = ("by", "erased", "features", *erasure.metrics, "gain left")
    print_table(columns, [*((*row[:3], *map(_plain, row[3:])) for row in ends), *table], numeric=columns[2:])


def _print_controls(controls: Controls) -> None:
    base = ("base", *controls.base, None, None)
    rows = [(row["control"], row["objective"], row["cost"], _range(row), row["p_value"]) for row in controls.rows()]
    columns = ("control", controls.objective, controls.cost, "95 % of draws", "p")
    print_table(columns, [base, *rows], numeric=columns[1:])


def _range(row: dict[str, float | None]) -> str:
    return "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"


def _plain(value: float | None) -> float | None:
    return None if value is None else float(value)
