"""From the words of the command line to checked values and configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import ValidationError

from recprism.data.shares import share
from recprism.errors import InputError
from recprism.runs.config import ColumnName, DataConfig, RunConfig, in_one_sentence

if TYPE_CHECKING:
    from recprism.data._categories import CategoryColumns
    from recprism.runs.sinks import Sink

LIST_COLUMNS = ("user_id", "item_id", "rank", "subtopic", "weight")
"""The columns of files of lists and of the files that describe them."""


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
    """Build the data part of a configuration.

    Args:
        source: A named data set, or a table of interactions.
        columns: Words such as ``user_id=userId``.
        threshold: A number, or ``none``.
        subtopic_column: Columns of the item table with subtopics.
        subtopic_separator: The text between two subtopics of such a column.
        subtopic_level: ``last`` or ``path``.
        **options: Further fields of the configuration; None means not given.
    """
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
    """Build a checked configuration of a run."""
    try:
        return RunConfig.model_validate(parts)
    except ValidationError as problem:
        raise InputError(in_one_sentence(problem)) from None


def column_map(words: list[str] | None, names: Sequence[str]) -> dict[str, str]:
    """Read words such as ``user_id=userId``.

    Args:
        words: The values of ``--column``.
        names: The columns of the command's files; any other name is refused.

    Returns:
        Our name of each column -> the name in the files.
    """
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
    """Name the columns of an item table that hold categories; None if there are none."""
    from recprism.data._categories import CategoryColumns

    names = _subtopic_names(columns, separator, level)
    return CategoryColumns(names, separator, level or "last") if names else None  # type: ignore[arg-type]


def _subtopic_names(columns: list[str] | None, separator: str | None, level: str | None) -> tuple[str, ...]:
    names = tuple(comma_words(columns or []))
    if not names and (separator is not None or level is not None):
        raise InputError("--subtopic-separator and --subtopic-level are for a --subtopic-column; name one")
    return names


def comma_words(words: Sequence[str]) -> list[str]:
    """Split options at commas; a word with a comma is written in double quotes, as in CSV.

    >>> comma_words(['1,42', '"Smith, J.",7'])
    ['1', '42', 'Smith, J.', '7']
    """
    parts = (part for word in words for part in re.findall(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]+))', word))
    found = (bare.strip() or quoted.replace('""', '"') for quoted, bare in parts)
    return [word for word in found if word.strip()]


def key_values(words: list[str], option: str) -> dict[str, str]:
    """Read words such as ``dim=64`` as text."""
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {word}: write NAME=VALUE")
        if name.strip() in pairs:
            raise InputError(f"{option} {name.strip()} is given twice; give it once")
        pairs[name.strip()] = value.strip()
    return pairs


def typed_values(words: list[str] | None, option: str) -> dict[str, Any]:
    """Read words such as ``dim=64`` with numbers, true and false as values; anything else is text."""
    return {name: _typed(value) for name, value in key_values(words or [], option).items()}


def shares_by_name(words: list[str] | None, option: str) -> dict[str, float]:
    """Read words such as ``Drama=20%``."""
    return {name: share(value, f"{option} {name}") for name, value in key_values(words or [], option).items()}


def metric_shares(words: list[str] | None, option: str, high: float = 1.0) -> dict[str, float]:
    """Read words such as ``recall@20=2%``.

    Returns:
        Metric -> share above 0. Aliases are written out, and a name without a cut means the first 10 places.
    """
    from recprism.metrics.registry import metric_name

    found: dict[str, float] = {}
    for name, value in key_values(words or [], option).items():
        metric = metric_name(name)
        if metric in found:
            raise InputError(f"{option}: {name} is {metric}, which is given twice; give it once")
        found[metric] = share(value, f"{option} {name}", high=high, ends=False)
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
    """Open the store before any work begins, so that a wrong address is refused at once."""
    if uri is None:
        return None
    from recprism.runs._mlflow_sink import MlflowSink

    return MlflowSink(uri)
