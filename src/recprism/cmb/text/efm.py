"""Matrices of the Explicit Factor Model (Zhang et al., 2014): attention of users, quality of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from recprism.common.ids import number_ids
from recprism.data.feature_matrix import FeatureMatrix
from recprism.errors import InputError

SCALE = 5  # N: the best mark


def attention(count: ArrayLike, scale: float = SCALE) -> NDArray[np.float64]:
    """Return 1 + (N - 1) (2 / (1 + exp(-count)) - 1), or 0 without a mention.

    Args:
        count: Numbers of mentions.
        scale: N, the best mark.

    Returns:
        An array of the shape of ``count``.

    >>> attention([0, 1, 10]).round(3).tolist()
    [0.0, 2.848, 5.0]
    """
    count = np.asarray(count, np.float64)
    return np.where(count > 0, 1 + (scale - 1) * (2 * _logistic(count) - 1), 0.0)


def quality(count: ArrayLike, mean_sentiment: ArrayLike, scale: float = SCALE) -> NDArray[np.float64]:
    """Return 1 + (N - 1) / (1 + exp(-count * mean sentiment)), or 0 without a mention.

    Args:
        count: Numbers of mentions.
        mean_sentiment: Mean sentiment of the mentions, from -1 to 1.
        scale: N, the best mark.

    Returns:
        An array of the shape of ``count``, from 1 (blame) to N (praise).

    >>> quality([0, 2, 2], [0.0, 0.0, 1.0]).round(3).tolist()
    [0.0, 3.0, 4.523]
    """
    count = np.asarray(count, np.float64)
    return np.where(count > 0, 1 + (scale - 1) * _logistic(count * np.asarray(mean_sentiment, np.float64)), 0.0)


def user_attention(mentions: pl.DataFrame, names: tuple[str, ...] | None = None) -> FeatureMatrix:
    """Return the matrix X of the model: how much each user mentions each feature.

    Args:
        mentions: The columns user_id, feature.
        names: The features; by default all that are mentioned, sorted.

    Returns:
        Users x features.

    Raises:
        InputError: There are no mentions.
    """
    matrix, count, _ = _counted(mentions, "user_id", names)
    return FeatureMatrix(matrix.ids, matrix.names, attention(count).astype(np.float32))


def item_quality(mentions: pl.DataFrame, names: tuple[str, ...] | None = None) -> FeatureMatrix:
    """Return the matrix Y of the model: how good each item is in each feature.

    Args:
        mentions: The columns item_id, feature, sentiment.
        names: The features; by default all that are mentioned, sorted.

    Returns:
        Items x features.

    Raises:
        InputError: There are no mentions.
    """
    matrix, count, total = _counted(mentions, "item_id", names)
    return FeatureMatrix(matrix.ids, matrix.names, quality(count, total / np.maximum(count, 1)).astype(np.float32))


def mentions_of_pairs(mentions: pl.DataFrame, users: NDArray[Any], items: NDArray[Any]) -> pl.DataFrame:
    """Keep the mentions of the given pairs, such as those of the training part, so that no test review is used."""
    if not len(users):
        return mentions.clear()
    pairs = pl.DataFrame({"user_id": users.tolist(), "item_id": items.tolist()})
    _require_same_types(mentions, pairs)
    return mentions.join(pairs.unique(), on=["user_id", "item_id"], how="semi", maintain_order="left")


def _require_same_types(mentions: pl.DataFrame, pairs: pl.DataFrame) -> None:
    """Raise an error if one side has numbers and the other text: they never match."""
    for side in ("user_id", "item_id"):
        kinds = ["text" if it[side].dtype == pl.String else "numbers" for it in (mentions, pairs)]
        if kinds[0] != kinds[1]:
            raise InputError(f"{side} is {kinds[0]} in the mentions and {kinds[1]} in the pairs; both must be the same")


def _counted(
    mentions: pl.DataFrame, side: str, names: tuple[str, ...] | None
) -> tuple[FeatureMatrix, NDArray[np.float64], NDArray[np.float64]]:
    """Return ids and names of the matrix, and ``(n, d)`` numbers of mentions and sums of sentiment."""
    if mentions.is_empty():
        raise InputError("there are no mentions of features; a matrix needs at least one")
    ids, row = number_ids(mentions[side])
    names = names or tuple(mentions["feature"].unique().sort().to_list())
    column = mentions["feature"].replace_strict(
        {name: number for number, name in enumerate(names)}, default=None, return_dtype=pl.Int64
    )
    known = column.is_not_null().to_numpy()
    at = (row[known], column.drop_nulls().to_numpy())
    count, total = np.zeros((len(ids), len(names))), np.zeros((len(ids), len(names)))
    np.add.at(count, at, 1.0)
    if "sentiment" in mentions.columns:
        np.add.at(total, at, mentions["sentiment"].to_numpy()[known])
    return FeatureMatrix(ids, names, count.astype(np.float32)), count, total


def _logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # With tanh, because exp(-values) overflows for strong blame.
    return 0.5 * (1 + np.tanh(values / 2))
