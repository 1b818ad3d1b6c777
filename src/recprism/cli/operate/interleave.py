"""recprism interleave: base and diverse lists in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._options import AsJson, DiversifiedRun, Judged, K, ListPart, ResultName, Seed, lists_in
from recprism.cli._output import print_json, print_sentence, say
from recprism.common.command_line import command_line


def interleave(
    run_directory: DiversifiedRun,
    output: Annotated[Path, typer.Option("-o", "--output", help="The .csv or .parquet file to write.")],
    k: K = 10,
    judged: Judged = False,
    part: ListPart = None,
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Mix base and diverse lists into one.

    Team-draft interleaving is a test in which every user sees both lists. The command writes user_id, item_id, rank and
    team. Serve the lists, keep the team, and give the clicks to `recprism score-clicks`. The test needs far fewer users
    than an A/B test. It shows which list people choose from, not how much more they would choose.

    Examples:

    - `recprism interleave runs/x -o mixed.parquet`
    - `recprism interleave runs/x -k 20 --name bold -o mixed.csv`
    """
    from recprism.operate.interleave import interleaved
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run
    from recprism.runs.tables import write_table

    shown = part or "test"
    lists = interleaved(Run.open(run_directory, name), k, part=part_named(shown), live=not judged, seed=seed)
    write_table(lists, output)
    places = {team: int((lists["team"] == team).sum()) for team in sorted(lists["team"].unique().to_list())}
    if as_json:
        made = {"k": k, "live": not judged, "part": shown if judged else None, "seed": seed}
        print_json({"path": str(output), "lists": lists["user_id"].n_unique(), **made, "places": places})
        return
    teams = ", ".join(f"{count:,} places of team {team}" for team, count in places.items())
    kind = f"{lists['user_id'].n_unique():,} lists of up to {k} items ({lists_in(judged, shown)})"
    print_sentence(f"{kind} -> {output}: {teams}")
    say(f"when there are clicks (user_id,item_id), score them: {command_line('score-clicks', output, clicks='FILE')}")
