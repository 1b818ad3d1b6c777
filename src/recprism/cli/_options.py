"""From the words of the command line to checked configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from pydantic import ValidationError

from recprism.data.shares import Share, share
from recprism.errors import InputError
from recprism.runs.config import ColumnName, DataConfig, RunConfig, in_one_sentence

if TYPE_CHECKING:
    from recprism.data._categories import CategoryColumns
    from recprism.runs.sinks import Sink

Preset = Annotated[
    str, typer.Option(help="Cleaning of a named set: default (5 per user and item) or paper (10 and 5).")
]
Threshold = Annotated[str | None, typer.Option(help="Lowest rating that is a positive, or none.", show_default=False)]
MinUser = Annotated[int | None, typer.Option(help="Fewest positives of a user.", show_default=False)]
MinItem = Annotated[int | None, typer.Option(help="Fewest positives of an item.", show_default=False)]
ColumnMap = Annotated[
    list[str] | None,
    typer.Option("--column", help="Map a column of your files, as in user_id=userId; repeatable.", show_default=False),
]
SplitMethod = Annotated[str, typer.Option(help="random (8:1:1), paper (80/20), leave-last or temporal.")]
SubtopicTable = Annotated[
    str | None, typer.Option("--subtopics", help="Long table item_id,subtopic[,weight].", show_default=False)
]
ItemTable = Annotated[str | None, typer.Option("--items", help="Item table with a column item_id.", show_default=False)]
SubtopicColumn = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns of the item table with subtopics, with commas between or repeated; genre_* stands for several.",
        show_default=False,
    ),
]
SubtopicSeparator = Annotated[
    str | None,
    typer.Option(help="What stands between two subtopics of such a column.", show_default="found by itself"),
]
SubtopicLevel = Annotated[
    str | None,
    typer.Option(help="Of nested subtopics and paths (A > B): last, or path.", show_default="last"),
]

LIST_COLUMNS = ("user_id", "item_id", "rank", "subtopic", "weight")
"""What files of lists, and those beside them, have."""

Mlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow",
        metavar="URI",
        help="Log to this MLflow store as well, such as sqlite:///mlflow.db or http://HOST:5000 (extra [mlflow]).",
        show_default=False,
    ),
]

ResultName = Annotated[
    str | None,
    typer.Option("--name", help="Which result of the run, where it has several.", show_default="the unnamed one"),
]


def data_config(
    source: str,
    *,
    columns: list[str] | None = None,
    threshold: str | None = None,
    subtopic_column: list[str] | None = None,
    subtopic_separator: str | None = None,
    subtopic_level: str | None = None,
    **options: Any,
) -> DataConfig:
    """The data part of a configuration; ``columns`` are words such as ``user_id=userId``."""
    names = _subtopic_names(subtopic_column, subtopic_separator, subtopic_level)
    categories = {"subtopic_separator": subtopic_separator, "subtopic_level": subtopic_level}
    wanted = {name: value for name, value in {**options, **categories}.items() if value is not None}
    try:
        return DataConfig(
            source=source,
            threshold=_threshold(threshold),
            columns=column_map(columns, get_args(ColumnName)),  # type: ignore[arg-type]
            subtopic_column=list(names),
            **wanted,
        )
    except ValidationError as problem:
        raise InputError(in_one_sentence(problem)) from None


def run_config(**parts: Any) -> RunConfig:
    """A checked configuration of a run."""
    try:
        return RunConfig.model_validate(parts)
    except ValidationError as problem:
        raise InputError(in_one_sentence(problem)) from None


def refuse_given(options: Mapping[str, Any], why: str) -> None:
    """Options that have no meaning here are refused, not ignored; None and empty ones were not given."""
    given = [name for name, value in options.items() if value]
    if given:
        raise InputError(f"{given[0]} {why}; leave it out")


def column_map(words: list[str] | None, names: Sequence[str]) -> dict[str, str]:
    """Words such as ``user_id=userId``; names: what the files of the command have, anything else is refused."""
    mapped = key_values(words or [], "--column")
    for name, column in mapped.items():
        if name not in names:
            raise InputError(f"--column {name}={column}: unknown name {name!r}; map one of {', '.join(names)}")
    theirs = list(mapped.values())
    twice = next((column for column in theirs if theirs.count(column) > 1), None)
    if twice is not None:
        raise InputError(f"--column: {twice!r} is mapped to two names; one column has one meaning")
    return mapped


def category_columns(columns: list[str] | None, separator: str | None, level: str | None) -> CategoryColumns | None:
    """Where the categories of an item table are, or None."""
    from recprism.data._categories import CategoryColumns

    names = _subtopic_names(columns, separator, level)
    return CategoryColumns(names, separator, level or "last") if names else None  # type: ignore[arg-type]


def _subtopic_names(columns: list[str] | None, separator: str | None, level: str | None) -> tuple[str, ...]:
    names = tuple(comma_words(columns or []))
    if not names and (separator is not None or level is not None):
        raise InputError("--subtopic-separator and --subtopic-level are for a --subtopic-column; name one")
    return names


def comma_words(words: Sequence[str]) -> list[str]:
    """The words of options with commas between them; one that holds a comma stands in double quotes, as in CSV.

    >>> comma_words(['1,42', '"Smith, J.",7'])
    ['1', '42', 'Smith, J.', '7']
    """
    parts = (part for word in words for part in re.findall(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]+))', word))
    found = (bare.strip() or quoted.replace('""', '"') for quoted, bare in parts)
    return [word for word in found if word.strip()]


def key_values(words: list[str], option: str) -> dict[str, str]:
    """Words such as ``dim=64``."""
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {word}: write NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def typed_values(words: list[str], option: str) -> dict[str, Any]:
    """Words such as ``dim=64`` with numbers, true and false understood; anything else is text."""
    return {name: _typed(value) for name, value in key_values(words, option).items()}


def share_option(
    *names: str, help: str, low: float = 0.0, high: float = 1.0, show_default: bool | str = True
) -> typer.models.OptionInfo:
    """An option whose value is a share: 0.05 or 5%.

    Args:
        *names: As those of ``typer.Option``; none takes the parameter's name.
        help: The sentence of ``--help``.
        low: The least share allowed.
        high: The largest share allowed.
        show_default: As that of ``typer.Option``.
    """

    def read(word: Share) -> float:
        try:
            return share(word, low=low, high=high)
        except InputError as problem:
            raise typer.BadParameter(str(problem)) from None

    found: typer.models.OptionInfo = typer.Option(
        *names, help=help, parser=read, metavar="SHARE", show_default=show_default
    )
    return found


def metric_shares(words: list[str] | None, option: str, high: float = 1.0) -> dict[str, float]:
    """Words such as ``recall@20=2%``: a metric and a share above 0."""
    from recprism.metrics import parse

    found = key_values(words or [], option)
    for name in found:
        parse(name)
    return {name: share(value, f"{option} {name}", high=high, ends=False) for name, value in found.items()}


def _typed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _threshold(word: str | None) -> float | Literal["none"] | None:
    if word is None:
        return None
    if word == "none":
        return "none"
    try:
        return float(word)
    except ValueError:
        raise InputError(f"--threshold {word}: write a number, or none") from None


def mlflow_sink(uri: str | None) -> Sink | None:
    """Opened before any work begins: a wrong address is said at once."""
    if uri is None:
        return None
    from recprism.runs._mlflow_sink import MlflowSink

    return MlflowSink(uri)
