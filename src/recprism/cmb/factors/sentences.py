"""Sentences from templates: every number in them is part of the explanation and can be recomputed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recprism.cmb.factors.explanation import Explanation, Row

ARITHMETIC = "The lines below describe these vectors, and what erasing parts of them takes back."
UNCHECKED = "No controls were run: the lines below are a decomposition and say nothing about causes."


def of(explanation: Explanation) -> list[str]:
    """Return all sentences: findings, directions and factors if the verdict allows them, and their stability."""
    rows = (*explanation.directions, *explanation.factors) if may_speak(explanation) else ()
    return [*found(explanation), *(about(explanation, row) for row in rows), *summary(explanation)]


def found(explanation: Explanation) -> list[str]:
    """Describe plain promotion first, then the verdict about factors."""
    lines = [explanation.parts.sentence(explanation.objective)]
    lines.append(UNCHECKED if explanation.verdict is None else explanation.verdict.sentence())
    lines += explanation.notes
    if explanation.verdict is not None and explanation.verdict.reason == "known users":
        lines.append(ARITHMETIC)
    return lines


def may_speak(explanation: Explanation) -> bool:
    """Whether single directions and factors may be described: not if controls reach the same gain."""
    return explanation.verdict is None or explanation.verdict.reason in ("holds", "known users")


def summary(explanation: Explanation) -> list[str]:
    """Describe all directions and factors together, and whether other groups of users give the same ranking."""
    lines = together(explanation) if may_speak(explanation) else []
    return lines if explanation.agreement is None else [*lines, stability(explanation)]


def together(explanation: Explanation) -> list[str]:
    """Describe what erasing all shown directions undoes, and what erasing all shown factors undoes."""
    pairs = zip((explanation.directions, explanation.factors), explanation.together, strict=True)
    return [
        f"All {len(rows)} {rows[0].kind}s together: {effect(explanation, erased, 'them')}"
        for rows, erased in pairs
        if len(rows) > 1
    ]


def about(explanation: Explanation, row: Row) -> str:
    """Describe a factor or direction: its name, what it moves, and what erasing it alone undoes."""
    whom = "users" if row.side == "user" else "items"
    share = f", {row.size:.0%} of what is not plain promotion" if row.kind == "direction" else ""
    moved = f"raises {row.raised:,} {whom} and lowers {row.lowered:,}"
    if row.kind == "factor":
        moved = f"was raised for {row.raised:,} {whom} and lowered for {row.lowered:,}"
    return f"{row.label} ({row.words}{share}) {moved}. {effect(explanation, row.erased, 'it alone')}"


def effect(explanation: Explanation, erased: Mapping[str, float], what: str) -> str:
    """Describe the effect of an erasure; ``erased``: metric -> value after it."""
    share = explanation.taken_back(erased)
    if share is None:
        return f"{explanation.objective} hardly changed: there is no gain to take back."
    gained = explanation.after[explanation.objective] >= explanation.base[explanation.objective]
    part = f"{round(share, 2) + 0.0:.0%} of the {'gain' if gained else 'change'} in {explanation.objective}"
    return f"Erasing {what} takes back {part}{price(explanation, erased)}."


def price(explanation: Explanation, erased: Mapping[str, float]) -> str:
    """Describe the accuracy that the erasure brings back, in percentage points of the base value."""
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
