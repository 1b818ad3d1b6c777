"""P-MMF, provider max-min fairness (Xu, Chen, Xu et al., 2023): each provider has a price, updated after each user.

Users arrive one after another. The paper's objective is the sum of relevance plus lambda times the exposure of the
worst-off provider, as a share of its capacity. The dual program has one price for each provider. Prices are updated by
mirror descent, one step for each user, and a list is the k best of relevance - price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from recprism.common.checks import POSITIVE, WEIGHT, Check
from recprism.rivals._kernels import providers
from recprism.rivals.exposure import ORDER_SEED, order_of_service
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool

ENOUGH = 1e-14  # prices that exceed the allowance of 1 by less than this need no correction


@dataclass(frozen=True, kw_only=True)
class PMMF(Reranker):
    """A user gets the k candidates with the largest (1 - t) * relevance - t * price of the provider, best first.

    t is ``trade_off``: the paper's algorithm with lambda = t / (1 - t) and steps proportional to lambda. A provider
    that was shown less than its share has a negative price, a premium. The premiums, each times the provider's share,
    add up to at most 1. By default each item is a provider of its own, with equal shares. ``Features(providers=...)``
    groups items; the share of a group is that of its items. Users are served one after another; prices start at 0.

    Differences from the paper and the authors' code:

    - The projection onto allowed prices is exact instead of by a solver.
    - A provider at its capacity is not barred, only more expensive; otherwise trade_off 0 would not be the base list.
    - All users are one period.
    - Only providers with candidates count.
    - Shares count items, not interactions.
    - The step is scaled by the number of providers.

    Attributes:
        capacity: How many times its share of all places a provider may get before its price rises above 0. A value
            just above 1, as in the authors' code, makes all exposure equal for any trade-off. None sets it to the
            number of providers: popular providers are not limited, and only the others are promoted.
        step: How fast prices move: the price of a provider that is shown moves by about
            step / sqrt(places / providers).
        momentum: Share of a step's direction that comes from earlier steps; 1 - alpha of the paper.
        seed: None serves users in the order of the rows; a number serves them in the random order of that seed.
    """

    capacity: float | None = None
    step: float = 1.0
    momentum: float = 0.9
    seed: int | None = None

    rules: ClassVar[Mapping[str, Check]] = {
        **Reranker.rules,
        "capacity": replace(POSITIVE, none="for the number of providers"),
        "step": POSITIVE,
        "momentum": WEIGHT,
        "seed": ORDER_SEED,
    }

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        provider = features.providers_of(pool.n_items).cpu()
        market = Market.of(pool.to("cpu"), provider, k, float(self.step), self.capacity)
        order = order_of_service(pool.n_users, self.seed)
        amounts = (market.places, market.capacity, market.rate)
        settings = (float(self.trade_off), float(self.momentum), ENOUGH, TIE)
        return pool.choose_in_turn(providers.provide, k, market.provider, market.share, order, amounts, settings)


@dataclass(frozen=True, eq=False)
class Market:
    """Providers and the places that they share.

    Attributes:
        provider: Provider of each item, from 0 to n_providers - 1, (n_items,) int64; arbitrary for items that are not
            candidates.
        share: The provider's share of the items, (n_providers,) float64.
        places: Number of places in all lists.
        capacity: How many times its share of the places a provider may get.
        rate: eta of the paper.
    """

    provider: Tensor
    share: Tensor
    places: float
    capacity: float
    rate: float

    @classmethod
    def of(cls, pool: Pool, provider: Tensor, k: int, step: float, capacity: float | None) -> Market:
        offered = torch.zeros(len(provider) + 1, dtype=torch.bool)  # the last entry is for empty places, -1
        offered[pool.items.flatten()] = True
        sizes = torch.bincount(provider[offered[:-1]], minlength=int(provider.max()) + 1 if len(provider) else 0)
        n_providers = max(1, int((sizes > 0).sum()))
        number = ((sizes > 0).cumsum(0) - 1).clamp(min=0)
        share = sizes[sizes > 0].to(torch.float64) / max(1, int(sizes.sum()))
        places = float(pool.lengths.clamp(max=k).sum())
        # A shown item is 1 / k of a user's list, so it moves a price by rate / (k * share ** 2).
        rate = step * k / n_providers**2 / math.sqrt(max(1.0, places / n_providers))
        return cls(number[provider], share, places, float(n_providers if capacity is None else capacity), rate)
