"""The answers to requests for lists, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recprism.service._bodies import Common, ExplainBody, RankBody, RerankBody, SteerBody
from recprism.service._loaded import Loaded
from recprism.serving.ranked import Ranked

BASE, RULE, ONCE = "base", "rule", "once"  # as ``operate.served_log`` writes them; that module needs polars


@dataclass(frozen=True, eq=False)
class Made:
    """A list that was made.

    Attributes:
        ranked: What the rule made.
        values: The answer.
        shown: Which list the answer shows.
    """

    ranked: Ranked
    values: dict[str, Any]
    shown: str


def serve(loaded: Loaded, body: Common, options: dict[str, Any]) -> Made:
    """Answer /rerank and /rank."""
    assert isinstance(body, RerankBody | RankBody)
    ranked = _run(loaded.rule, options)
    return _made(ranked, ranked.to_dict(reasons=body.reasons))


def serve_in_shadow(loaded: Loaded, body: Common, options: dict[str, Any]) -> Made:
    """Answer /rerank and /rank in shadow mode: with the list by relevance alone, while both lists are logged."""
    assert isinstance(body, RerankBody | RankBody)
    quick = {**options, "reasons": False, "entry_prices": False}
    ranked, plain = _run(loaded.rule, quick), _run(loaded.plain, quick)
    values = {**plain.to_dict(reasons=body.reasons), "fallback": ranked.fallback}
    return Made(ranked, {**values, "shown": BASE}, BASE)


def explain(loaded: Loaded, body: Common, options: dict[str, Any]) -> Made:
    """Answer /explain: always the list of the rule, also in shadow mode."""
    assert isinstance(body, ExplainBody)
    ranked = _run(loaded.rule, options)
    words = {
        "sentences": [it.sentence() for it in ranked.reasons],
        "for_users": [it.for_users() for it in ranked.reasons],
    }
    return _made(ranked, {**ranked.to_dict(), **words})


def steer(loaded: Loaded, body: Common, options: dict[str, Any]) -> Made:
    """Answer /steer: the list of the rule with dials, and what they change."""
    assert isinstance(body, SteerBody)
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
    return _made(ranked, {**ranked.to_dict(reasons=body.reasons), **changed})


def _run(rule: Any, options: dict[str, Any]) -> Ranked:
    found: Ranked = rule.rank(**options) if "user_vector" in options else rule.rerank(**options)
    return found


def _made(ranked: Ranked, values: dict[str, Any]) -> Made:
    shown = RULE if ranked.fallback is None else BASE
    return Made(ranked, {**values, "shown": shown}, shown)
