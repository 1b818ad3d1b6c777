"""The rule at request time: the same lists and the same reasons as ``recprism diversify``, for any scores."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.data._ids import canonical_text
from recprism.data.shares import share
from recprism.deploy.rule_file import RuleFile
from recprism.errors import InputError
from recprism.explain.reasons._codes import ORDER, TIED
from recprism.rerank._kernels.optimal import optimal
from recprism.rerank._kernels.prices import IN_ORDER, TIE, fading_of, filling_of, prices_of
from recprism.serving._kernels.history import add_shares
from recprism.serving._kernels.reasons import compare
from recprism.serving.constraints import NONE, Id, RequestConstraints, ShareLimits, Unmet
from recprism.serving.ranked import Compared, Ranked, entry_price

Index = Callable[[NDArray[np.float32], int], tuple[Sequence[Id], ArrayLike]]
"""A search by vector: a user vector and a number in, ids and scores of the best items out."""
DISABLED, TOO_LATE = "disabled", "time limit"
KEPT_PRICES = 256  # sets of prices that are remembered, by trade-off and length
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")


def load(
    folder: str | Path, *, candidates: int | None = None, prices: Mapping[str, float | str] | None = None
) -> ServedRule:
    """Read an export of a rule and compile what requests need, so that no request waits for it.

    Args:
        folder: What ``recprism export RUN --rule`` wrote.
        candidates: How many of the best candidates the rule chooses from; that of the export by default.
        prices: Trade-offs by the name of a user or a segment; a request may give the name as its price.

    Raises:
        InputError: If the folder is no export of a rule, or a value is out of range.

    Stability: provisional.
    """
    served = ServedRule(RuleFile.read(folder), candidates=candidates, prices=prices)
    served.warm_up()
    return served


@dataclass(frozen=True, eq=False)
class _Pool:
    """The candidates of one request, the best first.

    Attributes:
        ids: Ids in ranked order.
        numbers: Item numbers, (n,).
        scores: Scores as given, (n,).
        relevance: Scores with lifts and dials, scaled to 0 .. 1, (n,).
        unknown: Ids that the export does not know.
        rest: Id and score of the candidates that the rule does not look at, the best first.
    """

    ids: list[Id]
    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    relevance: NDArray[np.float64]
    unknown: tuple[Id, ...]
    rest: list[tuple[Id, float]]


class ServedRule:
    """A rule that answers requests; safe to share among threads.

    Args:
        file: The exported rule.
        candidates: How many of the best candidates the rule chooses from; that of the export by default.
        prices: Trade-offs by the name of a user or a segment.

    Attributes:
        enabled: The kill switch. If it is False, every request gets the list by relevance alone under its constraints.

    Stability: provisional.
    """

    def __init__(
        self, file: RuleFile, *, candidates: int | None = None, prices: Mapping[str, float | str] | None = None
    ) -> None:
        self.file, self.enabled = file, True
        self._depth = file.candidates if candidates is None else int(candidates)
        if self._depth < 1:
            raise InputError(f"candidates must be at least 1, not {candidates}")
        self._prices = {name: share(value, f"the price of {name}") for name, value in (prices or {}).items()}
        ids = file.item_ids.tolist()
        self._unknown = len(ids)
        self._number_of: dict[Id, int] = {one: at for at, one in enumerate(ids)}
        # One more row: an item that the export does not know has no categories, no direction and no lift.
        self._indptr = np.append(file.indptr, file.indptr[-1])
        if file.unit.shape[0] == len(ids):
            self._unit, self._known = np.vstack([file.unit, np.zeros(file.unit.shape[1])]), np.append(file.known, False)
        else:
            self._unit, self._known = file.unit, file.known
        self._lifts = None if file.lifts is None else np.append(file.lifts, 0.0)
        self._shown = np.zeros(1, np.int64) if not file.goals else np.zeros(len(ids) + 1, np.int64)
        self._own = RequestConstraints.of(file.constraints) if file.constraints else NONE
        self._by_rank = set(IN_ORDER).isdisjoint(file.goals)
        self._kept_terms: dict[tuple[float, int], tuple[NDArray[np.float64], ...]] = {}
        self._kept_columns: dict[int, NDArray[np.bool_]] = {}  # at most one for each category

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories."""
        return self.file.names

    def warm_up(self) -> None:
        """Compile, or read from the cache, everything that a request runs."""
        ids = self.file.item_ids[: self.file.k + 2].tolist()
        k = max(1, len(ids) - 2)
        pool = self._pool(ids, np.linspace(1.0, 0.0, len(ids)), set(), {}, k)
        page = _Page(self, pool, k, NONE, set(), self._intents(ids[:1]))
        trade_off = self.file.trade_off or 0.5
        chosen = page.positions(trade_off)
        if self._lifts is None:
            page.compared(chosen, trade_off, entry_prices=False)

    def rerank(
        self,
        candidates: Sequence[Id] | NDArray[Any],
        scores: ArrayLike,
        k: int | None = None,
        *,
        history: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        constraints: RequestConstraints | Mapping[str, Any] | None = None,
        price: float | str | None = None,
        dials: Mapping[str, float] | None = None,
        reasons: bool = True,
        entry_prices: bool = False,
        time_limit: float | None = None,
        user: Id | None = None,
    ) -> Ranked:
        """Choose a list from candidates with scores.

        Args:
            candidates: Ids, (n,), in any order.
            scores: One score per candidate, (n,); larger is better, on any scale. -inf is not shown.
            k: Length of the list; that of the rule by default.
            history: Ids of items that the user has consumed, for rules that look at the history. Without one, all
                categories weigh the same.
            exclude: Ids that are not shown, such as items that the user knows or that are sold out. A pin of such an
                item is released.
            constraints: More bans, pins, shares and least numbers, added to those of the export.
            price: Another trade-off from 0 to 1, or the name of a user or a segment that has one.
            dials: Category -> what is added to the scores of its items, as a share from -1 to 1 of the range of the
                candidates' scores.
            reasons: Whether reasons are computed.
            entry_prices: Whether reasons include the price at which an item enters the list; takes many runs.
            time_limit: Seconds after which the list by relevance alone is returned. It is checked before and after
                the search, which is not interrupted.
            user: Id of the user, for reasons.

        Raises:
            InputError: If scores and candidates differ in length, a score is not a number, a candidate occurs twice,
                or a category, a price or a constraint is invalid.
        """
        started = time.perf_counter()
        if entry_prices and not reasons:
            raise InputError("entry_prices are part of reasons; ask for both")
        k = self.file.k if k is None else _length(k)
        kept = self._own.with_those_of(RequestConstraints.of(constraints))
        gone = _as_ids(exclude, "exclude")
        out, steps = {canonical_text(it) for it in (*kept.banned, *gone)}, as_dials(dials, self.names)
        pool = self._pool(candidates, scores, out, steps, k)
        trade_off, weights = self._trade_off(price), self._intents(_as_ids(history, "history"))
        page = _Page(self, pool, k, kept, out, weights)
        plain = page
        if self._lifts is not None:
            plain = _Page(self, self._pool(candidates, scores, out, steps, k, lifted=False), k, kept, out, weights)
        fallback = None if self.enabled else DISABLED
        if fallback is None and _is_late(started, time_limit):
            fallback = TOO_LATE
        found = plain.whole(plain.base) if fallback else page.whole(chosen := page.positions(trade_off))
        if fallback is None and _is_late(started, time_limit):
            found, fallback = plain.whole(plain.base), TOO_LATE
        compared = None
        if reasons and fallback is None and self._lifts is None:
            compared = page.compared(chosen, trade_off, entry_prices=entry_prices)
        return Ranked(
            ids=tuple(row.item for row in found),
            scores=np.array([row.score for row in found]),
            base=tuple(row.item for row in plain.whole(plain.base)),
            trade_off=0.0 if fallback else trade_off,
            fallback=fallback,
            unmet=tuple(page.unmet(found)),
            unknown=pool.unknown,
            user=user,
            _compared=compared,
        )

    def rank(
        self,
        user_vector: ArrayLike,
        k: int | None = None,
        *,
        index: Index | None = None,
        exclude: Iterable[Id] | None = None,
        **options: Any,
    ) -> Ranked:
        """Choose a list for a user vector.

        Args:
            user_vector: (d,) as the item vectors of the export expect it.
            k: Length of the list; that of the rule by default.
            index: Finds candidates, by default by exact ranking over the item vectors of the export. It receives the
                vector and a number, and returns ids and scores of the best items.
            exclude: Ids that are not shown.
            options: Further options of :meth:`rerank`.

        Raises:
            InputError: If the export has no item vectors and no index is given, or the vector has another length.
        """
        vector = np.asarray(user_vector, np.float32)
        gone = _as_ids(exclude, "exclude")
        kept = self._own.with_those_of(RequestConstraints.of(options.get("constraints")))
        wanted = self.file.k if k is None else _length(k)
        depth = max(self._depth, wanted) + len(gone) + len(kept.banned) + len(kept.pinned)
        ids, scores = self._nearest(vector, depth) if index is None else index(vector, depth)
        return self.rerank(ids, scores, k, exclude=gone, **options)

    def rerank_many(self, requests: Sequence[Mapping[str, Any]], *, threads: int | None = None) -> list[Ranked]:
        """Answer many requests, each given by the arguments of :meth:`rerank`, in the same order.

        Args:
            requests: Arguments by name; ``candidates`` and ``scores`` are needed.
            threads: How many threads share the work; as many as there are processors by default.
        """
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, not {threads!r}")
        threads = min(threads or os.cpu_count() or 1, max(1, len(requests)))
        if threads == 1:
            return [self.rerank(**request) for request in requests]
        with ThreadPoolExecutor(threads) as workers:
            return list(workers.map(lambda request: self.rerank(**request), requests))

    # -- parts of a request -------------------------------------------------------------------------------------------

    def _nearest(self, vector: NDArray[np.float32], n: int) -> tuple[list[Id], NDArray[np.float32]]:
        vectors = self.file.item_vectors
        if vectors is None:
            raise InputError("the export has no item vectors; export them, or give an index")
        if vector.shape != (vectors.shape[1],):
            raise InputError(f"the user vector has shape {vector.shape}; ({vectors.shape[1]},) is needed")
        scores = vectors @ vector
        n = min(n, len(scores))
        best = np.argpartition(-scores, n - 1)[:n]
        best = best[np.lexsort((best, -scores[best]))]
        return self.file.item_ids[best].tolist(), scores[best]

    def _trade_off(self, price: float | str | None) -> float:
        if price is None:
            return float(self.file.trade_off)
        if self._lifts is not None:
            raise InputError("this rule lifts items for all users at one price; a request cannot have another")
        if isinstance(price, str) and price in self._prices:
            return float(self._prices[price])
        return float(share(price, "price"))

    def _numbers(self, ids: Sequence[Id]) -> NDArray[np.int64]:
        """Return item numbers, (n,); an unknown id gets the number of the empty row."""
        known = self._number_of
        found = [known.get(one, -1) for one in ids]
        if -1 in found:
            found = [self._number(one) if at < 0 else at for one, at in zip(ids, found, strict=True)]
        return np.array(found, np.int64)

    def _number(self, one: Id) -> int:
        text = canonical_text(one)
        found = self._number_of.get(text)
        if found is None and WHOLE.fullmatch(text):
            found = self._number_of.get(int(text))
        return self._unknown if found is None else found

    def _pool(
        self,
        candidates: Any,
        scores: ArrayLike,
        out: set[str],
        dials: Mapping[int, float],
        k: int,
        *,
        lifted: bool = True,
    ) -> _Pool:
        ids: list[Id] = candidates.tolist() if isinstance(candidates, np.ndarray) else list(candidates)
        score = np.asarray(scores, np.float64)
        numbers = self._numbers(ids)
        _check_candidates(ids, numbers[numbers < self._unknown], score)
        shown = score > -np.inf
        if out:
            shown &= np.array([canonical_text(one) not in out for one in ids], np.bool_)
        raised = score + self._dialled(numbers, score, dials) if dials else score
        lifts = self._lifts if lifted else None
        if lifts is not None:
            raised = raised + lifts[numbers]
        order = np.flatnonzero(shown)
        order = order[np.argsort(-raised[order], kind="stable")]
        order, rest = order[: max(self._depth, k)], order[max(self._depth, k) :]
        relevance = _scaled(raised[order])
        if lifts is not None and not self.file.goals:  # lifts choose the items; own scores put them in order
            own = raised[order[:k]] - lifts[numbers[order[:k]]]
            order = np.append(order[:k][np.argsort(-own, kind="stable")], order[k:])
        unknown: tuple[Id, ...] = ()
        if self._unknown in numbers:
            unknown = tuple(one for one, at in zip(ids, numbers.tolist(), strict=True) if at == self._unknown)
        chosen, left = [ids[at] for at in order.tolist()], [(ids[at], float(score[at])) for at in rest.tolist()]
        return _Pool(chosen, numbers[order], score[order], relevance, unknown, left)

    def _dialled(
        self, numbers: NDArray[np.int64], score: NDArray[np.float64], dials: Mapping[int, float]
    ) -> NDArray[np.float64]:
        real = score[score > -np.inf]
        reach = float(real.max() - real.min()) if len(real) else 0.0
        added = np.zeros(len(numbers))
        for column, value in dials.items():
            added += reach * value * self.has(column)[numbers]
        return added

    def has(self, column: int) -> NDArray[np.bool_]:
        """Return whether each item has a category, (n_items + 1,) bool; the last entry is for unknown items."""
        found = self._kept_columns.get(column)
        if found is None:
            found = np.zeros(self._unknown + 1, np.bool_)
            owner = np.repeat(np.arange(self._unknown), np.diff(self.file.indptr))
            found[owner[self.file.indices == column]] = True
            self._kept_columns[column] = found
        return found

    def _intents(self, history: list[Id]) -> NDArray[np.float64]:
        """Return the user's weights of categories, (n_categories,); those without a history are equal."""
        n = len(self.names)
        if self.file.history_weight == 0:
            return np.zeros(0)
        amount = np.zeros(n)
        numbers = self._numbers(history)
        add_shares(numbers, self._indptr, self.file.indices, self.file.shares, amount)
        total = amount.sum()
        return amount / total if total > 0 else np.full(n, 1 / max(n, 1))

    def _terms(self, trade_off: float, k: int) -> tuple[NDArray[np.float64], ...]:
        """Return prices, discount, fading and filling for a trade-off and a number of places."""
        found = self._kept_terms.get((trade_off, k))
        if found is None:
            discount = 1 / np.log2(np.arange(2.0, k + 2))
            prices = prices_of(self.file.goals, self.file.units, trade_off, self.file.history_weight, discount)
            found = prices, discount, fading_of(self.file.goals, discount), filling_of(k)
            if len(self._kept_terms) >= KEPT_PRICES:
                self._kept_terms.clear()
            self._kept_terms[trade_off, k] = found
        return found

    def _limits(self, kept: RequestConstraints) -> ShareLimits:
        low, high, least = (
            {self._column(name): value for name, value in of.items()}
            for of in (kept.min_share, kept.max_share, kept.min_items)
        )
        return ShareLimits(low, high, least, self.names, self.has)  # type: ignore[arg-type]

    def _column(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"there is no category {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    def _goal_arrays(self, trade_off: float, k: int, intents: NDArray[np.float64]) -> tuple[Any, ...]:
        prices, discount, fading, filling = self._terms(trade_off, k)
        concepts = (self._indptr, self.file.indices, len(self.names), self._unit, self._known)
        return (*concepts, self._shown, prices, discount, fading, intents, filling)

    def _categories(self, number: int) -> list[int]:
        found: list[int] = self.file.indices[self._indptr[number] : self._indptr[number + 1]].tolist()
        return found


@dataclass(frozen=True)
class _Row:
    """One place of a list: id, item number, score as given, and whether it is pinned."""

    item: Id
    number: int
    score: float
    pinned: bool


class _Page:
    """One request: its candidates, its pins, and its lists at any trade-off.

    Args:
        rule: The rule.
        pool: The candidates.
        k: Length of the list.
        kept: The constraints.
        out: Ids that are not shown, as text; a pin of one of them is released.
        intents: The user's weights of categories.
    """

    def __init__(
        self,
        rule: ServedRule,
        pool: _Pool,
        k: int,
        kept: RequestConstraints,
        out: set[str],
        intents: NDArray[np.float64],
    ) -> None:
        self.rule, self.k, self.intents, self.all = rule, k, intents, pool
        self.asked = kept.pinned
        held = {place - 1: it for place, it in kept.pinned.items() if place <= k and canonical_text(it) not in out}
        self.pinned_ids = held
        self.pins = np.full(k, -1, np.int64)
        for place, number in zip(held, rule._numbers(list(held.values())).tolist(), strict=True):
            self.pins[place] = number
        self.pool = _without(pool, {canonical_text(item) for item in held.values()})
        self.free = k - len(held)
        self.limits = rule._limits(kept) if kept.names_shares and k else None
        self._base: NDArray[np.int64] | None = None

    @property
    def base(self) -> NDArray[np.int64]:
        """Positions of the most relevant candidates under the constraints, (m,), in the order of rank."""
        if self._base is None:
            self._base = np.sort(self._kept(np.arange(min(self.free, len(self.pool.ids)))))
        return self._base

    def positions(self, trade_off: float) -> NDArray[np.int64]:
        """Run the rule: positions of the list, (m,), without pins."""
        return self._kept(self.unrepaired(trade_off))

    def unrepaired(self, trade_off: float) -> NDArray[np.int64]:
        """Run the rule without shares."""
        n = len(self.pool.ids)
        chosen = np.arange(min(self.free, n))
        rule = self.rule
        if not rule.file.goals or (trade_off == 0 and rule.file.history_weight == 0) or not len(chosen):
            return chosen
        goals = rule._goal_arrays(trade_off, self.free, self.intents[None])
        lists = np.full((1, self.free), -1)
        lists[0, : len(chosen)] = chosen
        optimal(0, 1, self.pool.numbers[None], self.pool.relevance[None], np.array([n]), lists, *goals, TIE)
        return lists[0, : len(chosen)]

    def _kept(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.limits is None or not len(chosen):
            return chosen
        return self.limits.keep(self.pool.numbers, self.pool.relevance, chosen, self.pins)

    def whole(self, chosen: NDArray[np.int64]) -> list[_Row]:
        """Return the places of the list: pins at their places, the others in order; a short list has no gaps."""
        own, pool, found = iter(chosen.tolist()), self.pool, list[_Row]()
        for place in range(self.k):
            if place in self.pinned_ids:
                item = self.pinned_ids[place]
                found.append(_Row(item, int(self.pins[place]), self._score_of(item), True))
                continue
            at = next(own, None)
            if at is not None:
                found.append(_Row(pool.ids[at], int(pool.numbers[at]), float(pool.scores[at]), False))
        return found

    def _score_of(self, item: Id) -> float:
        text, ranked = canonical_text(item), [*zip(self.all.ids, self.all.scores.tolist(), strict=True), *self.all.rest]
        return next((score for one, score in ranked if canonical_text(one) == text), float("nan"))

    def unmet(self, rows: list[_Row]) -> list[Unmet]:
        """Return what the list does not keep."""
        there = {place + 1: canonical_text(row.item) for place, row in enumerate(rows)}
        missed = [place for place, item in self.asked.items() if there.get(place) != canonical_text(item)]
        found = [Unmet(f"item {self.asked[place]} at place {place}", 1) for place in missed]
        if self.limits is not None and rows:
            found += self.limits.unmet(np.array([row.number for row in rows], np.int64))
        return found

    def compared(self, chosen: NDArray[np.int64], trade_off: float, *, entry_prices: bool) -> Compared:
        """Compare each item of the list with others."""
        rule, n, m = self.rule, len(self.pool.ids), len(chosen)
        rows = self.whole(chosen)
        numbers = np.array([row.number for row in rows], np.int64)
        group, allowed = np.zeros(n, np.int64), np.ones((1, 1), np.bool_)
        if self.limits is not None:
            group, allowed = self.limits.groups(self.pool.numbers, numbers)
        others, differences = np.empty((2, m), np.int64), np.empty((3, m, 6))
        by_rank = rule._by_rank and bool((np.diff(chosen) > 0).all())
        goals = rule._goal_arrays(trade_off, max(1, self.free), self.intents)
        about = (self.pool.numbers, self.pool.relevance, chosen, self.base, group, allowed, by_rank)
        compare(*about, *goals, TIED, ORDER, others, differences)
        unrepaired = chosen if self.limits is None else self.unrepaired(trade_off)
        return Compared(
            numbers=numbers,
            pinned=np.array([row.pinned for row in rows], np.bool_),
            chosen=chosen,
            unrepaired=frozenset(unrepaired.tolist()),
            relevance=self.pool.relevance,
            candidates=[*self.all.ids, *(one for one, _ in self.all.rest)],
            positions=self.pool.ids,
            others=others,
            differences=differences,
            categories=rule._categories,
            names=rule.names,
            weights=self.intents if len(self.intents) else None,
            enters=(lambda at: self._enters(at, trade_off)) if entry_prices else None,
        )

    def _enters(self, at: int, trade_off: float) -> Any:
        return entry_price(lambda other: bool(at in self.positions(other)), trade_off)


def as_dials(dials: Mapping[str, Any] | None, names: Sequence[str]) -> dict[int, float]:
    """Return column -> share of the score range.

    Raises:
        InputError: If a category is unknown or a share is out of range.
    """
    found = {}
    for name, value in (dials or {}).items():
        if name not in names:
            raise InputError(f"there is no dial {name!r}; dials are {', '.join(names)}")
        if isinstance(value, str) or not -1 <= value <= 1:
            raise InputError(f"the dial {name} must be from -1 to 1, not {value!r}")
        found[names.index(name)] = float(value)
    return found


def _without(pool: _Pool, pinned: set[str]) -> _Pool:
    """Return the candidates that are not pinned, with relevance scaled again."""
    if not pinned:
        return pool
    stay = np.array([canonical_text(one) not in pinned for one in pool.ids], np.bool_)
    if stay.all():
        return pool
    ids = [one for one, stays in zip(pool.ids, stay.tolist(), strict=True) if stays]
    return _Pool(ids, pool.numbers[stay], pool.scores[stay], _scaled(pool.relevance[stay]), pool.unknown, pool.rest)


def _scaled(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale ranked scores to 0 .. 1; equal ones become 0."""
    if not len(score):
        return score
    span = score[0] - score[-1]
    return np.asarray((score - score[-1]) / (span if span > 0 else 1.0))


def _is_late(started: float, limit: float | None) -> bool:
    return limit is not None and time.perf_counter() - started > limit


def _length(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
        raise InputError(f"k must be a whole number from 0 up, not {k!r}")
    return int(k)


def _check_candidates(ids: list[Id], known: NDArray[np.int64], score: NDArray[np.float64]) -> None:
    """Raise an error if there are scores for other candidates, no numbers, or a candidate twice."""
    if score.shape != (len(ids),):
        raise InputError(f"there are {len(ids)} candidates and scores of shape {score.shape}; give one score each")
    if len(ids) and not (score < np.inf).all():  # False for NaN, too
        raise InputError("scores must be numbers, or -inf for an item that is not shown")
    if len(set(ids)) < len(ids) or len(set(known.tolist())) < len(known):
        texts = [canonical_text(one) for one in ids]
        twice = next(one for at, one in enumerate(texts) if one in texts[:at])
        raise InputError(f"candidate {twice!r} occurs more than once")


def _as_ids(given: Iterable[Id] | None, name: str) -> list[Id]:
    """Return ids as a list; a single text is refused, because its letters would be taken for ids."""
    if given is None:
        return []
    if isinstance(given, str):
        raise InputError(f"{name} is a list of ids, not the text {given!r}")
    return given.tolist() if isinstance(given, np.ndarray) else list(given)
