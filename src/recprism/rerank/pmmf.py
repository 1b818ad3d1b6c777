"""P-MMF, provider max-min fairness (Xu, Chen, Xu et al., 2023): a price on every provider, learnt as users are served.

The paper's objective, for users who arrive one after another: the sum of relevance, plus lambda times the exposure of
the worst-off provider as a share of what it may get at most (its capacity). The dual of that program has one price for
each provider; prices follow from mirror descent, one step for each user, and a list is the k best of relevance - price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.rerank._choices import TIE, compiled_for
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker, require_between, require_whole
from recprism.rerank.exposure import order_of_service
from recprism.rerank.features import Features

ENOUGH = 1e-14  # of an allowance of 1: prices that overdraw it by less need no correction


@dataclass(frozen=True, kw_only=True)
class PMMF(Reranker):
    """A user gets the k candidates with the largest (1 - t) * relevance - t * price of the provider, best first.

    t is ``trade_off``: the paper's algorithm with lambda = t / (1 - t) and steps in proportion to lambda. A provider
    that was shown less than its share has a price below 0, a premium; all premiums together, each times the provider's
    share, are at most 1. Every item is a provider of its own, with equal shares, unless ``Features(providers=...)``
    groups them: then a group's share is that of its items. Users are served one after another; prices start at 0.

    What differs from the paper and its authors' code: the projection onto allowed prices is computed exactly instead
    of by a solver; a provider at its capacity is kept away by its price alone, not barred (else trade_off 0 would not
    be the base list); all users are one period; only providers of somebody's candidates exist (nothing can be done for
    the others); a share goes by items, not by interactions; and the step is scaled by the number of providers.

    capacity: how many times its share of all places a provider may get before its price rises above 0. Just above 1,
        as in the authors' code, makes all exposure equal whatever the trade-off; None for no limit but the number of
        providers, which leaves best-sellers alone and only lifts those behind
    step: how fast prices move: one that is shown moves by about step / sqrt(places / providers)
    momentum: how much of the direction of a step comes from the steps before; 1 - alpha of the paper
    seed: None serves users in the order of the rows; a number serves them in the random order of that seed
    """

    capacity: float | None = None
    step: float = 1.0
    momentum: float = 0.9
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity is not None:
            require_between("capacity", self.capacity, 0, math.inf, ends=False)
        require_between("step", self.step, 0, math.inf, ends=False)
        require_between("momentum", self.momentum, 0, 1)
        require_whole("seed", self.seed, "for the order of the rows")

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        """One user after another is no work for a GPU: candidates come over to the processor."""
        here = pool.to("cpu")
        market = Market.of(here, features.providers_of(pool.n_items).cpu(), k, float(self.step), self.capacity)
        compiled = compiled_for(here.device)
        by = plain_provide if compiled is None else compiled.provide
        terms = {"trade_off": float(self.trade_off), "momentum": float(self.momentum)}
        positions: Tensor = by(here, market, order_of_service(pool.n_users, self.seed), k, **terms)
        return positions.to(pool.device)


@dataclass(frozen=True, eq=False)
class Market:
    """Who offers items, and what is to be shared.

    provider: (n_items,) int64 from 0 to n_providers - 1; of no meaning for items that are nobody's candidates
    share: (n_providers,) float64, the provider's share of the items
    places: how many there are in all lists together
    capacity: how many times its share of them a provider may get
    rate: eta of the paper
    """

    provider: Tensor
    share: Tensor
    places: float
    capacity: float
    rate: float

    @classmethod
    def of(cls, pool: Pool, provider: Tensor, k: int, step: float, capacity: float | None) -> Market:
        offered = torch.zeros(len(provider) + 1, dtype=torch.bool)  # the last is for empty places, -1
        offered[pool.items.flatten()] = True
        sizes = torch.bincount(provider[offered[:-1]], minlength=int(provider.max()) + 1 if len(provider) else 0)
        n_providers = max(1, int((sizes > 0).sum()))
        number = ((sizes > 0).cumsum(0) - 1).clamp(min=0)
        share = sizes[sizes > 0].to(torch.float64) / max(1, int(sizes.sum()))
        places = float(pool.lengths.clamp(max=k).sum())
        # An item shown is 1 / k of a user's list, and moves a price by rate / (k * share ** 2).
        rate = step * k / n_providers**2 / math.sqrt(max(1.0, places / n_providers))
        return cls(number[provider], share, places, float(n_providers if capacity is None else capacity), rate)


def plain_provide(pool: Pool, market: Market, order: Tensor, k: int, *, trade_off: float, momentum: float) -> Tensor:
    """(n_users, k) positions, in torch; order: (n_users,) the users as they are served."""
    positions = torch.full((pool.n_users, k), -1)
    weighted = torch.zeros_like(market.share)  # prices times shares: what the allowance is for
    direction = torch.zeros_like(market.share)
    left = market.capacity * market.places * market.share  # places a provider can still get
    for user in order.tolist():
        length = int(pool.lengths[user])
        if length == 0:
            continue
        provider = market.provider[pool.items[user, :length]]
        price = weighted[provider] / market.share[provider]
        best = _best((1 - trade_off) * pool.relevance[user, :length] - trade_off * price, k)
        positions[user, : len(best)] = best
        got = torch.bincount(provider[best], minlength=len(left)).to(left.dtype)
        left = left - got
        slope = left / market.places - got / len(best)
        direction = momentum * direction + (1 - momentum) * slope
        weighted = _allowed(weighted - market.rate * direction / market.share)
    return positions


def _best(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest; of equals, the first."""
    values, chosen = values.clone(), []
    for _ in range(min(k, len(values))):
        chosen.append(int((values >= values.max() - TIE).to(torch.int8).argmax()))
        values[chosen[-1]] = -torch.inf
    return torch.tensor(chosen, dtype=torch.int64)


def _allowed(weighted: Tensor) -> Tensor:
    """The nearest to ``weighted`` whose values below 0 add up to -1 at least.

    All below 0 are raised by one amount, none beyond 0. It is found by Newton's method: the sum is convex in the
    amount, so steps from below never go too far, and each one that is not the last takes providers out of the sum.
    """
    raised = 0.0
    while True:
        below = (weighted + raised).clamp(max=0)
        over, count = -float(below.sum()) - 1.0, int((below < 0).sum())
        if over <= ENOUGH:
            return torch.where(weighted < 0, below, weighted)
        raised += over / count
