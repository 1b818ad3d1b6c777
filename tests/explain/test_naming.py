"""Names: found where there is something, withheld where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from recprism.cmb.factors.naming import NO_NAME, Labels, Name, correlations, halves, name_coordinates
from recprism.data.categories import Categories
from recprism.errors import InputError

N = 400


def categories_at_random(seed: int, n_items: int = N, n_categories: int = 12) -> Categories:
    """Common ones and rare ones, several to an item."""
    generator = np.random.default_rng(seed)
    share = np.geomspace(0.02, 0.5, n_categories)
    item, category = np.nonzero(generator.random((n_items, n_categories)) < share)
    return Categories.from_pairs(item, np.array([f"g{number:02}" for number in range(n_categories)])[category], n_items)


def labels_at_random(seed: int) -> Labels:
    generator = np.random.default_rng(seed + 10_000)
    popularity = generator.zipf(1.5, N).clip(max=5000)
    year = np.where(generator.random(N) < 0.1, np.nan, generator.integers(1930, 2020, N))
    return Labels.of(categories_at_random(seed), popularity=popularity, year=year)


@pytest.mark.slow
def test_random_coordinates_rarely_get_a_name() -> None:
    """200 families of 5 coordinates: at level 0.05 about ten of them may hold a name, 18 are more than chance."""
    generator = np.random.default_rng(0)
    given = [
        any(it.reliable for it in name_coordinates(generator.standard_t(3, (N, 5)), labels_at_random(seed), seed=seed))
        for seed in range(200)
    ]
    assert sum(given) <= 18


def test_a_planted_association_is_found_at_both_ends() -> None:
    generator = np.random.default_rng(1)
    labels = labels_at_random(1)
    has = {name: labels.values[:, number] for number, name in enumerate(labels.names)}
    coordinates = generator.normal(size=(N, 8))
    coordinates[:, 3] += 1.5 * has["g10"] - 1.5 * has["g09"]
    coordinates[:, 5] -= 0.8 * (has["popular"] - has["popular"].mean()) / has["popular"].std()
    names = name_coordinates(coordinates, labels)
    assert [number for number, name in enumerate(names) if name.reliable] == [3, 5]
    assert names[3].words() == "g10 against g09"
    assert names[5].words() == "all but popular"
    assert names[3].effects["g10"] > 0.3
    assert names[3].p_value == pytest.approx(0.001)
    assert names[0].words() == NO_NAME


def test_effects_match_their_definitions() -> None:
    """Rank-biserial: pairs in order minus pairs out of order, among all pairs of an item with and one without."""
    generator = np.random.default_rng(2)
    labels = labels_at_random(2)
    column = generator.normal(size=N) + labels.values[:, 11]
    (name,) = name_coordinates(column, labels, candidates=14, seed=0)
    _, test = halves(N)
    x, has = column[test], labels.values[test, 11] == 1
    pairs = np.sign(x[has][:, None] - x[~has][None, :]).mean()
    assert name.effects[labels.names[11]] == pytest.approx(pairs)
    popular = labels.names.index("popular")
    assert name.effects["popular"] == pytest.approx(spearmanr(x, labels.values[test, popular])[0])


def test_a_certain_but_tiny_effect_is_no_name() -> None:
    generator = np.random.default_rng(0)
    has = np.arange(20_000) % 2
    column = generator.normal(size=20_000) + 0.1 * has
    labels = Labels.of(more={"odd": has})
    (name,) = name_coordinates(column, labels, permutations=99)
    assert name.p_value == pytest.approx(0.01)
    assert not name.reliable
    assert name_coordinates(column, labels, permutations=99, least_effect=0.0)[0].words() == "odd"


def test_unknown_years_and_labels_that_all_items_have_do_no_harm() -> None:
    generator = np.random.default_rng(3)
    year = generator.integers(1950, 2000, N).astype(float)
    column = year + generator.normal(0, 5, N)
    year[generator.random(N) < 0.4] = np.nan
    labels = Labels.of(year=year, more={"all": np.ones(N), "none": np.zeros(N)})
    assert labels.names == ("all", "none", "recent")
    found = correlations(column[:, None], labels.values)
    assert found[0, :2].tolist() == [0, 0]
    assert name_coordinates(column, labels)[0].words() == "recent"


def test_words() -> None:
    assert Name(("a", "b"), ("c",), {}, 0.01).words() == "a, b against c"
    assert Name(("a", "b", "c", "d"), (), {}, 0.01).words() == "a, b, c"
    assert Name((), (), {}, 0.5).words() == NO_NAME


def test_the_same_seed_gives_the_same_names_and_scale_does_not_matter() -> None:
    generator = np.random.default_rng(4)
    labels = labels_at_random(4)
    column = generator.normal(size=N) + labels.values[:, 10]
    (one,), (two,) = name_coordinates(column, labels), name_coordinates(np.exp(3 * column), labels)
    assert one.effects == two.effects
    assert one.p_value == two.p_value


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="give both"):
        name_coordinates(np.zeros((5, 2)), Labels.of(more={"x": np.zeros(6)}))
    with pytest.raises(InputError, match="at least one label"):
        Labels.of()
    with pytest.raises(InputError, match="same number"):
        Labels.of(popularity=np.zeros(3), year=np.zeros(4))
