"""recprism data: named data sets, their counts, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import Command, Group, given
from recprism.cli._output import (
    download_columns,
    next_step,
    print_facts,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_bar,
    say,
    stdout,
)
from recprism.cli._values import data_config, run_config
from recprism.common.command_line import command_line

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="List, describe, count and download data sets.", rich_markup_mode="markdown"
)


@app.command("list", cls=Command)
def list_sets(data_root: options.DataRoot = None, as_json: options.AsJson = False) -> None:
    """List the named data sets and where they are.

    Examples:

    - `recprism data list`
    - `recprism data list --data-root ~/data`
    """
    from recprism.data.datasets import NAMED, locate

    rows = []
    for name, known in NAMED.items():
        source = locate(name, data_root)
        here = "embedded" if source is None and name == "ml-latest-small" else source and str(source.path)
        rows.append({"name": name, "title": known.title, "here": here or None, "can_fetch": bool(known.downloads)})
    if as_json:
        print_json(rows)
        return
    print_table(
        ("name", "what it is", "where"), [(row["name"], row["title"], row["here"] or "not here") for row in rows]
    )
    next_step(command_line("data stats", "ml-latest-small", data_root=data_root))


@app.command(cls=Command)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A named data set.")], as_json: options.AsJson = False
) -> None:
    """Show where a data set comes from and its licence.

    For the embedded data set the command also prints the publisher's README.

    Examples:

    - `recprism data show ml-latest-small`
    """
    from recprism.data.datasets import find_named, locate
    from recprism.data.readers.movielens import embedded_readme

    known = find_named(name.partition(":")[0])
    readme = embedded_readme() if name == "ml-latest-small" else None
    facts = {
        "name": name,
        "title": known.title,
        "licence": known.licence,
        "addresses": [address for address, _ in known.downloads],
    }
    if as_json:
        print_json({**facts, "readme": readme})
        return
    print_facts(facts)
    if readme is not None:
        stdout.print("\n" + readme, markup=False, highlight=False)
    if name == "ml-latest-small" or locate(name) is not None:
        next_step(command_line("data stats", name))
    elif known.downloads and (":" in name or not known.needs_variant):
        next_step(command_line("data fetch", name))


@app.command(cls=Command)
def stats(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="DATA", help="A named data set, or a table of interactions.")],
    preset: options.Preset = "default",
    threshold: options.Threshold = None,
    min_user: options.MinUser = None,
    min_item: options.MinItem = None,
    columns: options.ColumnMap = None,
    categories: options.CategoryTable = None,
    items: options.ItemTable = None,
    category_column: options.CategoryColumn = None,
    category_separator: options.CategorySeparator = None,
    category_level: options.CategoryLevel = None,
    split: options.SplitMethod = "random",
    seed: options.Seed = 0,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Count users, items and interactions after cleaning, and in each part of the split.

    The options are those of `recprism train`: the counts are what a run would hold.

    Examples:

    - `recprism data stats ml-1m --preset paper --data-root ~/data --json`
    - `recprism data stats my.csv --column user_id=userId --items movies.csv --category-column genres`
    """
    from recprism.runs.jobs.train import divided

    config = data_config(
        source,
        preset=preset,
        threshold=threshold,
        min_user=min_user,
        min_item=min_item,
        columns=columns,
        categories=categories,
        items=items,
        category_column=category_column,
        category_separator=category_separator,
        category_level=category_level,
        data_root=data_root,
    )
    dataset, parts = divided(run_config(seed=seed, data=config, split={"method": split}))
    sizes = {"train": len(parts.train), "validation": len(parts.validation), "test": len(parts.test)}
    counted = {**dataset.stats(), "split": sizes}
    if as_json:
        print_json({**counted, "category_summary": dataset.category_summary.to_dict()})
        return
    print_title(f"{source}, after cleaning")
    print_facts(counted)
    print_sentence(f"categories: {dataset.category_summary.sentence()}")
    if warning := dataset.category_summary.warning():
        say(f"warning: {warning}")
    next_step(command_line("train", data=source, **given(context)))


@app.command(cls=Command)
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A named data set, as in ml-1m or amazon:CDs_and_Vinyl.")],
    data_root: options.DataRoot = None,
    mirror: Annotated[str | None, typer.Option(help="Download from this address instead of the publisher's.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Download a data set from its publisher and check it.

    The files are kept under the data root. No other command downloads anything.

    Examples:

    - `recprism data fetch ml-1m --data-root ~/data`
    """
    from recprism.data.datasets import data_roots, find_named
    from recprism.data.readers.fetch import downloads, fetch, size_of

    folder = Path(data_roots(data_root)[0])
    wanted = downloads(name, mirror=mirror)
    say(f"licence: {find_named(name.partition(':')[0]).licence}")
    done = []
    for download in wanted:
        size = size_of(download)
        say(f"{download.address} ({'size unknown' if size is None else f'{size / 2**20:.1f} MiB'}) -> {folder}")
        with progress_bar(*download_columns()) as progress:
            task = progress.add_task(download.file_name, total=size)
            fetched = fetch(download, folder, lambda got, _, task=task: progress.update(task, completed=got))  # type: ignore[misc]
        check = "checksum agrees" if fetched.verified else "the publisher gives no checksum"
        if not as_json:
            print_sentence(f"kept {fetched.path} ({fetched.size:,} bytes; {check})")
        done.append({"path": str(fetched.path), "bytes": fetched.size, "verified": fetched.verified})
    if as_json:
        print_json(done)
    next_step(command_line("data stats", name, data_root=data_root))
