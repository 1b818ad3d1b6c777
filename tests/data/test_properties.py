"""Properties of items: where the columns come from, what a list newly covers, and clusters that were planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recprism.data import Categories, Properties
from recprism.errors import InputError


def test_categories_are_the_columns() -> None:
    categories = Categories.from_pairs(np.array([0, 0, 2]), ["war", "drama", "war"], 3)
    properties = Properties.from_categories(categories)
    assert properties.names == ("drama", "war") and set(properties.kinds) == {"category"}
    assert properties.values.tolist() == [[1, 1], [0, 0], [0, 1]]


def test_numbers_go_both_ways_on_a_scale_of_one() -> None:
    properties = Properties.from_column("year", pl.Series([1990, None, 2010, 2000]))
    assert properties.names == ("year: high", "year: low") and properties.kinds == ("numeric", "numeric")
    assert properties.values[:, 0].tolist() == [0, 0.5, 1, 0.5]
    assert (properties.values[:, 1] == -properties.values[:, 0]).all()


def test_text_and_lists_of_text_become_one_column_per_value() -> None:
    plain = Properties.from_column("maker", ["a", None, "b", "a"])
    assert plain.names == ("maker: a", "maker: b") and plain.values.tolist() == [[1, 0], [0, 0], [0, 1], [1, 0]]
    several = Properties.from_column("tags", pl.Series([["x", "y"], [], ["y"]]))
    assert several.names == ("tags: x", "tags: y") and several.values.tolist() == [[1, 1], [0, 0], [0, 1]]


def test_popularity_is_logarithmic() -> None:
    properties = Properties.from_popularity([0, 9, 99])
    assert properties.values[:, 0] == pytest.approx([0, 0.5, 1]) and properties.kinds == ("popularity", "popularity")


def test_what_a_list_newly_covers() -> None:
    """A category where the list had none; a number where the range grows, upwards or downwards."""
    category = Properties.from_array([[1], [1], [0], [0]], ["war"], "category")
    properties = category.joined(Properties.from_column("year", [1, 2, 3, 4]))
    lists, base = [[0, 2], [3, -1], [1, 2]], [[1, 2], [2, 1], [2, 3]]
    assert properties.newly_covered(lists, base).tolist() == [
        [False, False, True],  # year 1 is below the range 2 .. 3
        [False, True, False],  # year 4 is above it
        [True, False, True],
    ]


def test_support_counts_distinct_candidates() -> None:
    properties = Properties.from_array(
        [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]], ["two", "one", "outside"], "category"
    )
    assert properties.supported([[0, 1], [2, -1]], 1).names == ("two", "one")
    assert properties.supported([[0, 1, 2, 3], [0, 1, 2, 3]], 2).names == ("two",)


def test_planted_clusters_are_found_and_named_by_their_centre() -> None:
    generator = np.random.default_rng(0)
    directions = np.eye(3)
    cluster = np.repeat(np.arange(3), 20)
    vectors = directions[cluster] + generator.normal(scale=0.1, size=(60, 3))
    vectors[[0, 20, 40]] = directions * 5  # the length of a vector does not count
    titles = [f"item {i}" for i in range(60)]
    properties = Properties.from_clusters(vectors, titles, 3, seed=1)
    found = properties.values.argmax(1)
    assert len({tuple(found[cluster == c]) for c in range(3)}) == 3
    assert all(len(set(found[cluster == c])) == 1 for c in range(3))
    assert (properties.values.sum(1) == 1).all() and all(name.startswith("like item") for name in properties.names)
    for column, name in enumerate(properties.names):
        assert {titles[i] for i in np.flatnonzero(found == column)} >= set(name.removeprefix("like ").split(", "))
    again = Properties.from_clusters(vectors, titles, 3, seed=1)
    assert again.names == properties.names and (again.values == properties.values).all()


def test_equal_vectors_leave_clusters_empty() -> None:
    properties = Properties.from_clusters(np.ones((4, 2)), ["a", "b", "c", "d"], 3)
    assert properties.names == ("like a, b",)


def test_mistakes_get_one_sentence() -> None:
    with pytest.raises(InputError, match="two properties have the name 'a'"):
        Properties.from_array([[1, 2]], ["a", "a"])
    with pytest.raises(InputError, match="one row per item"):
        Properties.from_array([[1, 2]], ["a"])
    with pytest.raises(InputError, match="has no values"):
        Properties.from_column("year", [None, float("nan")])
    with pytest.raises(InputError, match="mixes numbers with text"):
        Properties.from_column("year", [1, "two"])
    with pytest.raises(InputError, match="5 clusters of 2 items"):
        Properties.from_clusters([[1.0], [2.0]], ["a", "b"], 5)
    with pytest.raises(InputError, match="pass the same items"):
        Properties.from_array([[1]], ["a"]).joined(Properties.from_array([[1], [2]], ["b"]))
