"""The conformance suites find what does not conform."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from reranker_checks import check_reranker
from torch import Tensor

from recprism.metrics import METRICS, Lists, Metric
from recprism.rivals import MMR
from recprism.rule import Features, Reranker
from recprism.rule.pool import Pool
from recprism.testing import check_metric

FACTS: dict[str, Any] = {"summary": "A test.", "empties": "None.", "bounds": (0.0, 1e9)}


def of_lists(function: Any, **facts: Any) -> Metric:
    return Metric("own", lambda lists, _: function(lists), **{**FACTS, **facts})


def number_of_first_item(lists: Lists) -> Tensor:
    return lists.items[:, 0].clamp(min=0).double()


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (replace(METRICS["recall"], summary=""), "no summary"),
        (replace(METRICS["recall"], empties=""), "`empties`"),
        (replace(METRICS["ilad"], bounds=(0.0, 0.1)), "leaves its bounds"),
        (replace(METRICS["recall"], per_user=False), "values of shape"),
        (of_lists(number_of_first_item), "depends on the numbers of items"),
        (of_lists(lambda lists: torch.arange(lists.n_users).double()), "depends on the order of users"),
        (of_lists(lambda lists: torch.full((lists.n_users,), lists.depth)), "depends on empty places after the cut"),
    ],
)
def test_a_broken_metric_is_found(metric: Metric, problem: str) -> None:
    with pytest.raises(AssertionError, match=f"^metric '{metric.name}' .*{problem}"):
        check_metric(metric)


def test_declared_exceptions_are_accepted() -> None:
    check_metric(of_lists(number_of_first_item), numbering_matters=True)
    with pytest.raises(AssertionError, match="depends on the order inside a list"):
        check_metric(METRICS["ndcg"], order_matters=False)


@dataclass(frozen=True, kw_only=True)
class Reversed(Reranker):
    """Ignores the trade-off."""

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:  # noqa: ARG002
        ranks = pool.lengths[:, None] - 1 - torch.arange(k)
        return torch.where(ranks >= 0, ranks, -1)


@dataclass(frozen=True, kw_only=True)
class ByNumber(Reranker):
    """Prefers small item numbers."""

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:  # noqa: ARG002
        filled = torch.arange(pool.items.shape[1]) < pool.lengths[:, None]
        number = torch.where(filled, pool.items, torch.iinfo(torch.int64).max)
        order = number.argsort(1)[:, :k] if self.trade_off else torch.arange(k).expand(pool.n_users, k)
        return torch.where(torch.arange(k) < pool.lengths[:, None], order, -1)


@pytest.mark.parametrize(
    ("method", "problem"),
    [(Reversed, "trade_off=0 is not the base list"), (ByNumber, "the lists depend on the numbers of items")],
)
def test_a_broken_reranker_is_found(method: type[Reranker], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_reranker(method)


def test_a_sound_reranker_passes() -> None:
    check_reranker(MMR)
