"""What decides an exchange, and where an item is looked for on the path; plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recprism.rule.kernels.parts import PARTS

CODE_OF_PART = {
    "relevance": "relevance",
    "coverage": "new_category",
    "alpha_dcg": "less_repetition",
    "distance": "distance",
    "exposure": "shown_nowhere_else",
    "history": "history",
}
GOALS = ("coverage", "alpha_dcg", "distance", "exposure")
"""Parts that have no value at price 0."""
TOGETHER = "together"
PINNED = ("pinned",)
LIMIT = "limit"
ORDER = 1e-9  # above rounding errors of equal matches, below any other difference
TIED = 1e-10  # differences of the objective that do not count, relative to 1
GRID = (0.0, 0.02, 0.035, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Trade-offs at which an item is looked for; the crossing between two of them is bisected. At 1, where relevance does
not count, many lists are worth the same."""
PRECISION = 1e-3  # of a bisected trade-off


def is_lost(margin: float, at: int, other: int) -> bool:
    """Return whether an item loses an exchange; of two lists of equal value, that of the more relevant item stays.

    Args:
        margin: Value of the list with the item minus that with the other one.
        at: Position of the item among the candidates; a position is a rank.
        other: Position of the other one.
    """
    return margin < -TIED or (margin <= TIED and other < at)


def causes_of(parts: Sequence[float], lost: Callable[[float], bool], *, personal: bool) -> list[str]:
    """Return the codes of what decides an exchange that the item wins, the strongest first.

    A part decides if the item loses the exchange without it. Codes after ``TOGETHER`` decide together, and none of them
    does alone.

    Args:
        parts: The parts of the margin, in the order of ``PARTS``.
        lost: Margin -> whether the item loses the exchange.
        personal: Whether the history is one of the user. Without one, its term only spreads the categories.
    """
    margin = sum(parts)
    names = dict(zip(PARTS, CODE_OF_PART.values(), strict=True))
    if not personal:
        names["history"] = "less_repetition"
    strong = [(name, value) for name, value in zip(PARTS, parts, strict=True) if value > TIED]
    strong.sort(key=lambda one: -one[1])

    def decide(some: list[tuple[str, float]]) -> bool:
        """Return whether the item loses without these parts; without relevance, rank does not break ties either."""
        left = margin - sum(value for _, value in some)
        return lost(left) or (left <= TIED and any(name == "relevance" for name, _ in some))

    alone = [one for one in strong if decide([one])]
    jointly = [one for one in strong if one[0] in GOALS]
    if any(name in GOALS for name, _ in alone) or not decide(jointly):
        jointly = strong if not alone and decide(strong) else []
    codes = [names[name] for name, _ in alone]
    if len(jointly) > 1:
        codes.append(TOGETHER)
    return list(dict.fromkeys([*codes, *(names[name] for name, _ in jointly)]))


def deciding(
    effects: Sequence[float], without: Sequence[float], together: float, lost: Callable[[float], bool]
) -> tuple[list[int], bool]:
    """Return which categories of an item decide an exchange, the strongest first, and whether only all together do.

    Args:
        effects: What each category adds.
        without: The margin without each category.
        together: The margin without all categories that add something.
        lost: Margin -> whether the item loses the exchange.
    """
    some = sorted((at for at, effect in enumerate(effects) if effect > TIED), key=lambda at: -effects[at])
    alone = [at for at in some if lost(without[at])]
    if alone or not some or not lost(together):
        return alone, False
    return some, len(some) > 1


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
