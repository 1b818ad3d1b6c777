"""The search for optimal lists in torch, for many users at once on a GPU.

It makes the exchanges of :mod:`recprism.rule.kernels.optimal`, each for all lists together. It covers goals that
look at sets of categories. Sums are added in another order, so that values differ by rounding errors alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.rule.earlier import nothing_earlier
from recprism.rule.kernels.optimal import CHAIN, MOVES
from recprism.rule.kernels.prices import TIE
from recprism.rule.kernels.worth import ACCURACY, ALPHA_DCG, CATEGORY, DISTANCE, HISTORY_WEIGHT, OF_FUNCTION, SHOWN
from recprism.rule.pool import Pool
from recprism.rule.terms import Terms

CELLS = 1 << 28  # of the largest temporary arrays together


def covers(terms: Terms) -> bool:
    """Return whether the goals look at sets of categories alone: neither order, nor distances, nor other lists."""
    return not terms.prices[[ALPHA_DCG, DISTANCE, SHOWN, OF_FUNCTION]].any()


def search_batched(pool: Pool, k: int, terms: Terms) -> Tensor:
    """Return positions of the best lists found, (n_users, k) int64, on the device of the pool."""
    positions = torch.arange(k, device=pool.device).expand(pool.n_users, k)
    positions = torch.where(positions < pool.lengths[:, None], positions, -1).contiguous()
    if pool.depth <= k:
        return positions
    table = _membership(terms, pool)
    choosing = (pool.lengths > k).nonzero().flatten()  # others have nothing to choose
    step = max(1, CELLS // (2 * pool.depth * (k + table.shape[1])))
    for start in range(0, len(choosing), step):
        users = choosing[start : start + step]
        positions[users] = _Block.of(pool, users, k, terms, table).best_lists()
    return positions


def _membership(terms: Terms, pool: Pool) -> Tensor:
    """Whether each item has each category, (n_items, n_categories) float64."""
    indptr, indices, n_categories = terms.categories
    table = torch.zeros((pool.n_items, n_categories), dtype=torch.float64, device=pool.device)
    starts = torch.as_tensor(indptr, device=pool.device)
    of_item = torch.repeat_interleave(torch.diff(starts), output_size=len(indices))
    table[of_item, torch.as_tensor(indices, device=pool.device).long()] = 1.0
    return table


def _left(terms: Terms, users: Tensor) -> Tensor:
    """Return the share of each category that earlier pages left to some users, or one row for all."""
    earlier = nothing_earlier(terms.categories[2]) if terms.earlier is None else terms.earlier
    return torch.from_numpy(earlier.of_users(users.cpu().numpy()).left)


@dataclass(frozen=True, eq=False)
class _Exchange:
    """The best exchange of each of R lists: gain, arriving and leaving position, (R,); the gain is -inf for none."""

    gain: Tensor
    arriving: Tensor
    leaving: Tensor

    def of(self, rows: Tensor) -> _Exchange:
        return _Exchange(self.gain[rows], self.arriving[rows], self.leaving[rows])

    def made(self, chosen: Tensor) -> Tensor:
        """Return the lists, (R, k), after the exchange, in the order of rank."""
        replaced = torch.where(chosen == self.leaving[:, None], self.arriving[:, None], chosen)
        after = replaced.sort(1).values
        return torch.where(self.gain[:, None] > -torch.inf, after, chosen)


@dataclass(frozen=True, eq=False)
class _Block:
    """Users of one block.

    Attributes:
        items: Item numbers of the candidates, (B, n).
        value: Their relevance times the price of accuracy, (B, n) float64; 0 in empty places.
        empty: Whether a place holds no candidate, (B, n) bool.
        table: Categories of all items, (n_items, n_categories) float64.
        discount: Discount of each place, (k,).
        price: Price of one more item of each category that a list lacks, (B or 1, n_categories).
        intents: Price of the history times the users' weights of categories, (B, n_categories); None if they do not
            count.
        filling: How far n items fill a category, (k + 2,).
    """

    items: Tensor
    value: Tensor
    empty: Tensor
    table: Tensor
    discount: Tensor
    price: Tensor
    intents: Tensor | None
    filling: Tensor

    @classmethod
    def of(cls, pool: Pool, users: Tensor, k: int, terms: Terms, table: Tensor) -> _Block:
        prices, items = terms.prices, pool.items[users]
        empty = items < 0
        intents = None
        if prices[HISTORY_WEIGHT] > 0:
            rows = torch.from_numpy(terms.intents)[users.cpu()]
            intents = float(prices[HISTORY_WEIGHT]) * rows.to(pool.device)
        return cls(
            items.clamp(min=0),
            float(prices[ACCURACY]) * pool.relevance[users].masked_fill(empty, 0.0),
            empty,
            table,
            torch.as_tensor(terms.discount[:k], device=pool.device),
            float(prices[CATEGORY]) * _left(terms, users).to(pool.device),
            intents,
            torch.as_tensor(terms.filling, device=pool.device),
        )

    def best_lists(self) -> Tensor:
        """Improve the most relevant and the greedy lists; return the better of each user's two, (B, k)."""
        n_users, k = len(self.items), len(self.discount)
        first = torch.arange(k, device=self.items.device).expand(n_users, k)
        lists = torch.cat([first, self._greedy()])
        owner = torch.arange(n_users, device=lists.device).repeat(2)
        self._improve(lists, owner)
        worth = self._worth(lists, owner)
        greedy_wins = worth[n_users:] > worth[:n_users] + TIE
        return torch.where(greedy_wins[:, None], lists[n_users:], lists[:n_users])

    def _steps(self, times: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        """Gain of one more and loss of one fewer item of each category, (R, n_categories) each."""
        price = self.price[owner % len(self.price)]
        more, fewer = price * (times == 0), price * (times == 1)
        if self.intents is not None:
            weight, n = self.intents[owner], times.long()
            now = self.filling[n]
            more = more + weight * (self.filling[n + 1] - now)
            fewer = fewer + weight * (now - self.filling[(n - 1).clamp(min=0)])
        return more.double(), fewer.double()

    def _greedy(self) -> Tensor:
        """Fill lists place by place with the best item; return them in the order of rank, (B, k)."""
        owner = torch.arange(len(self.items), device=self.items.device)
        has, barred = self.table[self.items], self.empty.clone()
        times, picks = torch.zeros_like(has[:, 0]), []
        for place in range(len(self.discount)):
            more, _ = self._steps(times, owner)
            value = self.value * self.discount[place] + (has @ more[:, :, None])[:, :, 0]
            value = value.masked_fill(barred, -torch.inf)
            pick = (value >= value.amax(1, keepdim=True) - TIE).to(torch.int8).argmax(1)
            times = times + has[owner, pick]
            barred[owner, pick] = True
            picks.append(pick)
        return torch.stack(picks, 1).sort(1).values

    def _improve(self, lists: Tensor, owner: Tensor) -> None:
        """Make exchanges in place, (R, k), until none helps any list."""
        active = torch.arange(len(lists), device=lists.device)
        for _ in range(MOVES):
            if not len(active):
                return
            found = self._best_exchange(lists[active], owner[active], None)
            better = found.gain > TIE
            moved, stuck = better.nonzero().flatten(), (~better).nonzero().flatten()
            lists[active[moved]] = found.of(moved).made(lists[active[moved]])
            helped = self._chain(lists, owner, active[stuck], found.of(stuck))
            active = torch.cat([active[moved], active[stuck[helped]]])

    def _chain(self, lists: Tensor, owner: Tensor, rows: Tensor, found: _Exchange) -> Tensor:
        """Try exchanges in sequence, each the best one even if it loses; return which lists improved, (r,) bool.

        Args:
            lists: All lists; improved ones are changed in place.
            owner: Their users.
            rows: Lists that no single exchange improves, (r,).
            found: Their best exchanges.
        """
        current, users = lists[rows], owner[rows]
        barred = torch.zeros_like(self.empty[users])
        best, kept = torch.full_like(found.gain, TIE), current
        total = torch.zeros_like(best)
        for step in range(min(CHAIN, current.shape[1], self.items.shape[1] - current.shape[1])):
            if step:
                found = self._best_exchange(current, users, barred)
            current = found.made(current)
            total = total + found.gain  # -inf from the step on that has no exchange left
            barred.scatter_(1, found.arriving[:, None], True).scatter_(1, found.leaving[:, None], True)
            better = total > best
            kept = torch.where(better[:, None], current, kept)
            best = torch.where(better, total, best)
        lists[rows] = kept
        return best > TIE

    def _best_exchange(self, chosen: Tensor, owner: Tensor, barred: Tensor | None) -> _Exchange:
        """Find the best exchange of each list, (R, k), in which no barred position, (R, n), arrives or leaves."""
        discount, k = self.discount, chosen.shape[1]
        has, value = self.table[self.items[owner]], self.value[owner]
        listed = has.gather(1, chosen[:, :, None].expand(-1, -1, has.shape[2]))
        more, fewer = self._steps(listed.sum(1), owner)
        own = value.gather(1, chosen)
        nothing = torch.zeros_like(own[:, :1])
        up = torch.cat([nothing, nothing, (own[:, 1:] * (discount[:-1] - discount[1:])).cumsum(1)], 1)
        down = torch.cat([nothing, (own[:, :-1] * (discount[1:] - discount[:-1])).cumsum(1)], 1)
        down = torch.cat([down, down[:, -1:]], 1)
        inside = torch.zeros_like(value, dtype=torch.bool).scatter_(1, chosen, True)
        before = inside.cumsum(1)  # items of the list that rank above a candidate
        above = torch.arange(k, device=chosen.device) < before[:, :, None]  # whether the leaving item ranks above it
        new = (has @ more[:, :, None])[:, :, 0]
        if_above = new + value * discount[(before - 1).clamp(min=0)] + up.gather(1, before)
        if_below = new + value * discount[before.clamp(max=k - 1)] - down.gather(1, before)
        lost = own * discount + (listed @ fewer[:, :, None])[:, :, 0]
        gain = torch.where(
            above,
            if_above[:, :, None] - (lost + up[:, 1:])[:, None],
            if_below[:, :, None] - (lost - down[:, :-1])[:, None],
        )
        gain -= has @ ((more - fewer)[:, None] * listed).transpose(1, 2)  # categories of both items
        out = inside | self.empty[owner]
        if barred is not None:
            out |= barred
            gain.masked_fill_(barred.gather(1, chosen)[:, None], -torch.inf)
        gain.masked_fill_(out[:, :, None], -torch.inf)
        gain = gain.flatten(1)
        best = gain.amax(1)
        at = (gain >= best[:, None] - TIE).to(torch.int8).argmax(1)  # the first of equal ones, in spite of rounding
        return _Exchange(best, at // k, chosen.gather(1, (at % k)[:, None])[:, 0])

    def _worth(self, lists: Tensor, owner: Tensor) -> Tensor:
        """Return the value of each list, (R,)."""
        times = self.table[self.items[owner].gather(1, lists)].sum(1)
        worth = (self.value[owner].gather(1, lists) * self.discount).sum(1)
        worth = worth + (self.price[owner % len(self.price)] * (times > 0)).sum(1)
        if self.intents is not None:
            worth = worth + (self.intents[owner] * self.filling[times.long()]).sum(1)
        return worth
