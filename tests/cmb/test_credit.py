"""Marginal credit: worths agree with exchanges, players learn, and no label is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb import CMB, MarginalCredit
from recprism.cmb.controls import permuted
from recprism.cmb.credit.marginal import to_items, to_users
from recprism.cmb.credit.worth import MARGINAL_GAINS, by_exchange, marginal_gain_of
from recprism.cmb.objective import resolve
from recprism.cmb.search_loop import Progress
from recprism.data import Dataset, SparseRows, Split
from recprism.errors import InputError
from recprism.metrics import METRICS, Context, Lists, evaluate
from recprism.models import BPRMF, Factors


def candidates(seed: int, n_users: int = 12, n_items: int = 30, width: int = 12) -> tuple[torch.Tensor, Context]:
    rng = np.random.default_rng(seed)
    items = np.stack([rng.permutation(n_items)[:width] for _ in range(n_users)])
    context = Context(
        relevant=rng.random((n_users, n_items)) < 0.2,
        train=rng.random((n_users, n_items)) < 0.2,
        categories=rng.random((n_items, 6)) < 0.3,
        vectors=rng.normal(size=(n_items, 4)),
        attributes=rng.normal(size=(n_items, 4)),
    )
    return torch.from_numpy(items), context


@given(st.integers(0, 500))
def test_the_fast_formula_of_coverage_equals_the_exchange(seed: int) -> None:
    items, context = candidates(seed)
    assert torch.allclose(
        MARGINAL_GAINS["subtopic_coverage"](items, 5, context),
        by_exchange(resolve("subtopic_coverage"))(items, 5, context),
        atol=1e-6,
    )


@pytest.mark.parametrize("name", ["alpha_ndcg", "ilad", "ilad_subtopics"])
def test_the_other_fast_formulas_rank_candidates_as_exchanges_do(name: str) -> None:
    items, context = candidates(3, n_users=200)
    short, long = (way(items, 5, context)[:, 5:] for way in (MARGINAL_GAINS[name], by_exchange(resolve(name))))
    agree = [np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1] for a, b in zip(short, long, strict=True)]
    assert np.mean(agree) > 0.8


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_registered_metric_can_be_credited(name: str) -> None:
    items, context = candidates(1, width=45, n_items=60)
    worth = marginal_gain_of(name)(items, 20, context)
    assert worth.shape == items.shape
    assert bool(torch.isfinite(worth).all())


def test_a_worth_points_to_what_is_better() -> None:
    items, context = candidates(2)
    exposure = torch.bincount(items[:, :5].flatten(), minlength=30)
    for name in ("gini", "exposure_entropy", "personalisation", "catalogue_coverage"):
        worth = marginal_gain_of(name)(items, 5, context)[:, 5:]
        rare, common = exposure[items[:, 5:]] == 0, exposure[items[:, 5:]] >= 3
        assert worth[rare].mean() > worth[common].mean(), name


def test_rewards_are_sums_over_the_other_side() -> None:
    items, _ = candidates(4)
    rng = np.random.default_rng(0)
    user, item = (torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in ((12, 4), (30, 4)))
    pull = torch.from_numpy(rng.normal(size=items.shape).astype(np.float32))
    by_item, by_user = torch.zeros(30, 4), torch.zeros(12, 4)
    for u in range(12):
        for c in range(items.shape[1]):
            by_item[items[u, c]] += pull[u, c] * user[u]
            by_user[u] += pull[u, c] * item[items[u, c]]
    assert torch.allclose(to_items(pull, items, user, 30), by_item, atol=1e-5)
    assert torch.allclose(to_users(pull, items, item), by_user, atol=1e-5)


def test_the_pulls_of_a_user_sum_to_nothing() -> None:
    items, context = candidates(5)
    scores = torch.linspace(1, 0, items.shape[1]).repeat(len(items), 1)
    credit = MarginalCredit(goals={"subtopic_coverage": 1.0})
    pull = credit.pull(items, scores, scores, 5, credit.worths(items, 5, context))
    assert pull.abs().sum(1).min() > 0.1
    assert pull.sum(1).abs().max() < 1e-5


@pytest.fixture(scope="module")
def trained(small: Dataset) -> tuple[Dataset, Split, Factors]:
    split = small.split(seed=0)
    return small, split, BPRMF().fit(split, seed=0, device="cpu")


def change(model: CMB, delta: object, data: Dataset, split: Split) -> dict[str, float]:
    context = Context.from_split(split, "validation", categories=data.categories, vectors=model.base_.item)
    values = []
    for factors in (model.base_, delta.applied_to(model.base_)):  # type: ignore[attr-defined]
        lists, _ = factors.rank(10, exclude=split.train)
        found = evaluate(
            lists,
            context,
            ["ndcg@10", "subtopic_coverage@10", "catalogue_coverage@10", "ilad_subtopics@10"],
            bootstrap=0,
        )
        values.append({score.name: score.mean for score in found.scores})
    return {name: values[1][name] / values[0][name] - 1 for name in values[0]}


@pytest.mark.slow
@pytest.mark.parametrize("side", ["item", "user", "both"])
@pytest.mark.parametrize("goal", ["subtopic_coverage", "ilad_subtopics", "catalogue_coverage"])
def test_players_learn_what_they_are_paid_for(trained: tuple[Dataset, Split, Factors], side: str, goal: str) -> None:
    data, split, factors = trained
    model = CMB(goal, side=side, device="cpu").fit(factors, split, data.categories)  # type: ignore[arg-type]
    learned = change(model, model.delta_, data, split)
    assert learned[f"{goal}@10"] > 0.05
    assert learned["ndcg@10"] > -0.06
    shuffled = replace(
        model.delta_,
        item=None if model.delta_.item is None else permuted(model.delta_.item, 0),
        user=None if model.delta_.user is None else permuted(model.delta_.user, 0),
    )
    # What is learned is which factor of whom: the same values elsewhere do not do it.
    assert change(model, shuffled, data, split)[f"{goal}@10"] < learned[f"{goal}@10"] / 3


@pytest.mark.slow
def test_several_goals_at_once(trained: tuple[Dataset, Split, Factors]) -> None:
    data, split, factors = trained
    alone = CMB("subtopic_coverage", side="user", device="cpu").fit(factors, split, data.categories)
    both = CMB({"subtopic_coverage": 1.0, "catalogue_coverage": 1.0}, side="user", device="cpu").fit(
        factors, split, data.categories
    )
    one, two = (change(model, model.delta_, data, split) for model in (alone, both))
    assert two["catalogue_coverage@10"] > one["catalogue_coverage@10"] + 0.05
    assert two["subtopic_coverage@10"] > 0.05
    assert both.settings()["diversity"] == {"subtopic_coverage": 1.0, "catalogue_coverage": 1.0}


@pytest.mark.slow
def test_a_price_gives_exact_zeros(trained: tuple[Dataset, Split, Factors]) -> None:
    data, split, factors = trained
    shares, gains = [], []
    for price in (0.0, 0.2, 0.6):
        model = CMB("subtopic_coverage", lambda1=price, device="cpu").fit(factors, split, data.categories)
        assert model.delta_.item is not None
        shares.append(float((model.delta_.item == 0).float().mean()))
        gains.append(change(model, model.delta_, data, split)["subtopic_coverage@10"])
    assert shares == sorted(shares)
    assert shares[2] > 0.5
    assert gains[2] > 0


@pytest.mark.parametrize("side", ["item", "both"])
def test_only_the_named_factors_move(trained: tuple[Dataset, Split, Factors], side: str) -> None:
    data, split, factors = trained
    model = CMB("subtopic_coverage", side=side, only=(3, 7), iterations=4, device="cpu")  # type: ignore[arg-type]
    model.fit(factors, split, data.categories)
    for moved in (model.delta_.item, model.delta_.user):
        if moved is not None:
            others = [at for at in range(factors.dim) if at not in (3, 7)]
            assert (moved[:, others] == 0).all()
            assert (moved[:, [3, 7]] != 0).any()
    for wrong in ((), (1, 1), (50,)):
        with pytest.raises(InputError, match="name distinct factors"):
            CMB("subtopic_coverage", only=wrong, device="cpu").fit(factors, split, data.categories)


def test_a_function_of_your_own(trained: tuple[Dataset, Split, Factors]) -> None:
    data, split, factors = trained
    odd = torch.arange(split.n_items) % 2 == 1

    def odd_share(lists: Lists, _: Context) -> torch.Tensor:
        return (odd[lists.items.clamp(min=0)] & (lists.items >= 0)).float().mean(1)

    model = CMB(odd_share, candidates=15, iterations=8, device="cpu").fit(factors, split, data.categories)
    before, after = (f.rank(10, exclude=split.train)[0] for f in (factors, model.factors_))
    assert (after % 2 == 1).mean() > (before % 2 == 1).mean() + 0.03
    with pytest.raises(InputError, match="one number for all lists"):
        CMB(lambda *_: 1.0, iterations=1, device="cpu").fit(factors, split)


def test_no_label_is_used(trained: tuple[Dataset, Split, Factors]) -> None:
    data, split, factors = trained
    nothing = SparseRows.empty(split.train.shape)
    blind = replace(split, test=nothing, validation=nothing)
    seeing = replace(split, test=nothing)
    one, two = (
        CMB("subtopic_coverage", iterations=5, device="cpu").fit(factors, it, data.categories) for it in (blind, seeing)
    )
    assert torch.equal(one.delta_.item, two.delta_.item)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="looks at labels"):
        CMB("ndcg", reward_on="test").fit(factors, split, data.categories)


def test_an_interrupted_search_resumes_to_the_same_bits(trained: tuple[Dataset, Split, Factors]) -> None:
    data, split, factors = trained
    seen: list[Progress] = []
    whole = CMB("subtopic_coverage", iterations=6, device="cpu").fit(
        factors, split, data.categories, follow=seen.append
    )
    again = CMB("subtopic_coverage", iterations=6, device="cpu").fit(factors, split, data.categories, resume=seen[2])
    assert torch.equal(whole.delta_.item, again.delta_.item)  # type: ignore[arg-type]
    assert whole.history_ == again.history_


@pytest.mark.parametrize(
    "settings",
    [
        {"credit": "equal"},
        {"accuracy": "recall"},
        {"policy": "ucb"},
        {"keep": "greedy"},
        {"relevance": 2.0},
        {"width": 0.0},
        {"rate": 0.0},
        {"iterations": 0},
        {"diversity": {}},
        {"diversity": {"subtopic_coverage": -1.0}},
    ],
)
def test_bad_settings(settings: dict[str, object]) -> None:
    with pytest.raises(InputError):
        CMB(**settings)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        MarginalCredit({})
