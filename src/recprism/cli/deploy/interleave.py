"""recprism interleave: base and swapped lists in one, and what clicks on it say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli._options import ColumnMap, ResultName, column_map, refuse_given
from recprism.cli._output import AsJson, Seed, next_step, print_json, print_sentence, print_table, print_title
from recprism.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def interleave(
    target: Annotated[
        Path, typer.Argument(help="A diversified run, to write its lists; or the file written, to score clicks.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Of a run: the .csv or .parquet file to write.", show_default=False),
    ] = None,
    clicks: Annotated[
        Path | None, typer.Option(help="Of a file: user_id,item_id that were clicked.", show_default=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Length of the lists.", min=1)] = 10,
    part: Annotated[
        str | None,
        typer.Option(
            help="test hides training and validation items, validation only training items.", show_default="test"
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Lists to serve: all known items are hidden, those of the test part too.")
    ] = False,
    columns: ColumnMap = None,
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Team-draft interleaving of base and swapped lists: a test in which every user sees both.

    Of a run, writes user_id, item_id, rank and team: serve the lists, keep the team. Of that file, --clicks counts for
    every user which team got more clicks, and tests whether users prefer one. It needs far fewer users than two arms;
    it says which list people choose from, not how much they would choose.

    Examples:

    - `recprism interleave runs/x --live -o mixed.parquet`
    - `recprism interleave mixed.parquet --clicks clicks.csv`
    """
    if target.is_dir():
        if output is None or clicks is not None:
            raise InputError("of a run, lists are written: name a file with -o, without --clicks")
        refuse_given({"--column": columns}, "is for files of lists and clicks, and this is a run")
        if live and part is not None:
            raise InputError("--live hides the items of all parts: omit --part")
        from recprism.deploy.interleave import interleaved
        from recprism.runs.jobs.train import part_named
        from recprism.runs.run import Run

        lists = interleaved(Run.open(target, name), k, part=part_named(part or "test"), live=live, seed=seed)
        _write(lists, output, k, as_json)
    else:
        if name is not None or live:
            option = "--live" if name is None else "--name"
            raise InputError(f"{option} is for the lists of a run, and {target} is no run: omit it")
        if clicks is None or output is not None:
            raise InputError(f"{target}: of a file of interleaved lists, clicks are scored: name them with --clicks")
        _score(target, clicks, column_map(columns, ("user_id", "item_id", "team")), as_json)


def _write(lists: pl.DataFrame, output: Path, k: int, as_json: bool) -> None:
    from recprism.runs._tables import write_table

    write_table(lists, output)
    places = {team: int((lists["team"] == team).sum()) for team in sorted(lists["team"].unique().to_list())}
    if as_json:
        print_json({"path": str(output), "lists": lists["user_id"].n_unique(), "k": k, "places": places})
        return
    told = ", ".join(f"{count:,} places of team {team}" for team, count in places.items())
    print_sentence(f"{lists['user_id'].n_unique():,} lists of up to {k} items -> {output}: {told}")
    next_step(f"recprism interleave {output} --clicks clicks.csv")


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
