"""Codes of reasons from the parts of the objective, and where an item is looked for on the path; plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

CODE_OF_PART = {
    "relevance": "relevance",
    "coverage": "new_category",
    "alpha_dcg": "less_repetition",
    "distance": "distance",
    "exposure": "shown_nowhere_else",
    "history": "history",
}
PINNED = ("pinned",)
LIMIT = "limit"
ORDER = 1e-9  # above rounding errors of equal matches, below any other difference
TIED = 1e-10  # differences of the objective that do not count, relative to 1
GRID = (0.0, 0.02, 0.035, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Trade-offs at which an item is looked for; the crossing between two of them is bisected. At 1, where relevance does
not count, many lists are worth the same."""
PRECISION = 1e-3  # of a bisected trade-off


def codes_of(parts: Mapping[str, float], *, has_new: bool = False) -> tuple[str, ...]:
    """Return the codes of the parts that support an item, the strongest first.

    Args:
        parts: Part of the objective -> its value with the item minus that without it.
        has_new: Whether the item has categories that no other item of the list has.
    """
    strong = [(-value, at) for at, value in enumerate(parts.values()) if value > TIED]
    names = list(parts)
    codes = tuple(CODE_OF_PART[names[at]] for _, at in sorted(strong))
    if has_new and "new_category" not in codes:
        codes = tuple("new_category" if code == "less_repetition" else code for code in codes)
    return codes


def first_present(
    is_in: Callable[[float], bool], trade_offs: Sequence[float], absent: float | None, precision: float
) -> tuple[float, float | None] | None:
    """Return the first of rising trade-offs with an item, bisected, and the nearest one without it.

    Args:
        is_in: Whether the item is in the list at a trade-off.
        trade_offs: Rising trade-offs.
        absent: A trade-off below them without the item; None if unknown.
        precision: The pair is at most this far apart.

    Returns:
        None if the item is in none of the lists. The second number is None if it is in the first of them.
    """
    for trade_off in trade_offs:
        if is_in(trade_off):
            return (trade_off, None) if absent is None else crossing(is_in, trade_off, absent, precision)
        absent = trade_off
    return None


def crossing(is_in: Callable[[float], bool], present: float, absent: float, precision: float) -> tuple[float, float]:
    """Bisect between a trade-off at which an item is shown and one at which it is not."""
    while abs(present - absent) > precision:
        middle = (present + absent) / 2
        present, absent = (middle, absent) if is_in(middle) else (present, middle)
    return present, absent
