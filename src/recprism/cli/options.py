"""From the words of the command line to checked configurations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import ValidationError

from recprism.errors import InputError
from recprism.study.config import DataConfig, in_one_sentence

if TYPE_CHECKING:
    from recprism.study.sinks import Sink

Preset = Annotated[
    str, typer.Option(help="Cleaning of a named set: default (5 per user and item) or paper (10 and 5).")
]
Threshold = Annotated[str | None, typer.Option(help="Lowest rating that is a positive, or none.", show_default=False)]
MinUser = Annotated[int | None, typer.Option(help="Fewest positives of a user.", show_default=False)]
MinItem = Annotated[int | None, typer.Option(help="Fewest positives of an item.", show_default=False)]
ColumnMap = Annotated[
    list[str] | None,
    typer.Option("--column", help="Map a column of your file, as in user_id=userId; repeatable.", show_default=False),
]
SubtopicTable = Annotated[
    str | None, typer.Option("--subtopics", help="Long table item_id,subtopic[,weight].", show_default=False)
]
ItemTable = Annotated[str | None, typer.Option("--items", help="Item table with a column item_id.", show_default=False)]
SubtopicColumn = Annotated[
    str | None, typer.Option(help="Delimited subtopic column of the item table.", show_default=False)
]
SubtopicSeparator = Annotated[str, typer.Option(help="What stands between two subtopics of that column.")]

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

COLUMN_KEYS = {
    "user_id": "user_column",
    "item_id": "item_column",
    "rating": "rating_column",
    "timestamp": "timestamp_column",
}


def data_config(
    source: str, *, columns: list[str] | None = None, threshold: str | None = None, **options: Any
) -> DataConfig:
    """The data part of a configuration; ``columns`` are words such as ``user_id=userId``."""
    mapped = {}
    for name, column in key_values(columns or [], "--column").items():
        if name not in COLUMN_KEYS:
            raise InputError(f"--column {name}={column}: unknown name {name!r}; map one of {', '.join(COLUMN_KEYS)}")
        mapped[COLUMN_KEYS[name]] = str(column)
    wanted = {name: value for name, value in {**options, **mapped}.items() if value is not None}
    try:
        return DataConfig(source=source, threshold=_threshold(threshold), **wanted)
    except ValidationError as problem:
        raise InputError(in_one_sentence(problem)) from None


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


def shares(words: list[str], option: str) -> dict[str, float]:
    """Words such as ``recall@20=0.02``: a metric and a share between 0 and 1."""
    from recprism.metrics import parse

    found = {}
    for name, value in key_values(words, option).items():
        parse(name)
        try:
            found[name] = float(value)
        except ValueError:
            raise InputError(f"{option} {name}={value}: write a share such as 0.02") from None
        if not 0 < found[name] < 1:
            raise InputError(f"{option} {name}={value}: a share lies between 0 and 1, as in 0.02 for 2 %")
    return found


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
    from recprism.study.mlflow_sink import MlflowSink

    return MlflowSink(uri)
