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
BY_PART = tuple(CODE_OF_PART.values())
BY_PART_WITHOUT_HISTORY = (*BY_PART[:-1], "less_repetition")
OF_HISTORY = PARTS.index("history")  # relevance is the first part, the history the last
TOGETHER = "together"
VARIETY = ("new_category", "less_repetition", "distance", "shown_nowhere_else")
BOOSTED = "lifted_exposure"  # the code of a boost; it does not change between versions
ELSEWHERE = {"price": "variety_elsewhere", "history": "history_elsewhere", "boost": "boost_elsewhere"}
NO_SINGLE_CAUSE = "no_single_cause"
CAUSE_OF = {**dict.fromkeys((TOGETHER, *VARIETY), "price"), "history": "history"}
"""What is taken away, by the codes of an exchange."""
NO_REASONS = (
    "the goal {} is a function of whole lists, so no item has a share of its value, and there is no reason for an item"
)
PINNED = ("pinned",)
LIMIT = "limit"
ORDER = 1e-9  # above rounding errors of equal matches, below any other difference
TIED = 1e-10  # differences of the objective that do not count, relative to 1
GRID = (0.0, 0.02, 0.035, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Trade-offs at which an item is looked for; the crossing between two of them is bisected. At 1, where relevance does
not count, many lists are worth the same."""
PRECISION = 1e-3  # of a bisected trade-off


def bar_of(at: int, other: int) -> float:
    """Return the largest margin at which an item loses an exchange.

    Of two lists of equal value, that of the more relevant item stays.

    Args:
        at: Position of the item among the candidates; a position is a rank.
        other: Position of the other one.
    """
    return TIED if other < at else -TIED


def causes_of(parts: Sequence[float], bar: float, *, personal: bool) -> list[str]:
    """Return the codes of what decides an exchange that the item wins, the strongest first.

    A part decides if the item loses the exchange without it. Codes after ``TOGETHER`` decide together, and none of them
    does alone. Without relevance, rank does not break ties either.

    Args:
        parts: The parts of the margin, in the order of ``PARTS``.
        bar: The largest margin at which the item loses the exchange.
        personal: Whether the history is one of the user. Without one, its term only spreads the categories.
    """
    names, margin = BY_PART if personal else BY_PART_WITHOUT_HISTORY, sum(parts)
    strong = [at for at, value in enumerate(parts) if value > TIED]
    if len(strong) > 1:
        strong.sort(key=parts.__getitem__, reverse=True)
    alone = [at for at in strong if margin - parts[at] <= (bar if at else TIED)]
    for_goals = False
    for at in alone:
        for_goals = for_goals or 0 < at < OF_HISTORY
    jointly: list[int] = []
    if not for_goals:
        jointly = [at for at in strong if 0 < at < OF_HISTORY]
        if margin - sum([parts[at] for at in jointly]) > bar:
            jointly = []
    if not alone and not jointly and margin - sum([parts[at] for at in strong]) <= (TIED if 0 in strong else bar):
        jointly = strong
    codes = [names[at] for at in alone]
    if jointly:
        codes += [TOGETHER] if len(jointly) > 1 else []
        codes += [names[at] for at in jointly]
    return codes if personal else list(dict.fromkeys(codes))


def agreed(codes: Sequence[str], needs: Sequence[str], goes_without: Sequence[str]) -> list[str]:
    """Return the codes of a newcomer: causes on which its exchange and the rule run again agree.

    Args:
        codes: What decides its exchange.
        needs: Without each of these alone, it loses the exchange: "price", "history" and "boost".
        goes_without: Without each of these alone, the rule makes a list without it.
    """
    if not goes_without:
        return [NO_SINGLE_CAUSE]
    agreed_on = {*needs} & {*goes_without}
    found = [code for code in codes if CAUSE_OF.get(code) in agreed_on]
    found += [BOOSTED] if "boost" in agreed_on else []
    return found + [ELSEWHERE[what] for what in goes_without if what not in agreed_on]


def deciding(effects: Sequence[float], without: Sequence[float], together: float, bar: float) -> tuple[list[int], bool]:
    """Return which categories of an item decide an exchange, the strongest first, and whether only all together do.

    Args:
        effects: What each category adds.
        without: The margin without each category.
        together: The margin without all categories that add something.
        bar: The largest margin at which the item loses the exchange.
    """
    some = [at for at, effect in enumerate(effects) if effect > TIED]
    some.sort(key=effects.__getitem__, reverse=True)
    alone = [at for at in some if without[at] <= bar]
    if alone or not some or together > bar:
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
