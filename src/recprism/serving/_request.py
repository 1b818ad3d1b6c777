"""A request from its checked arguments to its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from recprism.common.ids import Id
from recprism.rule.limits import ROUNDING, cuts_of, largest_loss
from recprism.serving._page import Page, Searched, search
from recprism.serving.ranked import Ranked

DISABLED, TOO_LATE, LIMITED = "disabled", "time limit", "limit"
SAID = {DISABLED: "switched off", TOO_LATE: "over its time limit"}  # a list beyond the limit was tested so


@dataclass(eq=False, kw_only=True)
class Request:
    """A request that was read and checked.

    Attributes:
        page: Its candidates and constraints.
        plain: The same without boosts.
        trade_off: Its trade-off.
        reasons: Whether there are reasons.
        no_reasons: Why they are not, although reasons were asked for; empty if they are.
        entry_prices: Whether reasons include entry prices.
        started: When it began; in a batch, when its search began.
        time_limit: Seconds after which the list by relevance alone is returned.
        user: Id of the user.
        history_age: Age of the stored history in seconds; None if the request gave one, or none is used.
        fallback: Why the rule does not make its list; None if it does.
        differences: How it differs from what was tested.
    """

    page: Page
    plain: Page
    trade_off: float
    reasons: bool
    no_reasons: str
    entry_prices: bool
    started: float
    time_limit: float | None
    user: Id | None
    history_age: float | None
    fallback: str | None
    differences: tuple[str, ...]

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits of the rule; they are for lists of its own price and length."""
        file = self.page.rule.file
        return file.limits if (self.trade_off, self.page.k) == (file.trade_off, file.k) else {}

    @property
    def is_late(self) -> bool:
        """Whether the time limit is over."""
        return self.time_limit is not None and time.perf_counter() - self.started > self.time_limit


def search_all(requests: Sequence[Request]) -> list[Searched | None]:
    """Search for the lists of requests; None for a request that falls back.

    Requests of one kind are searched together. A request with limits on categories, fields or time is searched alone.
    """
    kinds: dict[tuple[float, int, int | None], list[int]] = {}
    for at, one in enumerate(requests):
        if one.fallback is None:
            alone = None if not one.page.is_alone and one.time_limit is None else at
            kinds.setdefault((one.trade_off, one.page.free, alone), []).append(at)
    found: list[Searched | None] = [None] * len(requests)
    for (trade_off, _, alone), members in kinds.items():
        if alone is not None and len(requests) > 1:
            requests[alone].started = time.perf_counter()  # in a batch, others do not use up its time
        if alone is not None and requests[alone].is_late:
            continue
        answers = search([requests[at].page for at in members], trade_off)
        for at, answer in zip(members, answers, strict=True):
            found[at] = None if requests[at].is_late else answer
    return found


def finish(request: Request, searched: Searched | None) -> Ranked:
    """Return the answer to a request."""
    page, plain, fallback, compared = request.page, request.plain, request.fallback, None
    base = found = plain.whole(plain.base)
    if searched is None:
        fallback = fallback or TOO_LATE
    else:
        found = page.whole(searched.chosen)
        if _is_beyond(base.ids, found.ids, request.limits):
            found, fallback = base, LIMITED
        elif request.reasons:
            how = (searched, found, base.numbers, request.trade_off)
            compared = partial(page.compared, *how, entry_prices=request.entry_prices)
    return Ranked(
        ids=tuple(found.ids),
        scores=np.array(found.scores),
        base=tuple(base.ids),
        trade_off=0.0 if fallback else request.trade_off,
        fallback=fallback,
        unmet=(plain if fallback else page).unmet(found),
        unknown=page.unknown,
        unknown_history=page.intents.unknown,
        user=request.user,
        history_age=request.history_age,
        differences=request.differences + ((SAID[fallback],) if fallback in SAID else ()),
        _compared=compared,
        notes=(*page.notes(found, changed=found.ids != base.ids), *filter(None, [request.no_reasons])),
        _base_scores=base.scores,
        _span=page.all.span,
    )


def _is_beyond(base: Sequence[Id], ids: Sequence[Id], limits: Mapping[str, float]) -> bool:
    """Whether a list could lose more than a limit of the rule."""
    return any(largest_loss(base[:cut], ids[:cut]) > limit + ROUNDING for cut, limit in cuts_of(limits))
