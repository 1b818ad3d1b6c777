"""From the words of the command line to checked values and configurations."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import ValidationError

from recprism.common.shares import share
from recprism.errors import InputError
from recprism.runs.config import ColumnName, DataConfig, RunConfig, in_one_sentence

if TYPE_CHECKING:
    from recprism.data.readers.categories import CategoryColumns
    from recprism.runs.sinks import Sink

NDCG = "ndcg@10"
LIST_COLUMNS = ("user_id", "item_id", "rank", "category", "weight")
"""The columns of files of lists and of the files that describe them."""


def data_config(
    source: str,
    *,
    columns: list[str] | None = None,
    threshold: str | None = None,
    category_column: list[str] | None = None,
    category_separator: str | None = None,
    category_level: str | None = None,
    **options: Any,
) -> DataConfig:
    """Build the data part of a configuration.

    Args:
        source: A named data set, or a table of interactions.
        columns: Words such as ``user_id=userId``.
        threshold: A number, or ``none``.
        category_column: Columns of the item table with categories.
        category_separator: The text between two categories of such a column.
        category_level: ``last`` or ``path``.
        **options: Further fields of the configuration; None means not given.
    """
    names = _category_names(category_column)
    categories = {"category_separator": category_separator, "category_level": category_level}
    wanted = {name: value for name, value in {**options, **categories}.items() if value is not None}
    try:
        return DataConfig(
            source=source,
            threshold=_threshold(threshold),
            columns=column_map(columns, get_args(ColumnName)),  # type: ignore[arg-type]
            category_column=list(names),
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


def columns_of_categories(
    columns: list[str] | None, separator: str | None, level: str | None
) -> CategoryColumns | None:
    """Name the columns of an item table that hold categories; None if there are none."""
    from recprism.data.readers.categories import CategoryColumns

    names = _category_names(columns)
    return CategoryColumns(names, separator, level or "last") if names else None  # type: ignore[arg-type]


def _category_names(columns: list[str] | None) -> tuple[str, ...]:
    return tuple(comma_words(columns or [], "--category-column"))


def comma_words(words: Sequence[str], option: str) -> list[str]:
    """Split the values of an option at commas; a word with a comma is written in double quotes, as in CSV.

    Args:
        words: The values.
        option: Its name; an option that was given and holds no word is refused.

    >>> comma_words(['1,42', '"Smith, J.",7'], "--users")
    ['1', '42', 'Smith, J.', '7']
    """
    parts = (part for word in words for part in re.findall(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]+))', word))
    found = (bare.strip() or quoted.replace('""', '"') for quoted, bare in parts)
    split = [word for word in found if word.strip()]
    if words and not split:
        raise InputError(f"{option} is empty; write words with commas between, or omit it")
    return split


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
    """Read words such as ``dim=64`` with numbers, true, false and none as values; anything else is text."""
    return {name: _typed(value) for name, value in key_values(words or [], option).items()}


def shares_by_name(words: list[str] | None, option: str) -> dict[str, float]:
    """Read words such as ``Drama=20%``."""
    return {name: share(value, f"{option} {name}") for name, value in key_values(words or [], option).items()}


def counts_by_name(words: list[str] | None, option: str) -> dict[str, int]:
    """Read words such as ``author=2``."""
    found = key_values(words or [], option)
    for name, value in found.items():
        if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
            raise InputError(f"{option} {name}={value}: write FIELD=NUMBER with a number from 1 up, as in author=2")
    return {name: int(value) for name, value in found.items()}


def numbered_values(words: list[str] | None, option: str, form: str, least: int = 0) -> dict[int, str]:
    """Read words such as ``1=318``; 1 and 01 are the same number.

    Args:
        words: The values of the option.
        option: Its name.
        form: What to write, as the error says it.
        least: The smallest number allowed.

    Returns:
        Number -> text.
    """
    found: dict[int, str] = {}
    for name, value in key_values(words or [], option).items():
        if not re.fullmatch(r"[0-9]{1,9}", name) or int(name) < least:
            raise InputError(f"{option} {name}={value}: write {form}")
        if int(name) in found:
            raise InputError(f"{option} {int(name)} is given twice; give it once")
        found[int(name)] = value
    return found


def limits(
    first: float | None, first_option: str, words: list[str] | None, option: str, *, tested: bool = False
) -> dict[str, float]:
    """Read the limits of NDCG@10, which has an option of its own, and of other metrics.

    Args:
        first: The limit of NDCG@10; None if it is not given.
        first_option: The option that gives it.
        words: Words such as ``recall@20=2%``.
        option: The option that gives them.
        tested: As for :func:`metric_shares`.

    Returns:
        Metric -> share above 0; that of NDCG@10 is the first.

    Raises:
        InputError: A word is no limit, or two of them are for the same metric.
    """
    others = metric_shares(words, option, tested=tested)
    if first is None:
        return others
    if NDCG in others:
        raise InputError(f"{first_option} and {option} {NDCG}= limit the same metric; give one of them")
    return {NDCG: first, **others}


def metric_shares(words: list[str] | None, option: str, high: float = 1.0, *, tested: bool = False) -> dict[str, float]:
    """Read words such as ``recall@20=2%``.

    Args:
        words: The values of the option.
        option: Its name.
        high: The largest share.
        tested: Whether a test on users decides, which needs a value for each user.

    Returns:
        Metric -> share above 0. Aliases are written out, and a name without a cut means the first 10 places.
    """
    from recprism.budget.path import require_certifiable
    from recprism.metrics.registry import metric_name

    found: dict[str, float] = {}
    for name, value in key_values(words or [], option).items():
        metric = metric_name(name)
        if metric in found:
            raise InputError(f"{option}: {name} is {metric}, which is given twice; give it once")
        if tested:
            require_certifiable(metric)
        found[metric] = share(value, f"{option} {name}", high=high, ends=False)
    return found


def _typed(value: str) -> Any:
    if value.lower() == "none":
        return None
    try:
        return json.loads(value)
    except ValueError:
        return value


def _threshold(word: str | None) -> float | Literal["none"] | None:
    if word is None:
        return None
    if word == "none":
        return "none"
    return finite_number(word, f"--threshold {word}", "a number, or none")


def finite_number(word: str, given: str, form: str) -> float:
    """Read a number; text, nan and inf are refused, and the error says what was given and what to write."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{given}: write {form}")
    return number


def part_option(part: str) -> str | None:
    """Return what ``--part`` of another command must be for the same part; None for its default."""
    return None if part == "test" else part


def mlflow_sink(uri: str | None) -> Sink | None:
    """Open the store before any work begins, so that a wrong address is refused at once."""
    if uri is None:
        return None
    from recprism.runs.mlflow_sink import MlflowSink

    return MlflowSink(uri)
