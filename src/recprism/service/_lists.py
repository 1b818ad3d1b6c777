"""The answers to requests for lists, as JSON, and what the service notes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from recprism.common.ids import Id
from recprism.service._loaded import Loaded
from recprism.serving.ranked import Ranked

BASE, RULE, ONCE = "base", "rule", "once"  # as ``operate.served_log`` writes them; that module needs polars


@dataclass(frozen=True, eq=False, kw_only=True)
class Made:
    """A list that was made.

    Attributes:
        content: The answer, without what belongs to the request.
        shown: Which list the answer shows.
        ids: The list of the rule.
        base: The list by relevance alone.
        trade_off: The trade-off that made the list.
        fallback: Why the list is by relevance alone; None if it is not.
        unmet: How many constraints it does not keep.
        unknown: How many candidates the export does not know.
        coverage: Share of the categories in the list by relevance alone, and in the list.
    """

    content: bytes
    shown: str
    ids: tuple[Id, ...]
    base: tuple[Id, ...]
    trade_off: float
    fallback: str | None
    unmet: int
    unknown: int
    coverage: tuple[float, float]


def serve(loaded: Loaded, options: dict[str, Any]) -> Made:
    """Answer /rerank and /rank."""
    ranked = _run(loaded.rule, options)
    return _made(loaded, ranked, ranked.to_dict(reasons=options["reasons"]))


def serve_in_shadow(loaded: Loaded, options: dict[str, Any]) -> Made:
    """Answer /rerank and /rank in shadow mode: with the list by relevance alone, while both lists are logged."""
    quick = {**options, "reasons": False, "entry_prices": False}
    ranked, plain = _run(loaded.rule, quick), _run(loaded.plain, quick)
    return _made(loaded, ranked, {**plain.to_dict(reasons=options["reasons"]), "fallback": ranked.fallback}, BASE)


def explain(loaded: Loaded, options: dict[str, Any]) -> Made:
    """Answer /explain: always the list of the rule, also in shadow mode."""
    ranked = _run(loaded.rule, options)
    words = {
        "sentences": [it.sentence() for it in ranked.reasons],
        "for_users": [it.for_users() for it in ranked.reasons],
    }
    return _made(loaded, ranked, {**ranked.to_dict(), **words})


def steer(loaded: Loaded, options: dict[str, Any]) -> Made:
    """Answer /steer: the list of the rule with dials, and what they change."""
    ranked = _run(loaded.rule, options)
    without = _run(loaded.rule, {**options, "dials": None, "reasons": False})
    before = {item: place for place, item in enumerate(without.ids, 1)}
    after = {item: place for place, item in enumerate(ranked.ids, 1)}
    changed = {
        "without": list(without.ids),
        "came": [it for it in ranked.ids if it not in before],
        "left": [it for it in without.ids if it not in after],
        "moved": [
            {"item": it, "before": before[it], "after": place}
            for it, place in after.items()
            if before.get(it, place) != place
        ],
    }
    return _made(loaded, ranked, {**ranked.to_dict(reasons=options["reasons"]), **changed})


def _run(rule: Any, options: dict[str, Any]) -> Ranked:
    found: Ranked = rule.rank(**options) if "user_vector" in options else rule.rerank(**options)
    return found


def _made(loaded: Loaded, ranked: Ranked, values: dict[str, Any], shown: str = "") -> Made:
    shown = shown or (RULE if ranked.fallback is None else BASE)
    return Made(
        content=orjson.dumps({**values, "shown": shown}),
        shown=shown,
        ids=ranked.ids,
        base=ranked.base,
        trade_off=ranked.trade_off,
        fallback=ranked.fallback,
        unmet=len(ranked.unmet),
        unknown=len(ranked.unknown),
        coverage=(loaded.rule.coverage(ranked.base), loaded.rule.coverage(ranked.ids)),
    )
