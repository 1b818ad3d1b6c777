"""CMB on worlds small enough to know the answer, and its invariants on larger ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb import CMB
from recprism.cmb._gradient import soft_ilad
from recprism.cmb.controls import noise, permuted
from recprism.cmb.objective import Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.policies import EpsilonGreedy
from recprism.cmb.search_loop import Judge, Progress, SearchSettings, search
from recprism.cmb.space import FactorSpace
from recprism.data import Categories, Dataset, SparseRows, Split
from recprism.errors import InputError
from recprism.metrics import Context, Lists, evaluate
from recprism.models import Factors


def shared(diversity: object = "subtopic_coverage", accuracy: object = None, **settings: object) -> CMB:
    """Players with one reward for all; tests of marginal credit are in test_credit.py."""
    return CMB.preset("shared", diversity=diversity, accuracy=accuracy, **settings)


def world(seed: int, n_users: int = 30, n_items: int = 25, d: int = 4) -> tuple[Factors, Split, Categories]:
    """Random factors, interactions and categories."""
    generator = np.random.default_rng(seed)
    factors = Factors.from_arrays(generator.normal(size=(n_users, d)), generator.normal(size=(n_items, d)))
    parts = generator.choice(4, size=(n_users, n_items), p=[0.7, 0.1, 0.1, 0.1])
    train, validation, test = (SparseRows.coerce(parts == part) for part in (1, 2, 3))
    categories = SparseRows.coerce(generator.random((n_items, 6)) < 0.3)
    categories = Categories(tuple("abcdef"), categories)
    return factors, Split(train, validation, test, factors.user_ids, factors.item_ids), categories


def test_the_search_finds_the_best_perturbation_of_a_tiny_example() -> None:
    # Two users, three items, one factor: 27 perturbations, and SC of lists of one as the reward with a price on size.
    factors = Factors.from_arrays([[1.0], [-1.0]], [[1.0], [0.9], [-0.5]])
    categories = Categories.from_pairs(np.array([0, 1, 1, 2]), ["a", "a", "b", "a"], 3)
    nothing = SparseRows.empty((2, 3))
    held_out = SparseRows.coerce(np.eye(2, 3))
    split = Split(nothing, held_out, held_out, factors.user_ids, factors.item_ids)
    context = Context.from_split(split, "validation", categories=categories, vectors=factors.item)
    space, objective, arms = FactorSpace(factors, nothing), Objective("subtopic_coverage", lambda1=0.1), Arms(0.3, 3)
    rewards = {
        combination: Judge(space, context, objective).outcome(arms.values[list(combination)], 1).reward
        for combination in itertools.product(range(3), repeat=3)
    }
    best = max(rewards.values())
    assert sum(reward == best for reward in rewards.values()) <= 3
    assert best > rewards[1, 1, 1], "doing nothing is not the answer"
    settings = SearchSettings(iterations=300, k=1, keep="best")
    found = search(space, context, objective, EpsilonGreedy(0.3), arms, settings, seed=0)
    assert max(step.reward for step in found.history) == best
    assert Judge(space, context, objective).outcome(found.values, 1).reward == best


@given(st.integers(0, 10_000))
def test_zero_arms_change_no_list(seed: int) -> None:
    factors, split, _ = world(seed)
    for scaling in ("global", "factor"):
        space = FactorSpace(factors, split.train, side="both", scaling=scaling)  # type: ignore[arg-type]
        base, _ = factors.rank(10, exclude=split.train)
        assert (space.lists(torch.zeros(space.n_players), 10).numpy() == base).all()


@given(st.integers(0, 10_000))
def test_a_common_shift_of_all_items_changes_no_list(seed: int) -> None:
    factors, split, _ = world(seed)
    space = FactorSpace(factors, split.train)
    shift = torch.from_numpy(np.random.default_rng(seed).uniform(-0.3, 0.3, 4).astype(np.float32))
    moved = space.lists(shift.repeat(25), 10).numpy()
    base, scores = factors.rank(10, exclude=split.train)
    # Sums in another order may swap items whose scores are equal to float precision; nothing else may move.
    for user in np.flatnonzero((moved != base).any(1)):
        wrong = np.flatnonzero(moved[user] != base[user])
        assert np.ptp(scores[user, wrong]) < 1e-4


def test_delta_and_factors_are_in_the_models_own_units() -> None:
    factors, split, categories = world(1)
    for scaling, unit in (("global", np.abs(factors.item).max()), ("factor", np.abs(factors.item).max(0))):
        model = shared("subtopic_coverage", iterations=5, scaling=scaling, seed=1, keep="last").fit(
            factors, split, categories
        )  # type: ignore[arg-type]
        assert model.delta_.item is not None
        delta = model.delta_.item.numpy()
        assert np.allclose(model.factors_.item - factors.item, delta, atol=1e-6)
        steps = delta / unit / 0.01
        assert np.allclose(steps, steps.round(), atol=1e-3), "every entry is an arm, a multiple of 0.01"
        assert np.abs(steps).max() <= 30.001


@pytest.mark.parametrize("policy", ["epsilon-greedy", "ucb", "random"])
@pytest.mark.parametrize("side", ["item", "user", "both"])
def test_every_policy_on_every_side(policy: str, side: str) -> None:
    factors, split, categories = world(2)
    model = shared("subtopic_coverage", "recall", lambda1=0.1, policy=policy, side=side, iterations=12, k=5).fit(
        factors, split, categories
    )  # type: ignore[arg-type]
    assert len(model.history_) == 12
    assert (model.delta_.item is not None) == (side != "user")
    assert (model.delta_.user is not None) == (side != "item")


def test_the_history_has_the_rewards_of_the_lists() -> None:
    factors, split, categories = world(3)
    model = shared(
        "subtopic_coverage", "ndcg", lambda1=2.0, lambda2=0.7, penalty="mean", iterations=8, k=5, keep="last"
    )
    model.fit(factors, split, categories)
    last = model.history_[-1]
    items, _ = model.factors_.rank(5, exclude=split.train)
    context = Context.from_split(split, "validation", categories=categories)
    result = evaluate(items, context, ["subtopic_coverage@5", "ndcg@5"], bootstrap=0)
    assert last.psi == pytest.approx(0.7 * result["ndcg@5"].mean + 0.3 * result["subtopic_coverage@5"].mean)
    unit = np.abs(factors.item).max()
    assert model.delta_.item is not None
    assert last.size == pytest.approx(np.abs(model.delta_.item.numpy() / unit).sum(), rel=1e-4)
    assert last.reward == pytest.approx(last.psi**2 - 2.0 * last.size / factors.item.size)


@pytest.mark.parametrize("policy", ["epsilon-greedy", "ucb", pytest.param("gradient", marks=pytest.mark.slow)])
def test_a_search_resumed_at_any_iteration_ends_with_the_same_bits(policy: str) -> None:
    factors, split, categories = world(4)
    diversity = "ilad" if policy == "gradient" else "subtopic_coverage"

    def model() -> CMB:
        return shared(diversity, policy=policy, iterations=9, k=5, seed=3)

    seen: list[Progress] = []
    whole = model().fit(factors, split, categories, follow=seen.append)
    assert whole.delta_.item is not None
    for progress in seen:
        stored = Progress.from_json(progress.to_json(), progress.arrays, progress.checkpoint_key)
        again = model().fit(factors, split, categories, resume=stored)
        assert again.delta_.item is not None
        assert torch.equal(again.delta_.item, whole.delta_.item)
        assert again.history_ == whole.history_


def test_same_seed_same_bits_on_one_and_two_threads() -> None:
    import numba

    factors, split, categories = world(5)
    results = []
    before = torch.get_num_threads(), numba.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
            results.append(
                shared("subtopic_coverage", "recall", lambda1=0.1, iterations=20, k=5, seed=9).fit(
                    factors, split, categories
                )
            )
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
    first, second = (result.delta_.item for result in results)
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    other = shared("subtopic_coverage", "recall", lambda1=0.1, iterations=20, k=5, seed=10).fit(
        factors, split, categories
    )
    assert other.delta_.item is not None
    assert not torch.equal(first, other.delta_.item)


def test_what_is_kept() -> None:
    factors, split, categories = world(6)
    fitted = {
        keep: shared("subtopic_coverage", iterations=30, k=5, keep=keep, lambda1=0.05).fit(factors, split, categories)  # type: ignore[arg-type]
        for keep in ("last", "greedy", "best")
    }
    histories = {model.history_ for model in fitted.values()}
    assert len(histories) == 1, "what is kept does not change what is tried"
    context = Context.from_split(split, "validation", categories=categories, vectors=factors.item)
    for keep, wanted in (
        ("last", fitted["last"].history_[-1]),
        ("best", max(fitted["best"].history_, key=lambda s: s.reward)),
    ):
        items, _ = fitted[keep].factors_.rank(5, exclude=split.train)
        assert evaluate(items, context, ["subtopic_coverage@5"], bootstrap=0)[
            "subtopic_coverage@5"
        ].mean == pytest.approx(wanted.psi)


def test_patience_stops_a_search_without_progress() -> None:
    factors, split, categories = world(7)
    model = shared("catalogue_coverage", iterations=500, k=5, patience=10).fit(factors, split, categories)
    assert model.converged_
    assert len(model.history_) < 500
    best = max(range(len(model.history_)), key=lambda i: model.history_[i].reward)
    assert len(model.history_) - 1 - best == 10


def tail_share_of_lists(tail: set[int]) -> Callable[[Lists, Context], torch.Tensor]:
    def at_least_one(lists: Lists, _: Context) -> torch.Tensor:
        return torch.isin(lists.items, torch.tensor(sorted(tail))).any(1)

    return at_least_one


def test_a_metric_of_your_own() -> None:
    factors, split, _ = world(8)
    metric = tail_share_of_lists({20, 21, 22, 23, 24})
    before = (
        metric(Lists(factors.rank(3, exclude=split.train)[0], Context(n_items=25)), Context(n_items=25)).double().mean()
    )
    model = shared(metric, iterations=60, k=3).fit(factors, split)
    assert max(step.psi for step in model.history_) > float(before)
    assert model.settings()["diversity"] == "at_least_one"
    with pytest.raises(InputError, match="needed but not given: what the items are about"):
        shared("subtopic_coverage", iterations=1).fit(factors, split)


def test_the_gradient_variant_raises_ilad() -> None:
    factors, split, categories = world(9, n_items=60)
    model = shared("ilad", policy="gradient", iterations=40, k=5, learning_rate=0.02).fit(factors, split, categories)
    assert model.history_[-1].psi > model.history_[0].psi + 0.05
    assert model.delta_.item is not None
    assert model.delta_.item.abs().max() <= 0.3 * np.abs(factors.item).max() * 1.0001
    with pytest.raises(InputError, match="differentiable objective"):
        shared("subtopic_coverage", policy="gradient", iterations=1).fit(factors, split, categories)


def test_soft_ilad_is_ilad() -> None:
    factors, split, _ = world(10)
    items, _ = factors.rank(6, exclude=split.train)
    items[0, 2:] = -1
    exact = evaluate(items, Context(vectors=factors.item), ["ilad@6"], bootstrap=0)["ilad@6"].mean
    assert float(soft_ilad(torch.from_numpy(factors.item), torch.from_numpy(items))) == pytest.approx(exact, abs=1e-5)


def test_the_item_bias_is_never_perturbed() -> None:
    factors, split, categories = world(11)
    biased = Factors.from_arrays(factors.user, factors.item, item_bias=np.linspace(-3, 3, 25))
    model = shared("subtopic_coverage", iterations=5, k=5).fit(biased, split, categories)
    assert (model.factors_.item_bias == biased.item_bias).all()  # type: ignore[union-attr,operator]
    space = FactorSpace(biased, split.train)
    assert (space.lists(torch.zeros(space.n_players), 5).numpy() == biased.rank(5, exclude=split.train)[0]).all()


def test_the_gradient_variant_gives_the_same_bits_every_time(small: Dataset) -> None:
    split = small.split(seed=0)
    rng = np.random.default_rng(0)
    shapes = ((split.n_users, 16), (split.n_items, 16))
    factors = Factors.from_arrays(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    found = [shared("ilad", policy="gradient", iterations=4).fit(factors, split).delta_.item for _ in range(3)]
    assert torch.equal(found[0], found[1])  # type: ignore[arg-type]
    assert torch.equal(found[0], found[2])  # type: ignore[arg-type]


def test_save_and_load(tmp_path: Path) -> None:
    factors, split, categories = world(13)
    model = shared("subtopic_coverage", "recall", iterations=5, k=5, side="both").fit(factors, split, categories)
    model.save(tmp_path)
    loaded = CMB.load(tmp_path)
    assert loaded.settings() == model.settings()
    assert loaded.history_ == model.history_
    assert (loaded.factors_.item == model.factors_.item).all()
    assert (loaded.factors_.user == model.factors_.user).all()
    before, after = loaded.evaluate(split, categories, ["subtopic_coverage@5", "ndcg@5"], bootstrap=0)
    assert before["subtopic_coverage@5"].mean != after["subtopic_coverage@5"].mean
    assert loaded.recommend(0, 5)[0].shape == (5,)
    (tmp_path / "cmb.json").write_text("{}")
    with pytest.raises(InputError, match=r"made from another cmb\.json"):
        CMB.load(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        CMB.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="has not been fitted"):
        CMB().recommend(0)


def test_the_paper_preset() -> None:
    model = CMB.preset("paper", diversity="subtopic_coverage", accuracy="recall")
    assert (model.max_step, model.n_arms, model.iterations, model.epsilon, model.k) == (0.3, 61, 200, 0.1, 20)
    assert (model.lambda1, model.lambda2, model.ties, model.keep, model.scaling) == (
        5.0,
        0.9,
        "first",
        "last",
        "global",
    )
    assert model.reward_on == "test"
    with pytest.raises(InputError, match="no setting 'arms'"):
        CMB.preset("paper", arms=3)
    with pytest.raises(InputError, match="unknown preset"):
        CMB.preset("best")


@pytest.mark.parametrize(
    "settings",
    [
        {"lambda1": -1.0},
        {"lambda2": 1.5},
        {"penalty": "max"},
        {"policy": "thompson"},
        {"max_step": 0.0},
        {"n_arms": 1},
        {"iterations": 0},
        {"ties": "last"},
        {"keep": "all"},
        {"patience": 0},
    ],
)
def test_bad_settings_are_refused_at_once(settings: dict[str, object]) -> None:
    with pytest.raises(InputError):
        shared(**settings)  # type: ignore[arg-type]


def test_a_split_without_validation_is_refused() -> None:
    factors, split, categories = world(14)
    with pytest.raises(InputError, match="no validation part to take the reward from"):
        shared("subtopic_coverage").fit(factors, split.refit(), categories)


@given(st.integers(0, 1000))
def test_controls(seed: int) -> None:
    delta = torch.from_numpy(np.random.default_rng(seed).normal(size=(7, 5)).astype(np.float32))
    for within, axis in (("all", None), ("item", 1), ("factor", 0)):
        shuffled = permuted(delta, seed, within)
        ours, theirs = (np.sort(matrix.numpy(), axis=axis) for matrix in (delta, shuffled))
        assert np.array_equal(ours, theirs)
        assert not torch.equal(delta, shuffled)
    made = noise((200, 50), 0.3, seed)
    assert made.abs().max() <= 0.3
    assert 0.08 < (made != 0).float().mean() < 0.12
