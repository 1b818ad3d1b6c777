"""How lists are made differently from those that were tested; plain Python."""

from __future__ import annotations

from typing import NamedTuple

from recprism.forms.rule_file import RuleFile

BOOSTED_FROM = 500  # candidates that boosts can bring into a list: as many as a problem has
STALE_DAYS = 30  # a stored history that is older leaves out what the user did last
DAY = 24 * 60 * 60


class Asked(NamedTuple):
    """What of a request can differ from the tests.

    Attributes:
        trade_off: Its trade-off.
        k: Length of its list.
        candidates: How many candidates its list is chosen from.
        scorer: Name of the model that made its scores; None if it has none.
        has_history: Whether the user has a history.
        hidden: How many ids it does not show.
        constraints: Whether it adds constraints to those of the rule.
        dials: Whether it sets dials.
        history_age: Age of the stored history in seconds; None if it is not a stored one.
        shown: Whether it comes after other pages.
    """

    trade_off: float
    k: int
    candidates: int
    scorer: str | None
    has_history: bool
    hidden: int = 0
    constraints: bool = False
    dials: bool = False
    history_age: float | None = None
    shown: bool = False


def differences(file: RuleFile, asked: Asked) -> tuple[str, ...]:
    """Return how a request differs from what was tested, in words; empty if it does not."""
    tested = file.certificate
    if tested is None:
        return ("nothing was certified",)
    most = file.candidates if file.boosts is None else BOOSTED_FROM
    enough = min(most, len(file.item_ids) - asked.hidden)
    age = (asked.history_age or 0.0) / DAY
    scorer = "a scorer without a name" if asked.scorer is None else f"scorer {asked.scorer!r}"
    found = (
        (asked.trade_off != file.trade_off, f"price {asked.trade_off:g}, tested with {file.trade_off:g}"),
        (asked.k != file.k, f"lists of {asked.k}, tested with {file.k}"),
        (
            asked.candidates < enough or (asked.candidates > most and file.boosts is None),
            f"{asked.candidates} candidates, tested with {most}",
        ),
        (asked.shown, "items of earlier pages, tested without"),
        (asked.constraints, "constraints of the request"),
        (asked.dials, "dials set by the user"),
        (asked.scorer != tested.scorer, f"{scorer}, tested with {tested.scorer!r}"),
        (age > STALE_DAYS, f"a stored history of {age:.0f} days ago"),
        (bool(file.history_weight) and not asked.has_history, "no history, tested users had one"),
    )
    return tuple(words for differs, words in found if differs)
