"""The words of the page: the three sentences of the verdict, and formatted values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recprism.data.shares import percent

if TYPE_CHECKING:
    from recprism.report.content import Change, Content, Explained

SEGMENTS = {
    "everyone": "all users",
    "light": "the third with the fewest training items",
    "heavy": "the third with the most training items",
    "niche": "the third whose items are the least popular",
    "mainstream": "the third whose items are the most popular",
    "focused": "the third whose items have the fewest subtopics",
    "broad": "the third whose items have the most subtopics",
    "head": "the most popular items, a third of all training interactions",
    "mid": "the next, another third",
    "tail": "all the rest",
}
ALIKE = 0.7  # shortest bar over longest: above this they count as about equally strong
NOT_JUDGED = "not judged"


def signed_percent(share: float | None, digits: int = 1) -> str:
    """Format a signed share, with a typographic minus; no minus before a 0."""
    return percent(share, f"+z.{digits}f").replace("-", "−")


def amount(value: float | None, digits: int = 3) -> str:
    return NOT_JUDGED if value is None else f"{value:.{digits}f}"


def both(row: Change) -> str:
    """Format before and after, or say that neither could be judged."""
    unknown = row.before is None and row.after is None
    return NOT_JUDGED if unknown else f"{amount(row.before)} → {amount(row.after)}"


def interval(row: Change) -> str:
    return "" if row.low is None or row.high is None else f"{signed_percent(row.low)} to {signed_percent(row.high)}"


def plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def verdict(content: Content, certificate: str | None) -> tuple[str, str, str]:
    """Return three sentences: gain and price, the verdict on the explanation, and what to do next."""
    if not content.diversified:
        return _audited(content, certificate)
    return _price(content), _explanation(content), _next(content)


def _row(content: Content, name: str) -> Change | None:
    return next((row for row in content.changes if row.name == name), None)


def _price(content: Content) -> str:
    objective = content.goal if content.explained is None else content.explained.objective
    gain, loss = _row(content, objective) or _row(content, content.goal), _row(content, content.cost)
    gained = "" if gain is None else f"{gain.name} {signed_percent(gain.relative)} ({both(gain)})".replace("  ", " ")
    if loss is None or loss.before is None or content.chosen is None:
        return f"The lists changed: {gained}; accuracy could not be judged, because there are no held-out interactions."
    paid = f"for {signed_percent(loss.relative)} of {loss.name}"
    if (loss.relative or 0.0) >= 0:
        paid = f"at no measured loss of {loss.name} ({signed_percent(loss.relative)})"
    price = f"The lists changed: {gained}, {paid}"
    if content.chosen.budget is None:
        return f"{price}; this price was measured on {loss.n:,} users, and is not certified."
    return f"{price}; a loss of at most {100 * content.chosen.budget:g} % is certified on held-out interactions."


def _explanation(content: Content) -> str:
    found = content.explained
    if content.rule is not None:
        return content.rule.sentence
    return "" if found is None else f"{found.sentence}{alike(found)}"


def _next(content: Content) -> str:
    if content.chosen is None:
        return "Next: hold out some interactions, so that the price can be measured before this is served."
    if content.chosen.gain <= 0:
        command = f"recprism diversify {content.run} --overwrite --budget 0.05"
        return f"Next: do not serve this; ask for a budget instead: `{command}`."
    if content.chosen.budget is None:
        return (
            "Next: before this is served, ask for a certified price: "
            f"`recprism diversify {content.run} --overwrite --budget 0.05 --goal {content.goal.partition('@')[0]}`."
        )
    paying = [row for row in content.payers if row.name in content.paying]
    if not paying:
        return f"Next: serve these lists (`recprism export {content.run}`); no group of users clearly pays more."
    named = ", ".join(f"{row.name} users ({signed_percent(row.relative)}, {interval(row)})" for row in paying)
    return (
        f"Next: serve these lists to some users first (`recprism export {content.run}`), and watch the groups that pay "
        f"more than the others in {content.cost}, beyond chance: {named}."
    )


def _audited(content: Content, certificate: str | None) -> tuple[str, str, str]:
    certified = [point for point in content.front if point.certified_for is not None]
    within = [point for point in certified if (point.certified_for or 0.0) <= content.budget]
    reach = max(within or certified, key=lambda point: point.gain, default=None)
    if certificate is not None:
        first = f"Nothing was changed, because no change could be certified. {certificate}"
    elif not content.front:
        first = "Nothing was changed yet, and without held-out interactions the cost of diversity is not known."
    elif reach is None:
        first = "Nothing was changed yet, and no point of the front is certified: there are too few users for that."
    else:
        first = (
            f"Nothing was changed yet: this page is an audit. Certified within {100 * (reach.certified_for or 0):g} % "
            f"of {content.cost}, the lists could gain {signed_percent(reach.gain)} {content.goal}."
        )
    goal = content.goal.partition("@")[0]
    command = f"recprism diversify {content.run} --budget 0.05 --goal {goal}"
    again = " --overwrite" if certificate is not None else ""
    return (
        first,
        "There is no change to explain yet, so the page gives no reasons.",
        f"Next: `{command}{again}`, then `recprism report {content.run}`.",
    )


def numbers(content: Content) -> list[tuple[str, str, str]]:
    """Return the key figures: name, value, and a small line below."""
    if not content.diversified:
        return [(row.name, amount(row.before), "now") for row in content.changes if row.name in _heads(content)]
    found = [
        (row.name, signed_percent(row.relative), both(row))
        for name in _heads(content)
        if (row := _row(content, name)) is not None
    ]
    if content.chosen is not None:
        kept = content.chosen.budget
        state = ("no", "measured only") if kept is None else (f"≤ {100 * kept:g} %", f"of {content.cost} may be lost")
        found.append(("certified", *state))
    if content.rule is not None and content.rule.explained is not None:
        found.append(("explained", percent(content.rule.explained, "z.0f"), "of what scores alone leave open"))
    if content.explained is not None:
        found.append(("due to factors", *_due_to_factors(content.explained)))
    return found


def _due_to_factors(explained: Explained) -> tuple[str, str]:
    if explained.known_users:
        return "open", "beyond chance and promotion, but on known users"
    answer = "yes" if explained.holds else "no" if explained.checked else "not checked"
    return answer, "beyond chance and promotion"


def _heads(content: Content) -> tuple[str, ...]:
    return tuple(dict.fromkeys((content.goal, content.cost)))


def alike(found: Explained) -> str:
    """Say whether the directions, or the factors, that are shown are about equally strong.

    It says nothing about those that are not shown, and nothing if the verdict does not hold.
    """
    if not found.holds:
        return ""
    text = ""
    for kind in ("direction", "factor"):
        if _about_equal([it.taken_back or 0.0 for it in found.features if it.kind == kind]):
            text += f" The {kind}s shown are about equally strong."
    return text


def _about_equal(taken_back: Sequence[float]) -> bool:
    return len(taken_back) > 1 and max(taken_back) > 0 and min(taken_back) >= ALIKE * max(taken_back)
