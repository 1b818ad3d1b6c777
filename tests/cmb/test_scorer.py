"""A model that is not a dot product: a small two-layer network, trained here and perturbed through its scores alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recprism.cmb import CMB
from recprism.cmb.space import FactorSpace, ScorerSpace
from recprism.data import Categories, SparseRows, Split
from recprism.errors import InputError
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.ranking import topk
from recprism.ranking.scores import rank_scores

N_USERS, N_ITEMS, DIM = 40, 30, 6


class TwoLayers(nn.Module):
    """score(u, v) = w . relu(A p_u + B x_v): item features x_v are input, the rest is learned."""

    def __init__(self, item_features: Tensor) -> None:
        super().__init__()
        self.n_users = N_USERS
        self.item_features = item_features
        self.user = nn.Embedding(N_USERS, 8)
        self.of_user, self.of_item, self.out = nn.Linear(8, 16), nn.Linear(DIM, 16), nn.Linear(16, 1)

    def scores(self, first: int, last: int, item_features: Tensor) -> Tensor:
        hidden = self.of_user(self.user.weight[first:last])[:, None] + self.of_item(item_features)[None]
        return self.out(torch.relu(hidden))[..., 0]


@pytest.fixture(scope="module")
def trained() -> tuple[TwoLayers, Split, Categories]:
    """Users of two tastes, items of two kinds; features give the kind."""
    generator = np.random.default_rng(0)
    torch.manual_seed(0)
    kind = np.arange(N_ITEMS) % 2
    features = generator.normal(size=(N_ITEMS, DIM)) * 0.5 + kind[:, None]
    likes = generator.random((N_USERS, N_ITEMS)) < np.where(np.arange(N_USERS)[:, None] % 2 == kind, 0.6, 0.05)
    parts = generator.choice(3, size=likes.shape, p=[0.6, 0.2, 0.2])
    train, validation, test = (SparseRows.coerce(likes & (parts == part)) for part in range(3))
    model = TwoLayers(torch.from_numpy(features.astype(np.float32)))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    wanted = torch.from_numpy(train.dense().astype(np.float32))
    for _ in range(150):
        loss = nn.functional.binary_cross_entropy_with_logits(model.scores(0, N_USERS, model.item_features), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    categories = Categories.from_pairs(np.arange(N_ITEMS), [f"kind {k}" for k in kind], N_ITEMS)
    return model, Split(train, validation, test, np.arange(N_USERS), np.arange(N_ITEMS)), categories


def test_the_network_has_learned_the_tastes(trained: tuple[TwoLayers, Split, Categories]) -> None:
    model, split, categories = trained
    space = ScorerSpace(model, split.train)
    lists = space.lists(torch.zeros(space.n_players), 5)
    own_kind = (lists % 2) == (torch.arange(N_USERS)[:, None] % 2)
    assert own_kind.float().mean() > 0.8, "chance would be a half"
    assert (
        evaluate(lists, Context(categories=categories), ["subtopic_coverage@5"], bootstrap=0)[
            "subtopic_coverage@5"
        ].mean
        < 0.75
    )


def test_players_diversify_it_through_its_scores_alone(trained: tuple[TwoLayers, Split, Categories]) -> None:
    model, split, categories = trained
    before = model.item_features.clone()
    cmb = CMB.preset("shared", diversity="subtopic_coverage", iterations=60, k=5, max_step=0.6).fit_scorer(
        model, split, categories
    )
    assert torch.equal(model.item_features, before), "the model itself is left alone"
    base = ScorerSpace(model, split.train).lists(torch.zeros(N_ITEMS * DIM), 5)
    base_sc = evaluate(base, Context(categories=categories), ["subtopic_coverage@5"], bootstrap=0)[
        "subtopic_coverage@5"
    ].mean
    assert max(step.psi for step in cmb.history_) > base_sc + 0.05
    with pytest.raises(InputError, match="shows only scores"):
        CMB.preset("shared", diversity="ilad", policy="gradient").fit_scorer(model, split, categories)


class DotProduct:
    def __init__(self, factors: Factors) -> None:
        self.n_users = factors.n_users
        self.user = torch.from_numpy(factors.user)
        self.item_features = torch.from_numpy(factors.item)

    def scores(self, first: int, last: int, item_features: Tensor) -> Tensor:
        return self.user[first:last] @ item_features.T


def test_a_dot_product_gives_the_same_lists_either_way() -> None:
    generator = np.random.default_rng(1)
    # Small whole numbers: scores are exact and ties are many.
    factors = Factors.from_arrays(generator.integers(-3, 4, (50, 3)), generator.integers(-3, 4, (33, 3)))
    seen = SparseRows.coerce(generator.random((50, 33)) < 0.2)
    fast, slow = FactorSpace(factors, seen), ScorerSpace(DotProduct(factors), seen, block=7)
    values = torch.from_numpy(generator.integers(-1, 2, 99) / 3).float()
    assert torch.equal(fast.lists(values, 10), slow.lists(values, 10))


def test_rank_scores_follows_the_rules_of_topk() -> None:
    generator = np.random.default_rng(2)
    user, item = (torch.from_numpy(generator.integers(-2, 3, (n, 2)).astype(np.float32)) for n in (20, 12))
    seen = SparseRows.coerce(generator.random((20, 12)) < 0.5)
    for k in (1, 5, 12, 15):
        ours = rank_scores(lambda a, b: user[a:b] @ item.T, (20, 12), k, exclude=seen, block=3)
        theirs = topk(user, item, k, exclude=seen)
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])
    kept = user @ item.T
    rank_scores(lambda a, b: kept[a:b], (20, 12), 5, exclude=seen)
    assert torch.equal(kept, user @ item.T), "a scorer may keep its array"
    with pytest.raises(InputError, match=r"gave scores of shape \(3, 2\)"):
        rank_scores(lambda a, b: user[a:b], (20, 12), 3, block=3)
    with pytest.raises(InputError, match="every score must be a finite number"):
        rank_scores(lambda a, b: torch.full((b - a, 12), torch.nan), (20, 12), 3)
