"""recprism interleave: base and diverse lists in one, and the score of its clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism._command_line import command_line
from recprism.cli._options import AsJson, ColumnMap, Judged, K, ListPart, ResultName, Seed, lists_in
from recprism.cli._output import print_json, print_sentence, print_table, print_title, say
from recprism.cli._values import column_map
from recprism.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def interleave(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="A diversified run, to write its lists; or the file written, to score clicks."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="For a run: the .csv or .parquet file to write.")
    ] = None,
    clicks: Annotated[Path | None, typer.Option(help="For a file: user_id,item_id that were clicked.")] = None,
    k: K = 10,
    judged: Judged = False,
    part: ListPart = None,
    columns: ColumnMap = None,
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Mix base and diverse lists into one, and score the clicks.

    Team-draft interleaving is a test in which every user sees both lists. For a run, the command writes user_id,
    item_id, rank and team: serve the lists and keep the team. For that file, --clicks counts which team got more
    clicks from each user, and tests whether users prefer one. It needs far fewer users than an A/B test. It shows
    which list people choose from, not how much more they would choose.

    Examples:

    - `recprism interleave runs/x -o mixed.parquet`
    - `recprism interleave mixed.parquet --clicks clicks.csv`
    """
    if target.is_dir():
        if output is None:
            raise InputError("for a run, the command writes lists: name a file with -o")
        from recprism.deploy.interleave import interleaved
        from recprism.runs.jobs.train import part_named
        from recprism.runs.run import Run

        lists = interleaved(Run.open(target, name), k, part=part_named(part or "test"), live=not judged, seed=seed)
        made = {"k": k, "live": not judged, "part": part or "test" if judged else None, "seed": seed}
        _write(lists, output, made, as_json)
    else:
        if clicks is None:
            raise InputError(f"{target}: for a file of lists, the command scores clicks: name them with --clicks")
        _score(target, clicks, column_map(columns, ("user_id", "item_id", "team")), as_json)


def _write(lists: pl.DataFrame, output: Path, made: dict[str, Any], as_json: bool) -> None:
    from recprism.runs._tables import write_table

    write_table(lists, output)
    places = {team: int((lists["team"] == team).sum()) for team in sorted(lists["team"].unique().to_list())}
    if as_json:
        print_json({"path": str(output), "lists": lists["user_id"].n_unique(), **made, "places": places})
        return
    teams = ", ".join(f"{count:,} places of team {team}" for team, count in places.items())
    context = lists_in(not made["live"], made["part"] or "test")
    kind = f"{lists['user_id'].n_unique():,} lists of up to {made['k']} items ({context})"
    print_sentence(f"{kind} -> {output}: {teams}")
    say(f"when there are clicks (user_id,item_id), score them: {command_line('interleave', output, clicks='FILE')}")


def _score(lists: Path, clicks: Path, columns: dict[str, str], as_json: bool) -> None:
    from recprism.data._readers.tables import TableReader
    from recprism.deploy.interleave import preference, read_clicks, read_interleaved

    reader = TableReader(columns)
    mixed, clicked = read_interleaved(lists, reader), read_clicks(clicks, reader)
    reader.require_used()
    found = preference(mixed, clicked)
    if as_json:
        print_json(found.to_dict())
        return
    rows = [(team, found.credit[team], found.votes[team]) for team in found.votes]
    print_title(f"clicks of {clicks} on the lists of {lists}")
    print_table(("team", "clicks", "users"), rows, numeric=("clicks", "users"))
    print_sentence(f"{found.ties:,} users clicked as much on both; {found.ignored:,} clicks are on what no list shows")
    print_sentence(found.sentence())
