"""recprism score-clicks: which of two interleaved lists users click more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._options import AsJson, ColumnMap
from recprism.cli._output import print_json, print_sentence, print_table, print_title
from recprism.cli._values import column_map


def score_clicks(
    lists: Annotated[Path, typer.Argument(metavar="FILE", help="The lists that `recprism interleave` wrote.")],
    clicks: Annotated[Path, typer.Option(help="user_id,item_id that were clicked.")],
    columns: ColumnMap = None,
    as_json: AsJson = False,
) -> None:
    """Score the clicks on interleaved lists.

    The command counts which team got more clicks from each user, and tests whether users prefer one of the two lists.

    Examples:

    - `recprism score-clicks mixed.parquet --clicks clicks.csv`
    """
    from recprism.data.readers.tables import TableReader
    from recprism.operate.interleave import preference, read_clicks, read_interleaved

    reader = TableReader(column_map(columns, ("user_id", "item_id", "team")))
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
