"""Requests: their candidates, their pins, and their lists at any trade-off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id, canonical_text
from recprism.explain.reasons.codes import GRID, PRECISION, first_present
from recprism.explain.reasons.compared import Compared, Groups, compare
from recprism.explain.reasons.reruns import Boosts, Reruns
from recprism.rule.constraints.constraints import Constraints
from recprism.rule.constraints.violations import Unmet
from recprism.rule.earlier import stacked_earlier
from recprism.rule.function_search import search_kernel
from recprism.rule.kernels.prices import PRICES, TIE
from recprism.serving._fields import Fields, field_limits
from recprism.serving._pool import Pool
from recprism.serving._prepared import Intents, PreparedRule
from recprism.serving._shown import Shown

ENOUGH = 3  # times the length of a list: fewer candidates leave little to choose from


class Listed(NamedTuple):
    """A whole list, pins included: ids, item numbers, scores as given, whether each place is pinned, and positions, -1
    for pins."""

    ids: list[Id]
    numbers: list[int]
    scores: list[float]
    pinned: list[bool]
    positions: list[int]


class Page:
    """One request.

    Args:
        rule: The rule.
        pool: The candidates.
        k: Length of the list.
        constraints: The constraints.
        out: Ids that are not shown, as text; a pin of one of them is released.
        intents: The user's weights of categories.
        fields: The fields of the request.
        shown: The items of earlier pages; None if nothing was shown.
        plain: The same without boosts; None for a rule without them.
        spared: Item number -> the same without the boost of this item.
    """

    def __init__(
        self,
        rule: PreparedRule,
        pool: Pool,
        k: int,
        constraints: Constraints,
        out: set[str],
        intents: Intents,
        fields: Fields,
        shown: Shown | None = None,
        plain: Page | None = None,
        spared: Callable[[int], Page] | None = None,
    ) -> None:
        self.plain, self._spared = plain or self, spared
        self.rule, self.k, self.all, self.intents = rule, k, pool, intents
        self.shown, self.earlier = shown, None if shown is None or not shown.ids else shown.earlier(rule)
        self.asked = constraints.by_place
        held = {place - 1: it for place, it in self.asked.items() if place <= k and canonical_text(it) not in out}
        self.pinned_ids = dict(sorted(held.items()))
        self.pins = np.full(k, -1, np.int64)
        if held:
            self.pins[list(self.pinned_ids)] = rule.numbers(list(self.pinned_ids.values()))
        self.pool = pool.without({canonical_text(item) for item in held.values()})
        self.free = k - len(held)
        self.limits = constraints.share_limits(rule.file.names).of(rule.has) if constraints.names_shares and k else None
        self.fields = field_limits(rule, self.pool, self.pins, self.pinned_ids, constraints, fields) if k else None
        self.base = np.arange(min(self.free, len(self.pool)))
        if self.is_alone:
            self.base = self.repaired(self.base)
            if not self.is_spaced:
                self.base.sort()

    @property
    def is_alone(self) -> bool:
        """Whether the list has limits of its own, so that it cannot be searched together with others."""
        return self.limits is not None or self.fields is not None

    @property
    def is_spaced(self) -> bool:
        """Whether items may be out of the order of relevance, to keep their distance."""
        return self.fields is not None and bool(self.fields.apart)

    def repaired(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exchange items of a list, (m,), until it keeps the shares and the fields of the request."""
        if self.limits is not None and len(chosen):
            chosen = self.limits.keep(self.pool.numbers, self.pool.relevance, chosen, self.pins)
        if self.fields is not None and len(chosen):
            chosen = self.fields.keep(chosen, self.pool.relevance, self._share_groups)
        return chosen

    def _share_groups(self, chosen: NDArray[np.int64]) -> Groups | None:
        return None if self.limits is None else self.limits.groups(self.pool.numbers, chosen, self.pins)

    def groups(self, chosen: NDArray[np.int64]) -> Groups | None:
        """Return which candidates may replace which items of a list, (m,); None if each may replace all."""
        shares = self._share_groups(chosen)
        return shares if self.fields is None else self.fields.groups(chosen, shares)

    def whole(self, chosen: NDArray[np.int64]) -> Listed:
        """Return the list: pins at their places, the others in order; a short list has no gaps."""
        pool, at = self.pool, chosen.tolist()
        given, order = pool.given, pool.order
        found = Listed(
            [given[order[it]] for it in at],
            pool.numbers[chosen].tolist(),
            pool.scores[chosen].tolist(),
            [False] * len(at),
            at,
        )
        for place, item in self.pinned_ids.items():
            for column, value in zip(found, (item, int(self.pins[place]), self._score_of(item), True, -1), strict=True):
                column.insert(place, value)  # type: ignore[attr-defined]
        return found

    @cached_property
    def _ranked(self) -> dict[str, tuple[int, float]]:
        """Rank and score of all candidates, by id as text: a pin may be written in another way."""
        ranked = [*zip(self.all.ids, self.all.scores.tolist(), strict=True), *self.all.rest]
        return {canonical_text(one): (rank, score) for rank, (one, score) in enumerate(ranked, 1)}

    def _score_of(self, item: Id) -> float:
        return self._ranked.get(canonical_text(item), (0, float("nan")))[1]

    @cached_property
    def replaceable(self) -> NDArray[np.int64]:
        """Positions of the list by relevance alone, without pins; -1 for an item that boosts push out of the pool."""
        if self.plain is self:
            return self.base
        at = {given: place for place, given in enumerate(self.pool.order)}
        return np.array([at.get(self.plain.pool.order[it], -1) for it in self.plain.base.tolist()], np.int64)

    def _stays_without_boost(self, at: int, trade_off: float) -> bool:
        """Whether the candidate at a position is in the list without its boost; True if it has none."""
        if self._spared is None or self.pool.boost is None or self.pool.boost[at] == 0:
            return True
        number = int(self.pool.numbers[at])
        other = self._spared(number)
        return bool((other.pool.numbers[search([other], trade_off)[0].chosen] == number).any())

    def _rank_of(self, item: Id) -> int | None:
        return self._ranked.get(canonical_text(item), (None, 0.0))[0]

    @property
    def unknown(self) -> tuple[Id, ...]:
        """Ids of candidates and of pinned items that the export does not know."""
        pinned = [it for place, it in self.pinned_ids.items() if self.pins[place] == self.rule.unknown]
        return (*self.all.unknown, *(it for it in pinned if it not in self.all.unknown))

    def unmet(self, found: Listed) -> tuple[Unmet, ...]:
        """Return what the list does not keep."""
        missed = [place for place, item in self.asked.items() if not _is_at(found.ids, place - 1, item)]
        unmet = [Unmet(f"item {self.asked[place]} at place {place}", 1) for place in missed]
        if self.limits is not None and found.ids:
            unmet += self.limits.unmet(np.array(found.numbers, np.int64))
        if self.fields is not None:
            unmet += self.fields.unmet([at for at in found.positions if at >= 0])
        return tuple(unmet)

    def compared(
        self, searched: Searched, found: Listed, base: Sequence[int], trade_off: float, *, entry_prices: bool
    ) -> Compared:
        """Compare each item of the whole list with others; ``base`` has the item numbers of that by relevance alone."""
        goals, boost, pool = _goals([self], trade_off), self.pool.boost, self.pool
        by_rank, by_vectors = self.rule.by_rank and not self.is_spaced, self.rule.vectors is not None
        how: dict[str, Any] = {"by_rank": by_rank, "by_vectors": by_vectors, "groups": self.groups(searched.chosen)}
        return Compared(
            numbers=found.numbers,
            pinned=found.pinned,
            chosen=searched.chosen,
            unrepaired=searched.unrepaired,
            relevance=self.pool.relevance,
            ranks=self.pool.ranks,
            id_at=self.pool.id_at,
            pinned_ranks={item: self.plain._rank_of(item) for item in self.pinned_ids.values()},
            differences=compare(pool.numbers, pool.relevance, searched.chosen, self.replaceable, goals, **how),
            categories=self.rule.categories,
            names=self.rule.file.names,
            base=base,
            repaired_by=lambda _: "share" if self.fields is None else "field",
            enters=(lambda at: self._enters(at, trade_off)) if entry_prices else None,
            reruns=Reruns(
                items=self.pool.numbers,
                relevance=self.pool.relevance,
                places=self.free,
                goals=goals,
                at_price_0=lambda: _goals([self], 0.0),
                repaired=self.repaired,
                by_vectors=by_vectors,
                stays_without_boost=lambda at: self._stays_without_boost(at, trade_off),
            ),
            boosts=None if boost is None else Boosts.of(boost, goals, by_rank=by_rank),
            vectors=None if self.rule.vectors is None else (self.pool.numbers, *self.rule.vectors),
            pages=None if self.earlier is None or self.shown is None else self.shown.pages(self.rule),
        )

    def _enters(self, at: int, trade_off: float) -> tuple[float, float | None] | None:
        """Return the smallest trade-off found at which an item is in the list, by running the rule again."""
        below = [*(it for it in GRID if it < trade_off), trade_off]
        return first_present(lambda other: bool(at in search([self], other)[0].chosen), below, None, PRECISION)

    def notes(self, found: Listed, *, changed: bool) -> tuple[str, ...]:
        """Return why there was little to choose from, or why earlier pages do not count.

        Args:
            found: The list.
            changed: Whether it differs from the base list.
        """
        n, notes = len(self.all) + len(self.all.rest), [] if self.shown is None else self.shown.notes(self.rule)
        if n < self.k:
            return (*notes, f"{n} candidates for a list of {self.k}: the list has all of them")
        if n < ENOUGH * self.k:
            notes.append(f"{n} candidates for a list of {self.k} leave little choice; give {ENOUGH * self.k} or more")
        if not changed and n > self.k and "subtopic_coverage" in self.rule.file.goals:
            own = set(chain.from_iterable(map(self.rule.categories, found.numbers)))
            if own.issuperset(chain.from_iterable(map(self.rule.categories, self.all.numbers.tolist()))):
                notes.append("no other candidate has a category that the list lacks")
        return tuple(notes)


class Searched(NamedTuple):
    """What the search found for one request.

    Attributes:
        chosen: Positions of the list, (m,), without pins.
        unrepaired: The same before exchanges for shares and fields.
    """

    chosen: NDArray[np.int64]
    unrepaired: NDArray[np.int64]


def search(pages: Sequence[Page], trade_off: float) -> list[Searched]:
    """Run the rule for requests with the same number of free places, in one call of each kernel.

    Args:
        pages: The requests; one with limits of its own comes alone.
        trade_off: The trade-off of all of them.
    """
    found = zip(pages, _unrepaired(pages, trade_off), strict=True)
    return [Searched(page.repaired(own), own) for page, own in found]


def _unrepaired(pages: Sequence[Page], trade_off: float) -> list[NDArray[np.int64]]:
    """Return positions of the lists, (m,) each, without regard to shares and fields."""
    rule, free = pages[0].rule, pages[0].free
    starts = [np.arange(min(free, len(page.pool))) for page in pages]
    if rule.by_boosts:
        own = [page.pool.own[start] for page, start in zip(pages, starts, strict=True)]
        return [start[np.argsort(-it, kind="stable")] for start, it in zip(starts, own, strict=True)]
    if not rule.file.goals or (trade_off == 0 and rule.file.history_weight == 0) or free == 0:
        return starts
    lists, goals = np.arange(free)[None].repeat(len(pages), 0), _goals(pages, trade_off)
    search_kernel(goals[PRICES], rule.function)(0, len(pages), *_stacked(pages), lists, *goals, TIE)
    return [own[: len(start)] for own, start in zip(lists, starts, strict=True)]


def _goals(pages: Sequence[Page], trade_off: float) -> tuple[Any, ...]:
    """Return what the kernels need to value the lists of requests with the same number of free places."""
    weights = [page.intents.weights for page in pages]
    intents = weights[0][None] if len(pages) == 1 else np.stack(weights)
    earlier = stacked_earlier([page.earlier for page in pages], len(pages[0].rule.file.names))
    return pages[0].rule.goal_arrays(trade_off, max(1, pages[0].free), intents, earlier)


def _stacked(pages: Sequence[Page]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return item numbers, relevance and number of the candidates of all requests."""
    lengths = np.array([len(page.pool) for page in pages])
    if len(pages) == 1:
        return pages[0].pool.numbers[None], pages[0].pool.relevance[None], lengths
    items, relevance = np.zeros((len(pages), lengths.max()), np.int64), np.zeros((len(pages), lengths.max()))
    for row, page in enumerate(pages):
        items[row, : lengths[row]], relevance[row, : lengths[row]] = page.pool.numbers, page.pool.relevance
    return items, relevance, lengths


def _is_at(ids: list[Any], place: int, item: Id) -> bool:
    return place < len(ids) and canonical_text(ids[place]) == canonical_text(item)
