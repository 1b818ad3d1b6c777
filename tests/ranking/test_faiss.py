"""The approximate engine: exact if every cell is searched, and never a seen item or a short list."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from recprism.data.incidence import Incidence
from recprism.errors import InputError, MissingDependencyError
from recprism.ranking import _faiss_engine as faiss_engine
from recprism.ranking import topk
from recprism.ranking._faiss_engine import ItemIndex, Probing

N_USERS, N_ITEMS, DIM, K = 300, 2000, 8, 10


@pytest.fixture(scope="module")
def vectors() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((20, DIM))
    draw = [centres[rng.integers(20, size=n)] + 0.3 * rng.standard_normal((n, DIM)) for n in (N_USERS, N_ITEMS)]
    return draw[0].astype(np.float32), draw[1].astype(np.float32)


@pytest.fixture(scope="module")
def seen(vectors: tuple[np.ndarray, np.ndarray]) -> Incidence:
    """The items with the best scores: none for some users, a few for most, all but three for one, all for another."""
    user, item = vectors
    counts = np.random.default_rng(1).integers(0, 200, N_USERS)
    counts[:2] = N_ITEMS, N_ITEMS - 3
    best = np.argsort(-(user @ item.T), axis=1)
    rows = np.repeat(np.arange(N_USERS), counts)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Incidence.from_pairs(rows, best[rows, places], (N_USERS, N_ITEMS))


def test_searching_every_cell_gives_the_exact_lists(vectors: tuple[np.ndarray, np.ndarray], seen: Incidence) -> None:
    user, item = vectors
    exact_items, exact_scores = topk(user, item, K, exclude=seen)
    items, scores = ItemIndex(item, Probing(cells=16, probes=16)).rank(user, K, exclude=seen)
    np.testing.assert_array_equal(items.numpy(), exact_items)
    np.testing.assert_allclose(scores.numpy(), exact_scores, rtol=1e-5)


@pytest.mark.parametrize("probes", [1, 2, 8])
def test_few_cells_give_full_lists_without_seen_items(
    vectors: tuple[np.ndarray, np.ndarray], seen: Incidence, probes: int
) -> None:
    user, item = vectors
    items = ItemIndex(item, Probing(cells=64, probes=probes)).rank(user, K, exclude=seen)[0].numpy()
    lengths = (items >= 0).sum(axis=1)
    np.testing.assert_array_equal(lengths, np.minimum(K, N_ITEMS - seen.row_counts))
    for row, of_user in enumerate(items):
        real = of_user[of_user >= 0]
        assert len(set(real)) == len(real)
        assert not set(real) & set(seen.row(row))


def test_more_probes_find_more(vectors: tuple[np.ndarray, np.ndarray], seen: Incidence) -> None:
    user, item = vectors
    exact = topk(user, item, K, exclude=seen)[0]

    def overlap(probes: int) -> float:
        items = ItemIndex(item, Probing(cells=64, probes=probes)).rank(user, K, exclude=seen)[0].numpy()
        return float((exact[:, :, None] == items[:, None, :]).any(2).mean())

    few, many = overlap(1), overlap(16)
    assert few < many
    assert many > 0.95


def test_a_history_longer_than_is_fetched_is_ranked_exactly(
    vectors: tuple[np.ndarray, np.ndarray], seen: Incidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, item = vectors
    monkeypatch.setattr(faiss_engine, "MOST_FETCHED", 1)
    items, _ = ItemIndex(item, Probing(cells=64, probes=1)).rank(user, K, exclude=seen)
    np.testing.assert_array_equal(items.numpy(), topk(user, item, K, exclude=seen)[0])


def test_by_name_and_the_same_bits_again(vectors: tuple[np.ndarray, np.ndarray], seen: Incidence) -> None:
    first, again = (topk(*vectors, K, exclude=seen, engine="faiss") for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_fewer_items_than_places() -> None:
    items, scores = topk(np.eye(2, dtype=np.float32), np.array([[1, 0], [0, 1]]), 4, engine="faiss")
    assert items.tolist() == [[0, 1, -1, -1], [1, 0, -1, -1]]
    assert np.isneginf(scores[:, 2:]).all()


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(InputError, match="probes is 0"):
        Probing(probes=0)


def test_a_missing_package_is_named_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match=r"recprism\[ann\]"):
        topk(np.eye(2), np.eye(2), 1, engine="faiss")
