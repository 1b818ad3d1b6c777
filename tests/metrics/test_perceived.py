"""benchmarks/perceived.py: titles that match, sets of films, and its two comparisons against naive ones."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from perceived import Study, agreement, compare, films_of, match, plain, rank_correlation, read_study


@pytest.mark.parametrize(
    ("film", "title"),
    [
        ("The Matrix", "Matrix, The (1999)"),
        ("Se7en", "Seven (a.k.a. Se7en) (1995)"),
        ("Monsters Inc.", "Monsters, Inc. (2001)"),
        ("Schindler\u2019s List", "Schindler's List (1993)"),
        ("The Empire Strikes Back", "Star Wars: Episode V - The Empire Strikes Back (1980)"),
        ("Star Wars", "Star Wars: Episode IV - A New Hope (1977)"),
        ("Raiders of the Lost Ark", "Raiders of the Lost Ark (Indiana Jones and the Raiders of the Lost Ark) (1981)"),
    ],
)
def test_a_film_finds_its_title(film: str, title: str) -> None:
    titles = ["Matrix Reloaded, The (2003)", title, "Saw (2004)"]
    assert match({plain(film)}, titles, np.array([9, 1, 9])) == {plain(film): 1}


def test_the_film_with_most_ratings_wins_and_an_unknown_one_is_left_out() -> None:
    titles = ["Avengers, The (1998)", "Avengers, The (2012)"]
    assert match({"the avengers", "saw"}, titles, np.array([3, 8])) == {"the avengers": 1}


def test_a_part_belongs_to_the_title_before_it() -> None:
    assert films_of("Saw|Batman|Part 1|Batman|Part 2") == ("saw", "batman part 1", "batman part 2")


def test_orders_of_one_set_are_one_set() -> None:
    rows = [("S", 1, "A|B", 4), ("S", 1, "B|A", 2), ("S", 1, "A|C", 5), ("T", 1, "A|C", 1)]
    study = read_study(pl.DataFrame(rows, schema=["study", "participant", "films", "diversity"], orient="row"))
    assert study.orders == ((("a", "b"), ("b", "a")), (("a", "c"),))
    np.testing.assert_array_equal(study.ratings, [[3.0, 5.0], [np.nan, 1.0]])
    assert study.n_ratings == 4


def test_both_comparisons_are_those_of_a_naive_loop() -> None:
    generator = np.random.default_rng(0)
    ratings = generator.integers(1, 6, (20, 6)).astype(float)
    ratings[generator.random((20, 6)) < 0.4] = np.nan
    values = np.array([0.1, 0.5, 0.5, 0.2, 0.9, 0.4])
    means = np.nanmean(ratings, axis=0)
    assert rank_correlation(values, means) == pytest.approx(spearmanr(values, means).statistic)

    raters, sets = generator.integers(0, 3, 20), generator.integers(0, 3, 6)
    right = total = 0.0
    for who, (one, other) in ((who, pair) for who in range(20) for pair in combinations(range(6), 2)):
        gap = ratings[who, one] - ratings[who, other]
        if gap > 0 or gap < 0:
            weight = float(raters[who] * sets[one] * sets[other])
            ordered = np.sign(values[one] - values[other])
            total += weight
            right += weight * (0.5 if ordered == 0 else float(ordered == np.sign(gap)))
    found = agreement(values, ratings, raters[None].astype(float), sets[None].astype(float))
    assert found[0] == pytest.approx(right / total)


def test_a_metric_that_orders_as_all_participants_do_agrees_in_every_draw() -> None:
    values = np.arange(5.0)
    study = Study((((),),) * 5, np.tile(values, (10, 1)), 50)
    correlation, pairs = compare(values, study, draws=50)
    assert correlation == pytest.approx((1, 1, 1)) and pairs == pytest.approx((1, 1, 1))
    assert compare(-values, study, draws=50)[0] == pytest.approx((-1, -1, -1))
