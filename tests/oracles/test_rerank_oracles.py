"""Re-ranking against pyversity, which does one user at a time: the same picks wherever it is right.

It takes scores as they come, so it is given scaled ones; where it is wrong (its own scale, ranks used up, all-zero
vectors), the difference is shown.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import pyversity

from recprism.rivals import DPP, MMR, MSD, SSD, SlidingDPP
from recprism.rule import Features

SHAPES = [(100, 50, 10), (100, 50, 40), (30, 8, 8), (20, 64, 20), (10, 2, 2), (12, 16, 1)]  # candidates, dimensions, k
TRADE_OFFS = [0.0, 0.1, 0.3, 0.5, 0.8, 1.0]
N_USERS = 25


def world(n_candidates: int, dim: int, *, clustered: bool) -> tuple[Any, Any, Any]:
    """Ranked candidates of a catalogue, their scores, and item vectors, spread out or in a few bunches."""
    generator = np.random.default_rng([n_candidates, dim, clustered])
    n_items = 4 * n_candidates
    vectors = generator.normal(size=(n_items, dim))
    if clustered:
        vectors = 0.5 * vectors + 2 * generator.normal(size=(5, dim))[generator.integers(0, 5, n_items)]
    candidates = np.argsort(generator.random((N_USERS, n_items)), 1)[:, :n_candidates]
    scores = -np.sort(-generator.gamma(2.0, 3.0, candidates.shape), axis=1)
    return candidates, scores.astype(np.float32), vectors.astype(np.float32)


def scaled(scores: Any) -> Any:
    scores = scores.astype(np.float64)
    return (scores - scores.min()) / (scores.max() - scores.min())


def their_mmr(vectors: Any, scores: Any, k: int, trade_off: float) -> Any:
    return pyversity.mmr(vectors, scaled(scores), k, diversity=trade_off).indices


def their_dpp(vectors: Any, scores: Any, k: int, trade_off: float) -> Any:
    """Its weights are exp(beta * z-score), beta = (1 - diversity) * scale; beta = std * (1 - t) / (2 t) gives ours."""
    if trade_off == 0:
        return pyversity.dpp(vectors, scaled(scores), k, diversity=0).indices
    relevance = scaled(scores)
    beta = relevance.std() * (1 - trade_off) / (2 * trade_off)
    return pyversity.dpp(vectors, relevance, k, diversity=0.5, scale=2 * beta).indices


def their_msd(vectors: Any, scores: Any, k: int, trade_off: float) -> Any:
    return pyversity.msd(vectors, scaled(scores), k, diversity=trade_off).indices


def their_ssd(vectors: Any, scores: Any, k: int, trade_off: float, *, bias: bool = True, window: int = 5) -> Any:
    """Its window does not count the candidate, and a bias makes its vectors longer by the root of 2."""
    return pyversity.ssd(
        vectors,
        scaled(scores),
        k,
        diversity=trade_off,
        window=window - 1,
        append_bias=bias,
        gamma=0.5**0.5 if bias else 1.0,
        normalize_scores=False,
    ).indices


def mmr_worth(similarity: Any, relevance: Any, chosen: list[int], trade_off: float) -> float:
    *before, last = chosen
    nearest = max((max(0.0, similarity[last, other]) for other in before), default=0.0)
    return float((1 - trade_off) * relevance[last] - trade_off * nearest)


def dpp_worth(similarity: Any, relevance: Any, chosen: list[int], trade_off: float) -> float:
    log_det = np.linalg.slogdet(similarity[np.ix_(chosen, chosen)])[1]
    return float((1 - trade_off) * relevance[chosen].sum() + trade_off * log_det)


def msd_worth(similarity: Any, relevance: Any, chosen: list[int], trade_off: float) -> float:
    *before, last = chosen
    return float((1 - trade_off) * relevance[last] + trade_off * (1 - similarity[last, before]).sum())


def ssd_worth(similarity: Any, relevance: Any, chosen: list[int], trade_off: float, window: int = 5) -> float:
    """From the cosines alone: a Cholesky factor whose rows look back no further than the window."""
    similarity = (similarity[np.ix_(chosen, chosen)] + 1) / 2  # with the bias
    n = len(chosen)
    along = np.zeros((n, n))  # coordinates of each item in the directions made so far
    length = np.zeros(n)
    for i in range(n):
        near = range(max(0, i - window + 1), i)
        length[i] = np.sqrt(max(0.0, similarity[i, i] - sum(along[i, m] ** 2 for m in near)))
        for j in range(i + 1, n):
            product = similarity[j, i] - sum(along[i, m] * along[j, m] for m in near)
            along[j, i] = product / length[i] if length[i] > 1e-3 else 0.0
    return float((1 - trade_off) * relevance[chosen[-1]] + trade_off * length[-1])


def is_near_tie(worth: Any, ours: list[int], theirs: list[int], trade_off: float, own: tuple[Any, Any]) -> bool:
    """Whether the first difference of two lists is smaller than their single precision."""
    vectors, scores = own
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    values = [worth(unit @ unit.T, scaled(scores), chosen[: place + 1], trade_off) for chosen in (ours, theirs)]
    return abs(values[0] - values[1]) < 1e-5


METHODS = [(MMR, their_mmr, mmr_worth), (DPP, their_dpp, dpp_worth)]
RIVALS = [
    (MSD, their_msd, msd_worth),
    (SSD, their_ssd, ssd_worth),
    (partial(SlidingDPP, window=None), their_dpp, dpp_worth),
]


@pytest.mark.parametrize("clustered", [False, True], ids=["spread", "clustered"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS + RIVALS, ids=["mmr", "dpp", "msd", "ssd", "dpp_window"])
def test_same_picks(method: Any, shape: tuple[int, int, int], clustered: bool) -> None:
    (ours, theirs, worth), (n_candidates, dim, k) = method, shape
    candidates, scores, vectors = world(n_candidates, dim, clustered=clustered)
    for trade_off in TRADE_OFFS:
        picks = ours(trade_off=trade_off)(candidates, scores, k, features=Features(vectors=vectors))
        parted = 0
        for items, own, chosen in zip(candidates, scores, picks, strict=True):
            expected = theirs(vectors[items], own, k, trade_off).tolist()
            got = [items.tolist().index(item) for item in chosen]
            if got != expected:
                parted += 1
                assert is_near_tie(worth, got, expected, trade_off, (vectors[items], own)), trade_off
        assert parted <= 2, f"{parted} of {N_USERS} lists differ at {trade_off}, more than near ties can explain"


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("window", [2, 3, 8])
def test_ssd_with_other_windows(window: int, bias: bool) -> None:
    candidates, scores, vectors = world(60, 24, clustered=True)
    rerank = SSD(trade_off=0.6, window=window, bias=bias)
    picks = rerank(candidates, scores, 12, features=Features(vectors=vectors))
    theirs = [
        items[their_ssd(vectors[items], own, 12, 0.6, bias=bias, window=window)]
        for items, own in zip(candidates, scores, strict=True)
    ]
    assert (picks != np.array(theirs)).any(1).sum() <= 1


def test_the_scale_of_scores_changes_their_mmr_and_not_ours() -> None:
    candidates, scores, vectors = world(100, 50, clustered=True)
    first, own, features = candidates[:1], scores[:1], Features(vectors=vectors)
    theirs = [pyversity.mmr(vectors[first[0]], scale * own[0], 10, diversity=0.5).indices.tolist() for scale in (1, 9)]
    ours = [MMR()(first, scale * own, 10, features=features).tolist() for scale in (1, 9)]
    assert theirs[0] != theirs[1]
    assert ours[0] == ours[1]


def test_past_the_rank_their_dpp_is_arbitrary_and_ours_follows_relevance() -> None:
    """Five dimensions, ten places: the first five agree. Turning all vectors changes no angle, but their rest."""
    candidates, scores, vectors = world(100, 5, clustered=False)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    turned = (vectors @ turn).astype(np.float32)
    changed = 0
    for items, own in zip(candidates, scores, strict=True):
        theirs = [items[their_dpp(matrix[items], own, 10, 0.9)].tolist() for matrix in (vectors, turned)]
        ours = [
            DPP(trade_off=0.9)([items], [own], 10, features=Features(vectors=matrix))[0].tolist()
            for matrix in (vectors, turned)
        ]
        assert ours[0] == ours[1]
        assert ours[0][:5] == theirs[0][:5]
        rest = [item for item in items if item not in ours[0][:5]]
        assert ours[0][5:] == rest[:5]
        changed += theirs[0] != theirs[1]
    assert changed > 0


@pytest.mark.parametrize("method", METHODS, ids=["mmr", "dpp"])
def test_zero_vectors_add_no_diversity(method: Any) -> None:
    ours, theirs, _ = method
    candidates, scores, vectors = world(30, 8, clustered=False)
    vectors[candidates[0, 20:]] = 0.0
    picks = ours(trade_off=1)(candidates[:1], scores[:1], 8, features=Features(vectors=vectors))[0]
    assert not set(picks) & set(candidates[0, 20:])
    their_picks = candidates[0, theirs(vectors[candidates[0]], scores[0], 8, 1.0)]
    assert len(set(their_picks) & set(candidates[0, 20:])) >= 3
