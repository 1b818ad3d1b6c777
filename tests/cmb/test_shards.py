"""Users in shards, in one process: the sums of shards give the result of all users at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recprism.cmb import CMB
from recprism.cmb.credit.marginal import joint_deviation, spread_of
from recprism.cmb.history import Progress
from recprism.common.executor import LocalExecutor
from recprism.data import SparseRows, Split, Subtopics
from recprism.errors import InputError
from recprism.models import Factors


def world(n_users: int = 67, n_items: int = 40, d: int = 4) -> tuple[Factors, Split, Subtopics]:
    """Random factors, interactions and subtopics; some users have no validation items."""
    generator = np.random.default_rng(5)
    factors = Factors.from_arrays(generator.normal(size=(n_users, d)), generator.normal(size=(n_items, d)))
    parts = generator.choice(4, size=(n_users, n_items), p=[0.91, 0.03, 0.03, 0.03])
    train, validation, test = (SparseRows.coerce(parts == part) for part in (1, 2, 3))
    subtopics = Subtopics(tuple("abcdef"), SparseRows.coerce(generator.random((n_items, 6)) < 0.3))
    return factors, Split(train, validation, test, factors.user_ids, factors.item_ids), subtopics


@pytest.mark.parametrize(
    "diversity",
    [
        "subtopic_coverage",
        "catalogue_coverage",
        "personalisation",
        "gini",
        "exposure_entropy",
        "alpha_ndcg",
        "ilad",
        "catalogue_coverage@3",
        "novelty",
    ],
)
@pytest.mark.parametrize("side", ["item", "both"])
def test_the_first_reward_of_shards_is_that_of_all_lists_at_once(diversity: str, side: str) -> None:
    settings = {"diversity": diversity, "accuracy": "recall", "side": side, "k": 5, "iterations": 1, "epsilon": 0.5}
    whole, parts = (CMB.preset("shared", **settings, shards=shards).fit(*world()) for shards in (1, 4))
    assert parts.history_[0].psi == pytest.approx(whole.history_[0].psi, rel=1e-12)
    assert parts.history_[0].size == whole.history_[0].size


@pytest.mark.parametrize("diversity", ["subtopic_coverage", "catalogue_coverage", "ilad", "ndcg@3", "calibration"])
@pytest.mark.parametrize("side", ["item", "user", "both"])
def test_marginal_credit_is_nearly_the_same_for_any_shards(diversity: str, side: str) -> None:
    """Sums in another order differ in their last digits; values therefore differ by one arm at most."""
    settings = {"diversity": diversity, "side": side, "k": 5, "candidates": 10, "iterations": 4}
    whole, parts = (CMB(**settings, shards=shards).fit(*world()) for shards in (1, 4))
    for name in ("item", "user"):
        one, other = getattr(whole.delta_, name), getattr(parts.delta_, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert float((one - other).abs().max()) <= 1.01e-4 * float(abs(getattr(world()[0], name)).max())


@pytest.mark.parametrize("settings", [{}, {"side": "both", "keep": "best"}, {"credit": "shared", "n_arms": 61}])
def test_a_search_in_shards_can_be_resumed(settings: dict[str, object]) -> None:
    def model(iterations: int) -> CMB:
        return CMB(**{"k": 5, "candidates": 10, "shards": 3, "iterations": iterations, **settings})

    seen: list[Progress] = []
    whole = model(6).fit(*world(), follow=seen.append)
    resumed = model(6).fit(*world(), resume=seen[2])
    assert whole.history_ == resumed.history_
    assert torch.equal(whole.delta_.item, resumed.delta_.item)


def test_the_joint_deviation_is_that_of_all_values() -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(50, 7, generator=generator) * 3 + 2
    items = torch.randint(-1, 5, (50, 7), generator=generator)
    values = torch.where(items >= 0, values, 0.0)
    parts = [spread_of(values[rows], items[rows]) for rows in (slice(0, 1), slice(1, 30), slice(30, 50))]
    assert float(joint_deviation(parts)) == pytest.approx(float(values[items >= 0].std()), rel=1e-6)


class Elsewhere(LocalExecutor):
    """An executor that counts as another machine, and has two shards by default."""

    in_process = False

    def default_shards(self) -> int:
        return 2


@pytest.mark.parametrize("settings", [{}, {"credit": "shared", "n_arms": 61}])
def test_the_result_depends_on_the_shards_and_not_on_the_executor(settings: dict[str, object]) -> None:
    def model(shards: int | None) -> CMB:
        return CMB(**{"k": 5, "candidates": 10, "iterations": 3, "shards": shards, "device": "cpu", **settings})

    here, there = model(2).fit(*world()), model(None).fit(*world(), executor=Elsewhere())
    assert here.history_ == there.history_
    assert torch.equal(here.delta_.item, there.delta_.item)


def test_an_executor_elsewhere_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(InputError, match="workers of Elsewhere rank on CPUs; drop device='cuda'"):
        CMB(device="cuda").fit(*world(), executor=Elsewhere())
    with pytest.raises(InputError, match="follows one gradient of all lists; run it without an executor"):
        CMB.preset("shared", diversity="ilad", policy="gradient").fit(*world(), executor=Elsewhere())
    with pytest.raises(InputError, match="one gradient of all lists; drop shards"):
        CMB.preset("shared", diversity="ilad", policy="gradient", shards=2)


def test_the_executor_is_no_setting() -> None:
    with pytest.raises(InputError, match="CMB has no setting 'engine'"):
        CMB.preset("default", engine="ray")
