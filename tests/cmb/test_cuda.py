"""The search on a GPU: the same result as on the CPU, without waiting for the GPU inside the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recprism.cmb import CMB, EpsilonGreedy
from recprism.cmb._dual_averaging import dual_averaging
from recprism.cmb.credit.marginal import to_items
from recprism.cmb.history import Progress
from recprism.cmb.objective import Objective
from recprism.cmb.players._memory import Players, Ties
from recprism.cmb.players.arms import Arms
from recprism.cmb.search_loop import SearchSettings, search
from recprism.cmb.space import FactorSpace
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.metrics import Context
from recprism.models import Factors

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: the search on a GPU is not tested")


def world(n_users: int = 150, n_items: int = 900, dim: int = 12) -> tuple[Factors, Split, Categories]:
    rng = np.random.default_rng(0)
    factors = Factors.from_arrays(rng.normal(size=(n_users, dim)), rng.normal(size=(n_items, dim)))
    taken = rng.random((n_users, n_items)) < 0.05
    part = rng.integers(0, 3, taken.shape)
    train, validation, test = (SparseRows.coerce(taken & (part == number)) for number in range(3))
    categories = SparseRows.coerce(rng.random((n_items, 9)) < 0.2)
    split = Split(train, validation, test, factors.user_ids, factors.item_ids)
    return factors, split, Categories(tuple("abcdefghi"), categories)


@pytest.mark.parametrize("ties", ["first", "zero"])
@pytest.mark.parametrize("n_arms", [2, 61, 2001])
def test_the_kernel_finds_the_best_arms_of_torch(ties: Ties, n_arms: int) -> None:
    rng = np.random.default_rng(1)
    players = Players(777, n_arms, 100, ties=ties, zero=n_arms // 2, device="cuda")
    players.values.copy_(torch.from_numpy(rng.integers(-2, 2, (777, n_arms)).astype(np.float32)))
    assert torch.equal(players.greedy(0), players._best(players.values, 0))


@pytest.mark.parametrize(
    "settings", [{}, {"diversity": "subtopic_coverage", "accuracy": "recall", "keep": "best", "ties": "zero"}]
)
def test_the_papers_search_agrees_with_the_cpu(settings: dict[str, Any]) -> None:
    factors, split, categories = world()
    found = [
        CMB.preset("paper", iterations=30, seed=3, device=device, **settings).fit(factors, split, categories)
        for device in ("cpu", "cuda")
    ]
    assert found[1].delta_.item is not None and found[1].delta_.item.is_cuda
    for one, other in zip(found[0].history_, found[1].history_, strict=True):
        assert one.psi == pytest.approx(other.psi, rel=1e-9) and one.reward == pytest.approx(other.reward, rel=1e-9)
    np.testing.assert_allclose(found[0].delta_.item, found[1].delta_.item.cpu(), rtol=1e-6)


def test_marginal_credit_agrees_with_the_cpu() -> None:
    factors, split, categories = world()
    found = [
        CMB(diversity={"subtopic_coverage": 1.0, "catalogue_coverage": 0.5}, device=device).fit(
            factors, split, categories
        )
        for device in ("cpu", "cuda")
    ]
    for one, other in zip(found[0].history_, found[1].history_, strict=True):
        assert one.psi == pytest.approx(other.psi, rel=1e-3)
    one, other = (np.asarray(model.delta_.item.cpu()) for model in found)  # type: ignore[union-attr]
    assert np.abs(one - other).mean() < 1e-3 * np.abs(one).mean()  # slopes that are added up in another order


@pytest.mark.parametrize("credit", ["shared", "marginal"])
def test_the_same_seed_gives_the_same_bits(credit: str) -> None:
    factors, split, categories = world()
    models = [CMB(credit=credit, iterations=10, device="cuda").fit(factors, split, categories) for _ in range(2)]
    assert models[0].history_ == models[1].history_
    assert torch.equal(models[0].delta_.item, models[1].delta_.item)  # type: ignore[arg-type]


def test_rewards_of_item_players_on_both_devices() -> None:
    rng = np.random.default_rng(2)
    items = np.stack([rng.permutation(40)[:15] for _ in range(30)])
    items[3, 10:] = -1
    pull = torch.from_numpy(np.where(items >= 0, rng.normal(size=items.shape), 0).astype(np.float32))
    user = torch.from_numpy(rng.normal(size=(30, 6)).astype(np.float32))
    one, other = (to_items(pull.to(at), torch.from_numpy(items).to(at), user.to(at), 40) for at in ("cpu", "cuda"))
    torch.testing.assert_close(one, other.cpu(), rtol=1e-5, atol=1e-5)


class _Waiter:
    """Forbid waiting for the GPU after the first iterations, which warm up."""

    def __init__(self, space: FactorSpace) -> None:
        self.space, self.calls = space, 0

    def __enter__(self) -> None:
        rank = self.space.rank

        def watched(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls == 3:
                torch.cuda.set_sync_debug_mode("error")
            if self.calls == 8:
                torch.cuda.set_sync_debug_mode("default")
            return rank(*arguments)

        self.space.rank = watched  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    "objective",
    [Objective("subtopic_coverage"), Objective("subtopic_coverage", "recall", 5.0), Objective("alpha_ndcg")],
)
def test_nothing_leaves_the_gpu_under_shared_credit(objective: Objective) -> None:
    factors, split, categories = world()
    space = FactorSpace(factors, split.train, device="cuda")
    context = Context.from_split(split, "test", categories=categories, device="cuda")
    watch = _Waiter(space)
    with watch:
        found = search(space, context, objective, EpsilonGreedy(0.1), Arms(), SearchSettings(10, 20, keep="best"))
    assert watch.calls == 10 and len(found.history) == 10


@pytest.mark.parametrize("goal", ["subtopic_coverage", "catalogue_coverage", "ilad_subtopics", "gini"])
def test_nothing_leaves_the_gpu_under_marginal_credit(goal: str) -> None:
    factors, split, categories = world()
    space = FactorSpace(factors, split.train, side="both", device="cuda")
    context = Context(train=split.train, categories=categories, vectors=factors.item, device="cuda")
    watch = _Waiter(space)
    with watch:
        dual_averaging(space, context, CMB(goal, relevance=0.5, candidates=40, width=1.0, iterations=10))
    assert watch.calls == 10


@pytest.mark.parametrize("preset", ["default", "shared"])
def test_a_sample_of_users_agrees_with_the_cpu(preset: str) -> None:
    here, there = (
        CMB.preset(preset, iterations=5, users_per_step=20, k=10, device=device).fit(*world())
        for device in ("cpu", "cuda")
    )
    assert [step.users for step in there.history_] == [step.users for step in here.history_]
    assert there.history_[0].psi == pytest.approx(here.history_[0].psi, rel=1e-6)
    assert there.history_[0].error == pytest.approx(here.history_[0].error, rel=1e-6)


def test_follow_receives_every_step() -> None:
    factors, split, categories = world()
    seen: list[Progress] = []
    model = CMB(iterations=5, device="cuda").fit(factors, split, categories, follow=seen.append)
    assert [len(progress.steps) for progress in seen] == [1, 2, 3, 4, 5]
    assert seen[-1].steps == model.history_
