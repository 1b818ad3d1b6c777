"""The rule at request time: the same lists and the same reasons as ``recprism diversify``, for any scores."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.budget.promise import Promise
from recprism.common.ids import Id, canonical_text
from recprism.common.shares import share
from recprism.errors import InputError
from recprism.forms.differences import BOOSTED_FROM, Asked, differences
from recprism.forms.rule_file import RuleFile
from recprism.rule.constraints.constraints import NONE, Constraints
from recprism.rule.constraints.fields import read_fields
from recprism.serving._inputs import as_dials, as_ids, check_time_limit, known_options, list_length
from recprism.serving._page import Page, Searched, search
from recprism.serving._pool import make_pool
from recprism.serving._prepared import PreparedRule, check_bans
from recprism.serving._request import DISABLED, Request, finish, search_all
from recprism.serving._shown import Shown, as_shown
from recprism.serving.ranked import Ranked

Index = Callable[[NDArray[np.float32], int], tuple[Sequence[Id], ArrayLike]]
"""A search by vector: a user vector and a number in, ids and scores of the best items out."""
AT_A_TIME = 128  # requests of a batch that are searched together
NO_ENTRY = "this rule boosts items for all users at one price, so there are no entry prices"


def load_rule(
    folder: str | Path,
    *,
    candidates: int | None = None,
    prices: Mapping[str, float | str] | None = None,
    scorer: str | None = None,
) -> ServedRule:
    """Read an export of a rule and compile what requests need, so that no request waits for it.

    Args:
        folder: What ``recprism export RUN`` wrote.
        candidates: How many of the best candidates the rule chooses from; that of the export by default.
        prices: Trade-offs by the name of a user or a segment; a request may give the name as its price.
        scorer: Name of the model whose scores requests have; the answers say whether it is the one that was tested.

    Raises:
        InputError: If the folder is no export of a rule, or a value is out of range.
    """
    served = ServedRule(RuleFile.read(folder), candidates=candidates, prices=prices, scorer=scorer)
    served.warm_up()
    return served


class ServedRule:
    """A rule that answers requests; safe to share among threads.

    Args:
        file: The exported rule.
        candidates: How many of the best candidates the rule chooses from; that of the export by default.
        prices: Trade-offs by the name of a user or a segment.
        scorer: Name of the model whose scores requests have.

    Attributes:
        enabled: The kill switch. If it is False, every request gets the list by relevance alone under its constraints.
    """

    def __init__(
        self,
        file: RuleFile,
        *,
        candidates: int | None = None,
        prices: Mapping[str, float | str] | None = None,
        scorer: str | None = None,
    ) -> None:
        self.file, self.enabled, self._scorer = file, True, scorer
        self._rule = PreparedRule(file)
        self._depth = file.candidates if candidates is None else int(candidates)
        if self._depth < 1:
            raise InputError(f"candidates must be at least 1, not {candidates}")
        self._prices = {name: share(value, f"the price of {name}") for name, value in (prices or {}).items()}
        self._own = Constraints.parse(file.constraints, one_list=True)

    def has_ids(self, ids: list[Id]) -> None:
        """Say that a list is that of the items of the file; candidates that are this very list are not looked up."""
        self._rule.ids = ids

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories."""
        return self.file.names

    @property
    def certificate(self) -> Promise | None:
        """What was certified about the rule; None if nothing was."""
        return self.file.certificate

    def warm_up(self) -> None:
        """Compile, or read from the cache, everything that a request runs."""
        ids = self.file.item_ids[: self.file.k + 2].tolist()
        k = max(1, len(ids) - 2)
        pool = make_pool(self._rule, ids, np.linspace(1.0, 0.0, len(ids)), depth=self._depth, k=k, out=set(), dials={})
        page = Page(self._rule, pool, k, NONE, set(), self._rule.intents(ids[:1]), {})
        for trade_off in {self.file.trade_off or 0.5, 0.0}:  # at 0, no goal looks at the order: another search
            (found,) = search([page], trade_off)
            if not self._rule.no_reasons:
                page.compared(found, page.whole(found.chosen), [], trade_off, entry_prices=False)

    def coverage(self, ids: Sequence[Id]) -> float:
        """Return subtopic coverage: the share of the categories that a list has; unknown items have none."""
        numbers = self._rule.numbers(ids).tolist()
        found = {category for number in numbers for category in self._rule.categories(number)}
        return len(found) / max(1, self._rule.n_present)

    def rerank(
        self,
        candidates: Sequence[Id] | NDArray[Any],
        scores: ArrayLike,
        k: int | None = None,
        *,
        history: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        shown: Iterable[tuple[Id, float]] | Shown | None = None,
        no_repeat: int | None = None,
        half_life: float | None = None,
        constraints: Constraints | Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        price: float | str | None = None,
        dials: Mapping[str, float] | None = None,
        reasons: bool = True,
        entry_prices: bool = False,
        time_limit: float | None = None,
        user: Id | None = None,
        scorer: str | None = None,
    ) -> Ranked:
        """Choose a list from candidates with scores.

        Args:
            candidates: Ids, (n,), in any order.
            scores: One score per candidate, (n,); larger is better, on any scale. -inf is not shown.
            k: Length of the list; that of the rule by default.
            history: Ids of items that the user has consumed, the latest last. A rule that weighs histories needs it;
                an empty one is that of a user without a history, for whom all categories weigh the same. If the rule
                has a history window, only its last items count.
            exclude: Ids that are not shown, such as items that the user knows or that are sold out. A pin of such an
                item is released.
            shown: Ids of earlier pages with their ages in pages, [(id, 1), ...] for the page before; the caller keeps
                them. Their categories, and the distances to them, count by 0.5 ** (age / half_life).
            no_repeat: Pages after which a shown item may come again, 0 on the next page; by default it never does.
            half_life: Pages after which what was shown counts half; 1 by default.
            constraints: More bans, pins, shares, numbers of items, caps and spacing, added to those of the export.
            fields: Field -> for each candidate a value, several values, or None, such as the author. Caps and spacing
                look at them, and at the fields of the export that the request does not give.
            price: Another trade-off from 0 to 1, or the name of a user or a segment that has one.
            dials: Category -> what is added to the scores of its items, as a share from -1 to 1 of the range of the
                candidates' scores.
            reasons: Whether reasons are computed.
            entry_prices: Whether reasons include the price at which an item enters the list; takes many runs.
            time_limit: Seconds after which the list by relevance alone is returned. It is checked before and after
                the search, which is not interrupted. In a batch it counts from the search of this request on.
            user: Id of the user, for reasons. If the export holds histories, it stands for the user's history, whose
                items are then not shown.
            scorer: Name of the model that made the scores; that of :func:`load_rule` by default.

        Raises:
            InputError: If the rule weighs histories and none is given or known, if scores and candidates differ in
                length, a score is not a number, a candidate occurs twice, or another argument is invalid.
        """
        request = self._read(
            candidates,
            scores,
            k,
            history=history,
            exclude=exclude,
            shown=shown,
            no_repeat=no_repeat,
            half_life=half_life,
            constraints=constraints,
            fields=fields,
            price=price,
            dials=dials,
            reasons=reasons,
            entry_prices=entry_prices,
            time_limit=time_limit,
            user=user,
            scorer=scorer,
        )
        return finish(request, search_all([request])[0])

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
        started = time.perf_counter()
        vector = np.asarray(user_vector, np.float32)
        gone = as_ids(exclude, "exclude")
        kept = self._own.with_those_of(Constraints.parse(options.get("constraints"), one_list=True))
        known, age = self._history(options.get("history"), options.get("user"))
        stored = len(known) if age is not None else 0
        wanted = self.file.k if k is None else list_length(k)
        reach = max(self._depth, wanted, 0 if self._rule.boosts is None else BOOSTED_FROM)
        before = as_shown(*map(options.get, ("shown", "no_repeat", "half_life")))
        depth = reach + len(gone) + stored + len(kept.banned) + len(kept.pinned) + len(before.out)
        ids, scores = self._rule.nearest(vector, depth) if index is None else index(vector, depth)
        if self._rule.boosts is not None:  # which items a list can have must not depend on how many are left out
            out = {canonical_text(it) for it in (*kept.banned, *gone, *before.out, *(known if age is not None else []))}
            left = [at for at, one in enumerate(ids) if canonical_text(one) not in out][:reach]
            ids, scores = [ids[at] for at in left], np.asarray(scores)[left]
        if index is None and self.certificate is not None:  # item vectors and certificate are of one model
            options["scorer"] = options.get("scorer") or self._scorer or self.certificate.scorer
        request = self._read(ids, scores, k, exclude=gone, started=started, **{**options, "shown": before})
        return finish(request, search_all([request])[0])

    def rerank_many(self, requests: Sequence[Mapping[str, Any]], *, threads: int | None = None) -> list[Ranked]:
        """Answer many requests, each given by the arguments of :meth:`rerank`, in the same order.

        Args:
            requests: Arguments by name; ``candidates`` and ``scores`` are needed.
            threads: How many threads share the work; as many as there are processors by default.

        Raises:
            InputError: If a request is wrong; the sentence begins with its number, from 0.
        """
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, not {threads!r}")
        parts = [requests[at : at + AT_A_TIME] for at in range(0, len(requests), AT_A_TIME)]
        threads = threads or os.cpu_count() or 1
        numbers = count()
        if threads == 1:
            read = ([self._read_one(next(numbers), request) for request in part] for part in parts)
            return [answer for part in read for answer in map(finish, part, search_all(part))]
        found: list[Ranked] = []
        waiting: deque[tuple[list[Request], Future[list[Searched | None]]]] = deque()
        with ThreadPoolExecutor(threads - 1) as workers:  # they search while this thread reads and finishes requests
            for part in parts:
                some = [self._read_one(next(numbers), request) for request in part]
                waiting.append((some, workers.submit(search_all, some)))
                while len(waiting) > threads:
                    some, work = waiting.popleft()
                    found += map(finish, some, work.result())
            for some, work in waiting:
                found += map(finish, some, work.result())
        return found

    def _read_one(self, number: int, request: Mapping[str, Any]) -> Request:
        """Read a request of a batch; an error names its number."""
        try:
            return self._read(**known_options(request, OPTIONS))
        except InputError as problem:
            raise InputError(f"request {number}: {problem}") from None

    def _read(
        self,
        candidates: Sequence[Id] | NDArray[Any],
        scores: ArrayLike,
        k: int | None = None,
        *,
        history: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        shown: Iterable[tuple[Id, float]] | Shown | None = None,
        no_repeat: int | None = None,
        half_life: float | None = None,
        constraints: Constraints | Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        price: float | str | None = None,
        dials: Mapping[str, float] | None = None,
        reasons: bool = True,
        entry_prices: bool = False,
        time_limit: float | None = None,
        user: Id | None = None,
        scorer: str | None = None,
        started: float | None = None,
    ) -> Request:
        """Read a request that began at ``started``, or begins now; see :meth:`rerank` for the other arguments."""
        started = time.perf_counter() if started is None else started
        rule, boosts = self._rule, self._rule.boosts
        if entry_prices and (boosts is not None or not reasons):
            raise InputError(NO_ENTRY if reasons else "entry_prices are part of reasons; ask for both")
        k = self.file.k if k is None else list_length(k)
        kept = self._own.with_those_of(Constraints.parse(constraints, one_list=True))
        check_bans(kept.banned, rule)
        check_time_limit(time_limit)
        known, age = self._history(history, user)
        stored, before = known if age is not None else [], as_shown(shown, no_repeat, half_life)
        out = {canonical_text(it) for it in (*kept.banned, *as_ids(exclude, "exclude"), *stored, *before.out)}
        how: dict[str, Any] = {"depth": self._depth, "k": k, "out": out, "dials": as_dials(dials, self.names)}
        pool = make_pool(rule, candidates, scores, **how)
        own = read_fields(fields, len(pool.given))
        trade_off, weights = self.trade_off_of(price), rule.intents(known)
        asked = Asked(
            trade_off=trade_off,
            k=k,
            candidates=len(pool) + (0 if boosts is None else len(pool.rest)),
            hidden=len(out),
            constraints=kept is not self._own and kept != self._own,
            dials=bool(dials),
            scorer=scorer or self._scorer,
            has_history=bool(known),
            shown=bool(before.ids),
            history_age=age,
        )
        page = plain = Page(rule, pool, *(about := (k, kept, out, weights, own, before)))
        if boosts is not None:
            made = partial(make_pool, rule, candidates, scores, **how)
            plain = Page(rule, made(boosted=False), *about[:-1])
            page = Page(rule, pool, *about, plain, lambda it: Page(rule, made(spared=it), *about))
        return Request(
            page=page,
            plain=plain,
            trade_off=trade_off,
            reasons=reasons and not rule.no_reasons,
            no_reasons=rule.no_reasons if reasons else "",
            entry_prices=entry_prices,
            started=started,
            time_limit=time_limit,
            user=user,
            history_age=age,
            fallback=None if self.enabled else DISABLED,
            differences=differences(self.file, asked),
        )

    def _history(self, given: Iterable[Id] | None, user: Id | None) -> tuple[list[Id], float | None]:
        """Return the history of a request, and its age in seconds if it is a stored one.

        Raises:
            InputError: If the rule weighs histories, and none is given or stored.
        """
        if given is not None:
            if self.file.history_window is not None and isinstance(given, set | frozenset):
                raise InputError("history is a set, which has no order; give a list with the latest item last")
            return as_ids(given, "history"), None
        stored = None if user is None or self.file.histories_of is None else self._rule.history_of(user)
        if stored is not None and self.file.histories_of is not None:
            return stored, max(0.0, time.time() - self.file.histories_of)
        if not self.file.history_weight:
            return [], None
        if user is not None and self.file.histories_of is not None:
            raise InputError(f"user {user!r} has no stored history; give history=[...], [] for a user without one")
        advice = "give history=[...], [] for a user without one"
        raise InputError(f"this rule weighs the user's history, and the request has none; {advice}")

    def trade_off_of(self, price: float | str | None) -> float:
        """Return the trade-off of a request with this price.

        Raises:
            InputError: If it is no share and no name, or if the rule has boosts, which are made for one price.
        """
        if price is None:
            return float(self.file.trade_off)
        if self._rule.boosts is not None:
            raise InputError("this rule boosts items for all users at one price; a request cannot have another")
        if isinstance(price, str) and price in self._prices:
            return float(self._prices[price])
        try:
            return float(share(price, "price"))
        except InputError:
            if not isinstance(price, str) or not self._prices:
                raise
            said = f"price {price!r} is neither a share nor the name of a user or segment with a price"
            raise InputError(said) from None


OPTIONS = tuple(signature(ServedRule.rerank).parameters)[1:]
"""What a request of a batch may have."""
