"""recprism features: named features from reviews, from tuples of other tools, or from an attribute table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli._values import column_map
from recprism.common.command_line import command_line
from recprism.common.shares import percent
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.cmb.text.feature_folder import FeatureTables


def features(
    reviews: Annotated[
        Path | None, typer.Argument(metavar="REVIEWS", help="Amazon reviews, one JSON object a line, plain or .gz.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the tables.")] = Path("features"),
    tuples: Annotated[
        Path | None,
        typer.Option(help="Instead of reviews: user,item,feature,sentiment as CSV, TSV, Parquet or JSON lines."),
    ] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(help="Instead of reviews: an item table; numbers are scaled, categories become one-hot."),
    ] = None,
    columns: Annotated[options.ColumnMap, With("tuples", "attributes")] = None,
    top: Annotated[
        int, typer.Option(help="Reviews, tuples: how many features to keep."), With("reviews", "tuples")
    ] = 100,
    clusters: Annotated[
        int,
        typer.Option(help="Reviews, tuples: number of categories, which are clusters of features."),
        With("reviews", "tuples"),
    ] = 12,
    min_mentions: Annotated[int, typer.Option(help="Reviews: the fewest mentions of a feature."), With("reviews")] = 5,
    max_share: Annotated[
        float,
        options.share_option(help="Reviews: a word in a larger share of them is their category, not a feature."),
        With("reviews"),
    ] = 0.3,
    show: Annotated[
        int, typer.Option(help="Reviews, tuples: how many features to print."), With("reviews", "tuples")
    ] = 20,
    as_json: options.AsJson = False,
) -> None:
    """Extract named item features from reviews or item tables.

    From reviews the command takes frequent nouns and noun phrases with opinion words near them, and the sentiment of
    every mention (needs `pip install 'recprism[text]'`). It writes these Parquet files to the folder:

    * `mentions`: user_id, item_id, feature, sentiment (-1 to 1)
    * `item_features`, `user_features`: the matrices of the Explicit Factor Model; 1 to 5, 0 where never mentioned
    * `interactions`: user_id, item_id[, rating, timestamp], ready for `recprism train`
    * `categories`: item_id, category. Reviews carry no categories: these are clusters of features, listed in `clusters`
    * `features`: each feature with its mentions, the share of praise, and an example

    The matrices use all reviews. To judge a model, build them from the training part alone
    (`recprism.cmb.text.efm.mentions_of_pairs`): a test review reveals its author.

    Examples:

    - `recprism features reviews.json.gz -o features`
    - `recprism features --tuples found.csv --top 50`
    - `recprism features --attributes items.csv`
    """
    given = {"REVIEWS": reviews, "--tuples": tuples, "--attributes": attributes}
    if sum(path is not None for path in given.values()) != 1:
        raise InputError(f"name one source of features: a file of reviews, --tuples or --attributes ({_named(given)})")
    if attributes is not None:
        _from_attributes(attributes, output, column_map(columns, ("item_id",)), as_json)
        return
    if reviews is not None:
        found = _from_reviews(reviews, clusters, top=top, min_mentions=min_mentions, max_share=max_share)
    else:
        from recprism.cmb.text.feature_folder import tables_of_tuples

        mapped = column_map(columns, ("user_id", "item_id", "feature", "sentiment"))
        found = tables_of_tuples(str(tuples), top=top, clusters=clusters, columns=mapped)
    _report(found, found.write(output), show, as_json)


def _from_reviews(path: Path, clusters: int, **settings: Any) -> FeatureTables:
    from recprism.cmb.text.aspects import AspectSettings
    from recprism.cmb.text.feature_folder import tables_of_reviews

    with progress_of_steps() as on_step:
        return tables_of_reviews(path, AspectSettings(**settings), clusters=clusters, on_step=on_step)


def _from_attributes(path: Path, output: Path, columns: dict[str, str], as_json: bool) -> None:
    from recprism.cmb.text.feature_files import features_to_frame, read_attributes
    from recprism.cmb.text.feature_folder import write_tables

    found = read_attributes(path, columns=columns)
    written = write_tables({"item_features": features_to_frame(found.features)}, output)
    for name, values in found.left_out.items():
        say(f"left out: column {name!r} has {values:,} different values, too many for a category")
    facts = {"items": len(found.features.ids), "features": list(found.features.names), "left_out": found.left_out}
    if as_json:
        print_json({**facts, "files": _as_text(written)})
    else:
        means = found.features.values.mean(0).tolist()
        print_title(f"features of {path}")
        print_table(("feature", "mean"), list(zip(found.features.names, means, strict=True)), numeric=("mean",))
        print_sentence(f"{len(found.features.ids):,} items in {written['item_features']}")
    say("examples/raw_features.py in the repository shows a model on such features")


def _report(found: FeatureTables, written: dict[str, Path], show: int, as_json: bool) -> None:
    counts = {name: table.height for name, table in found.tables.items()}
    if as_json:
        print_json({"features": found.features.head(show).to_dicts(), "rows": counts, "files": _as_text(written)})
    else:
        rows = [
            (row["feature"], row["mentions"], percent(row["positive"], ".0f", "%"), row["example"])
            for row in found.features.head(show).iter_rows(named=True)
        ]
        print_title(f"the {len(rows)} features with most mentions")
        print_table(("feature", "mentions", "praise", "example"), rows, numeric=("mentions", "praise"))
        folder = written["features"].parent
        print_sentence(f"{counts['mentions']:,} mentions of {found.features.height} features in {folder}")
    paths = {"data": written["interactions"], "categories": written.get("categories")}
    next_step(command_line("train", **paths, threshold="none"))


def _as_text(paths: dict[str, Path]) -> dict[str, str]:
    return {name: str(path) for name, path in paths.items()}


def _named(given: dict[str, Path | None]) -> str:
    return " and ".join(f"{name} {path}" for name, path in given.items() if path is not None) or "none was named"
