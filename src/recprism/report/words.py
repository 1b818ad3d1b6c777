"""Words and formatted values of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recprism.common.shares import percent
from recprism.result.summary import Sizes, unit_of

if TYPE_CHECKING:
    from recprism.explain.explained import ExplanationInShort
    from recprism.report.content import Change, Explained

ALIKE = 0.7  # shortest bar over longest: above this they count as about equally strong
NOT_JUDGED = "not judged"


def signed_percent(share: float | None) -> str:
    """Format a signed share, with a typographic minus; no minus before a 0."""
    return percent(share, "+z.1f").replace("-", "−")


def amount(value: float | None, digits: int = 3) -> str:
    return NOT_JUDGED if value is None else f"{value:.{digits}f}"


def interval(row: Change) -> str:
    return "" if row.low is None or row.high is None else f"{signed_percent(row.low)} to {signed_percent(row.high)}"


def told(changes: Mapping[str, tuple[float | None, float | None]], sizes: Sizes) -> str:
    """Return the values of one user's list before and after, in units of a reader."""
    said = []
    for name, (before, after) in changes.items():
        unit = unit_of(name, sizes)
        what = "accuracy (NDCG)" if name.startswith("ndcg@") else unit.what[:1].lower() + unit.what[1:]
        values = NOT_JUDGED
        if before is not None and after is not None:
            values = f"{unit.times * before:.3g} -> {unit.times * after:.3g}{unit.whole}"
        said.append(f"{what} {values}")
    return ", ".join(said)


def plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def verdict_of(rule: ExplanationInShort | None) -> tuple[str, str]:
    """Return the verdict on the explanation of a rule, and its control; empty without a choice model."""
    if rule is None or rule.explained is None:
        return "", ""
    share = percent(rule.explained, "z.0f")
    if rule.p_value is None or rule.shuffled is None:
        return "Not tested: no controls were run, so categories are only counted here.", ""
    said = f"The stated reasons predict {share} of the changes in the lists of {rule.users:,} users."
    if not rule.holds:
        said = "Categories do not predict the changes: read the chart as counts and not as causes."
    return said, f"Control: with shuffled categories, {percent(rule.shuffled, 'z.1f')} (p = {rule.p_value:.3f})."


def alike(found: Explained) -> str:
    """Say whether the factors that are shown are about equally strong.

    It says nothing about those that are not shown, and nothing if the verdict does not hold.
    """
    equal = found.holds and _about_equal([it.taken_back or 0.0 for it in found.features])
    return " The factors shown are about equally strong." if equal else ""


def _about_equal(taken_back: Sequence[float]) -> bool:
    return len(taken_back) > 1 and max(taken_back) > 0 and min(taken_back) >= ALIKE * max(taken_back)
