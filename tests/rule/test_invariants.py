"""What holds for every registered re-ranker, whatever the world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reranker_checks import check_reranker

from recprism.rivals import RERANKERS
from recprism.rivals.registry import reranker
from recprism.rule import pool as _pool

NAMES = sorted(RERANKERS)
TOGETHER = ("slots_exposure", "exposure", "pmmf", "optimal_catalogue_coverage")  # lists depend on other users' lists

trade_offs = st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.77, 1.0])
worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "n_users": st.integers(1, 6),
        "n_candidates": st.integers(1, 12),
        "n_items": st.integers(12, 25),
        "dim": st.integers(1, 6),
        "n_categories": st.integers(1, 5),
        "coarse": st.booleans(),
        "padded": st.booleans(),
    }
)
knobs = st.fixed_dictionaries({"trade_off": trade_offs, "sort_back": st.booleans()})
some_examples = settings(max_examples=30, deadline=None, derandomize=True)


def lists(name: str, world: Any, k: int, **knobs: Any) -> Any:
    return reranker(name, **knobs)(world.candidates, world.scores, k, features=world.features)


@pytest.mark.parametrize("name", NAMES)
def test_every_reranker_conforms(name: str) -> None:
    check_reranker(RERANKERS[name], users_are_independent=name not in TOGETHER)


@given(worlds, st.integers(1, 14), knobs)
@some_examples
def test_compiled_and_plain_pools_agree(
    make_world: Any, world: dict[str, Any], k: int, setting: dict[str, Any]
) -> None:
    built = make_world(**world)
    compiled = lists("mmr", built, k, **setting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pool, "COMPILED_FOR", ())
        plain = lists("mmr", built, k, **setting)
    np.testing.assert_array_equal(plain, compiled)


def test_compiled_code_is_what_serves_a_processor(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lest the comparison above compare the plain way with itself."""
    called: list[str] = []
    real = _pool.compiled_ranked
    monkeypatch.setattr(_pool, "compiled_ranked", lambda *args: called.append("compiled") or real(*args))
    lists("mmr", make_world(seed=0), 3)
    assert called == ["compiled"]


@pytest.mark.parametrize("name", NAMES)
def test_many_users_on_several_threads(make_world: Any, name: str) -> None:
    """More users than one thread's portion; the same bits every time."""
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
