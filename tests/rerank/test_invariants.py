"""Properties that hold for every registered re-ranker and any input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.rerank import RERANKERS, _choices, reranker

NAMES = sorted(RERANKERS)
DEPENDENT = ("slots_exposure", "exposure", "pmmf", "optimal_catalogue_coverage")  # on the lists of other users
INDEPENDENT = [name for name in NAMES if name not in DEPENDENT]
PLAIN = [name for name in NAMES if not name.startswith("optimal")]  # the others have no torch implementation

trade_offs = st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.77, 1.0])
worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "n_users": st.integers(1, 6),
        "n_candidates": st.integers(1, 12),
        "n_items": st.integers(12, 25),
        "dim": st.integers(1, 6),
        "n_subtopics": st.integers(1, 5),
        "coarse": st.booleans(),
        "padded": st.booleans(),
    }
)
knobs = st.fixed_dictionaries({"trade_off": trade_offs, "sort_back": st.booleans()})
some_examples = settings(max_examples=30, deadline=None, derandomize=True)


def lists(name: str, world: Any, k: int, **knobs: Any) -> Any:
    return reranker(name, **knobs)(world.candidates, world.scores, k, features=world.features)


def base_list(world: Any, k: int) -> Any:
    """Return the best k; the candidates of the worlds are ranked."""
    padded = np.pad(world.candidates, ((0, 0), (0, k)), constant_values=-1)
    return padded[:, :k]


@pytest.mark.parametrize("name", NAMES)
@given(worlds, st.integers(1, 14))
@some_examples
def test_trade_off_zero_is_the_base_list(make_world: Any, name: str, world: dict[str, Any], k: int) -> None:
    built = make_world(**world)
    np.testing.assert_array_equal(lists(name, built, k, trade_off=0), base_list(built, k))


@pytest.mark.parametrize("name", NAMES)
@given(worlds, st.integers(1, 14), knobs)
@some_examples
def test_picks_are_distinct_candidates_and_as_many_as_there_are(
    make_world: Any, name: str, world: dict[str, Any], k: int, setting: dict[str, Any]
) -> None:
    built = make_world(**world)
    picks = lists(name, built, k, **setting)
    assert picks.shape == (world["n_users"], k)
    assert picks.dtype == np.int64
    for chosen, candidates in zip(picks.tolist(), built.candidates.tolist(), strict=True):
        real = [item for item in chosen if item >= 0]
        available = {item for item in candidates if item >= 0}
        assert len(set(real)) == len(real) == min(k, len(available))
        assert set(real) <= available
        assert chosen == real + [-1] * (k - len(real)), "empty places are at the end"


@pytest.mark.parametrize("name", NAMES)
@given(worlds, trade_offs)
@some_examples
def test_sorting_back_changes_only_the_order(
    make_world: Any, name: str, world: dict[str, Any], trade_off: float
) -> None:
    built = make_world(**world)
    k = 5
    plain = lists(name, built, k, trade_off=trade_off)
    back = lists(name, built, k, trade_off=trade_off, sort_back=True)
    np.testing.assert_array_equal(np.sort(plain, 1), np.sort(back, 1))
    for chosen, candidates in zip(back.tolist(), built.candidates.tolist(), strict=True):
        ranks = [candidates.index(item) for item in chosen if item >= 0]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize("name", NAMES)
@given(worlds, trade_offs, st.randoms(use_true_random=False))
@some_examples
def test_numbers_of_items_do_not_matter(
    make_world: Any, name: str, world: dict[str, Any], trade_off: float, random: Any
) -> None:
    built = make_world(**world)
    new_name = np.array(random.sample(range(world["n_items"]), world["n_items"]))
    before = lists(name, built, 5, trade_off=trade_off)
    for table in ("vectors", "subtopics", "shown"):
        old = getattr(built, table)
        setattr(built, table, np.empty_like(old))
        getattr(built, table)[new_name] = old
    built.candidates = np.where(built.candidates >= 0, new_name[built.candidates], -1)
    after = lists(name, built, 5, trade_off=trade_off)
    np.testing.assert_array_equal(after, np.where(before >= 0, new_name[before], -1))


@pytest.mark.parametrize("name", NAMES)
@given(worlds, trade_offs, st.tuples(st.floats(0.001, 1000), st.floats(-50, 50)))
@some_examples
def test_the_scale_of_scores_does_not_matter(
    make_world: Any, name: str, world: dict[str, Any], trade_off: float, scale: tuple[float, float]
) -> None:
    built = make_world(**{**world, "coarse": False})  # rounding may separate scores that are equal
    before = lists(name, built, 5, trade_off=trade_off)
    built.scores = built.scores.astype(np.float64) * scale[0] + scale[1]
    np.testing.assert_array_equal(lists(name, built, 5, trade_off=trade_off), before)


@pytest.mark.parametrize("name", NAMES)
@given(worlds, trade_offs, st.integers(0, 1000))
@some_examples
def test_order_of_columns_and_empty_places_do_not_matter(
    make_world: Any, name: str, world: dict[str, Any], trade_off: float, seed: int
) -> None:
    built = make_world(**{**world, "coarse": False})  # equal scores keep the order of the caller
    k = 5
    before = lists(name, built, k, trade_off=trade_off)
    shuffled = np.random.default_rng(seed).permutation(world["n_candidates"] + 3)
    built.candidates = np.pad(built.candidates, ((0, 0), (0, 3)), constant_values=-1)[:, shuffled]
    built.scores = np.pad(built.scores, ((0, 0), (0, 3)), constant_values=-np.inf)[:, shuffled]
    np.testing.assert_array_equal(lists(name, built, k, trade_off=trade_off), before)


@pytest.mark.parametrize("name", INDEPENDENT)
@given(worlds, trade_offs)
@some_examples
def test_a_user_alone_gets_the_same_list(make_world: Any, name: str, world: dict[str, Any], trade_off: float) -> None:
    built = make_world(**world)
    together = lists(name, built, 5, trade_off=trade_off)
    built.candidates, built.scores = built.candidates[-1:], built.scores[-1:]
    built.user_subtopics = built.user_subtopics[-1:]
    np.testing.assert_array_equal(lists(name, built, 5, trade_off=trade_off), together[-1:])


@pytest.mark.parametrize("name", PLAIN)
@given(worlds, st.integers(1, 14), knobs)
@some_examples
def test_compiled_and_plain_agree(
    make_world: Any, name: str, world: dict[str, Any], k: int, setting: dict[str, Any]
) -> None:
    built = make_world(**world)
    compiled = lists(name, built, k, **setting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_choices, "COMPILED_FOR", ())
        plain = lists(name, built, k, **setting)
    np.testing.assert_array_equal(plain, compiled)


def test_compiled_kernels_serve_the_cpu() -> None:
    """Otherwise the test above would compare the torch implementation with itself."""
    compiled = _choices.compiled_for(torch.device("cpu"))
    assert compiled is not None
    assert compiled.__name__ == "recprism.rerank._compiled"


@pytest.mark.parametrize("name", PLAIN)
def test_blocks_of_users_make_no_difference(make_world: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(0, n_users=50, padded=True)
    whole = lists(name, world, 7)
    monkeypatch.setattr(_choices, "COMPILED_FOR", ())
    monkeypatch.setattr("recprism.rerank._pool.MAX_CELLS", 2000)
    np.testing.assert_array_equal(lists(name, world, 7), whole)


@pytest.mark.parametrize("name", NAMES)
def test_many_users_on_several_threads(make_world: Any, name: str) -> None:
    """With more users than one thread gets at once, results are the same every time."""
    world = make_world(0, n_users=700, n_candidates=30, padded=True)
    first = lists(name, world, 10)
    np.testing.assert_array_equal(lists(name, world, 10), first)
    assert ((first >= 0).sum(1) == np.minimum(10, (world.candidates >= 0).sum(1))).all()


@pytest.mark.gpu
@pytest.mark.parametrize("trade_off", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_gives_the_same_lists(make_world: Any, name: str, trade_off: float) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: re-ranking on a GPU is not tested")
    for coarse in (False, True):
        world = make_world(3, n_users=300, n_candidates=60, n_items=200, coarse=coarse, padded=True)
        expected = lists(name, world, 10, trade_off=trade_off)
        candidates = torch.as_tensor(world.candidates, device="cuda")
        picks = reranker(name, trade_off=trade_off)(candidates, world.scores, 10, features=world.features_on("cuda"))
        assert picks.device.type == "cuda"
        np.testing.assert_array_equal(picks.cpu().numpy(), expected)
