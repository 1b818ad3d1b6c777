"""recprism dials: the named weights of each user, and how far they carry the lists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title
from recprism.common.shares import percent

SHOWN = 20


def dials(
    run_directory: options.DiversifiedRun,
    user: Annotated[str | None, typer.Option(help="Show the dials of one user.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write all weights to a .csv or .parquet file.")
    ] = None,
    judged: options.Judged = False,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the dials: a few named weights per user that make an inner product return the lists.

    score = user . item + weights . categories. The command prints how many
    lists come back from the weights alone, and how much of the gain. Weights are shares of the user's score
    range. The dials are compiled from the rule for this report; `recprism export --form dials` writes them.

    Examples:

    - `recprism dials runs/x`
    - `recprism dials runs/x --user 17`
    - `recprism dials runs/x -o dials.csv`
    """
    from recprism.result.lists import rows_of
    from recprism.runs.jobs.dials import UNIT, dials_of
    from recprism.runs.run import Run
    from recprism.runs.tables import require_table_name, write_table

    require_table_name(output)
    run = Run.open(run_directory, name)
    found = dials_of(run, live=not judged)
    frame = found.dials.to_frame()
    if user is not None:
        own = rows_of(run.factors(), [user])  # refuses an unknown user
        frame = frame.filter(frame["user"].cast(str) == str(run.factors().user_ids[own][0]))
    if output is not None:
        write_table(frame, output)
    if as_json:
        rows = {} if user is None else {"dials": frame.to_dicts()}
        print_json({"run": str(run.path), "live": not judged, **found.to_dict(), **rows})
        return
    if user is not None:
        print_title(f"{run.argument}: the dials of user {user}, for {options.lists_in(judged)}")
        table = [
            (row["property"], f"{row['weight']:.4f}", percent(row["share"], ".1f", "%")) for row in frame.to_dicts()
        ]
        print_table(("dial", "weight", UNIT), table, numeric=("weight", UNIT))
        if not table:
            print_sentence("All dials of this user are 0: the list is that of the trained model.")
    else:
        print_title(f"{run.argument}: a few named weights per user, for {options.lists_in(judged)}")
        print_sentence(found.dials.sentence())
        by_dial = frame.drop("user").group_by("property")
        counted = by_dial.len().join(by_dial.mean(), on="property")
        table = [
            (row["property"], row["len"], percent(row["share"], ".1f", "%"))
            for row in counted.sort("len", "property", descending=[True, False]).head(SHOWN).to_dicts()
        ]
        print_table(("dial", "users", f"mean {UNIT}"), table, numeric=("users", f"mean {UNIT}"))
        facts = found.to_dict()
        words = {
            "lists_held": "changed lists that the weights return",
            "explained_swaps": "new items that the weights bring in",
            "explained_gain": f"gain of {found.objective} that the weights reach",
            "ndcg_change": "change of ndcg@10 with the weights",
            "wanted_ndcg_change": "change of ndcg@10 with the lists of the rule",
        }
        known = {it: facts[key] for key, it in words.items() if facts[key] is not None}  # live lists have no labels
        print_table(("figure", "value"), [(it, percent(value, ".1f", "%")) for it, value in known.items()])
    first = str(run.split().user_ids[0]) if user is None else user
    dial = next((it for it in run.categories().names if "=" not in it), None)
    if dial is not None and run.load_result().rule is not None:
        next_step(run.command("steer", user=first, set=f"{dial}=+0.2"))
