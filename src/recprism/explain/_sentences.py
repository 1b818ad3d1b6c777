"""Sentences from templates: every number in them stands in the explanation and can be recomputed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recprism.explain.explanation import Explanation, Row

ARITHMETIC = "What follows says what these vectors hold, and what erasing it from them takes back."
UNCHECKED = "No controls were run: what follows is a decomposition, and says nothing about causes."


def of(explanation: Explanation) -> list[str]:
    """All of them: what was found, every direction and factor where they may be spoken of, and how stable it is."""
    rows = (*explanation.directions, *explanation.factors) if may_speak(explanation) else ()
    return [*found(explanation), *(about(explanation, row) for row in rows), *summary(explanation)]


def found(explanation: Explanation) -> list[str]:
    """Promotion first, then whether factors may be spoken of."""
    lines = [explanation.parts.sentence(explanation.objective)]
    lines.append(UNCHECKED if explanation.verdict is None else explanation.verdict.sentence())
    lines += explanation.notes
    if explanation.verdict is not None and explanation.verdict.reason == "known users":
        lines.append(ARITHMETIC)
    return lines


def may_speak(explanation: Explanation) -> bool:
    """Of what single directions and factors do: unless controls reach the same."""
    return explanation.verdict is None or explanation.verdict.reason in ("holds", "known users")


def summary(explanation: Explanation) -> list[str]:
    """What directions and factors do together, and whether the ranking comes out alike on other users."""
    lines = together(explanation) if may_speak(explanation) else []
    return lines if explanation.agreement is None else [*lines, stability(explanation)]


def together(explanation: Explanation) -> list[str]:
    """What erasing all directions that are shown undoes, and all factors."""
    pairs = zip((explanation.directions, explanation.factors), explanation.together, strict=True)
    return [
        f"All {len(rows)} {rows[0].kind}s together: {effect(explanation, erased, 'them')}"
        for rows, erased in pairs
        if len(rows) > 1
    ]


def about(explanation: Explanation, row: Row) -> str:
    """What a factor or direction is called, whom it moves, and what erasing it alone undoes."""
    whom = "users" if row.side == "user" else "items"
    share = f", {row.size:.0%} of what is not plain promotion" if row.kind == "direction" else ""
    moved = f"raises {row.raised:,} {whom} and lowers {row.lowered:,}"
    if row.kind == "factor":
        moved = f"was raised for {row.raised:,} {whom} and lowered for {row.lowered:,}"
    return f"{row.label} ({row.words}{share}) {moved}. {effect(explanation, row.erased, 'it alone')}"


def effect(explanation: Explanation, erased: Mapping[str, float], what: str) -> str:
    """erased: metric -> its value without what is spoken of"""
    share = explanation.taken_back(erased)
    if share is None:
        return f"{explanation.objective} hardly changed: there is no gain to take back."
    gained = explanation.after[explanation.objective] >= explanation.base[explanation.objective]
    part = f"{round(share, 2) + 0.0:.0%} of the {'gain' if gained else 'change'} in {explanation.objective}"
    return f"Erasing {what} takes back {part}{price(explanation, erased)}."


def price(explanation: Explanation, erased: Mapping[str, float]) -> str:
    """Points of the loss of accuracy that come back with it, in percent of the base value."""
    name = explanation.cost
    base = explanation.base[name]
    if not math.isfinite(base):
        return f"; {name} could not be judged"
    if not base or explanation.after[name] >= base:
        return f"; {name} did not lose"
    points = round(100 * (erased[name] - explanation.after[name]) / base, 1) + 0.0
    loss = 100 * (1 - explanation.after[name] / base)
    return f" and {points:.1f} points of the {name} loss of {loss:.1f} %"


def stability(explanation: Explanation) -> str:
    found = explanation.agreement
    assert found is not None
    interval = "" if math.isnan(found.low) else f" ({found.low:.2f} to {found.high:.2f})"
    return (
        f"On {found.n_rankings} separate groups of users the rankings of factors agree with a rank correlation of "
        f"{found.mean:.2f}{interval}."
    )
