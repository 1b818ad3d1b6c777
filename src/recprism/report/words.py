"""The page in words: three sentences that a busy reader takes away, and small things in plain English."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recprism.report.content import Change, Content

SEGMENTS = {
    "everyone": "all users",
    "light": "the third with the fewest training items",
    "heavy": "the third with the most training items",
    "niche": "the third whose items are the least popular",
    "mainstream": "the third whose items are the most popular",
    "focused": "the third whose items have the fewest subtopics",
    "broad": "the third whose items have the most subtopics",
    "head": "the most popular items",
    "tail": "all other items",
}
NOTHING_RELIABLE = (
    "Nothing reliable was found about factors. What follows below is arithmetic about this one change: it adds up, but "
    "it is no reason why lists became more diverse."
)


def percent(share: float | None, digits: int = 1) -> str:
    """A signed share; no minus before a 0."""
    return "" if share is None else f"{round(100 * share, digits) + 0.0:+.{digits}f} %".replace("-", "−")


def plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def verdict(content: Content, certificate: str | None) -> tuple[str, str, str]:
    """What was gained at which price; whether factors may be spoken of; what to do next."""
    if not content.diversified:
        return _audited(content, certificate)
    return _price(content), _factors(content), _next(content)


def _row(content: Content, name: str) -> Change | None:
    return next((row for row in content.changes if row.name == name), None)


def _price(content: Content) -> str:
    objective = content.goal if content.explained is None else content.explained.objective
    gain, loss = _row(content, objective) or _row(content, content.goal), _row(content, content.cost)
    gained = "" if gain is None else f"{gain.name} {percent(gain.relative)} ({gain.before:.3f} → {gain.after:.3f})"
    if loss is None or content.chosen is None:
        return f"The lists changed: {gained}; what that costs in accuracy is not known without held-out interactions."
    price = f"The lists changed: {gained}, for {percent(loss.relative)} of {loss.name}"
    if content.chosen.budget is None:
        return f"{price}; this price was measured on {loss.n:,} users, and is not certified."
    return f"{price}; a loss of at most {100 * content.chosen.budget:g} % is certified on held-out interactions."


def _factors(content: Content) -> str:
    return "" if content.explained is None else content.explained.sentence


def _next(content: Content) -> str:
    if content.chosen is None:
        return "Next: keep some interactions apart, so that the price can be measured before this is served."
    if content.chosen.gain <= 0:
        command = f"recprism diversify {content.run} --overwrite --budget 0.05"
        return f"Next: do not serve this; ask for a budget instead: {command}"
    if content.chosen.budget is None:
        return (
            "Next: before this is served, ask for a certified price: "
            f"recprism diversify {content.run} --overwrite --budget 0.05 --goal {content.goal.partition('@')[0]}"
        )
    known = [row for row in content.payers if row.name != "everyone" and row.relative is not None]
    worst = min(known, key=lambda row: row.relative or 0.0, default=None)
    if worst is None or (worst.relative or 0.0) >= 0:
        return f"Next: serve these vectors (recprism recommend {content.run}); no group of users lost accuracy."
    return (
        f"Next: serve these vectors to some users first (recprism recommend {content.run}), and watch {worst.name} "
        f"users, who pay most: {percent(worst.relative)} of {content.cost}."
    )


def _audited(content: Content, certificate: str | None) -> tuple[str, str, str]:
    reach = max((point for point in content.front if point.certified_for is not None), key=_gain, default=None)
    if certificate is not None:
        first = f"Nothing was changed, because no change could be certified. {certificate}"
    elif not content.front:
        first = "Nothing was changed yet, and without held-out interactions nobody knows what diversity would cost."
    elif reach is None:
        first = "Nothing was changed yet, and no point of the front is certified: there are too few users for that."
    else:
        first = (
            f"Nothing was changed yet: this page is an audit. Certified within {100 * (reach.certified_for or 0):g} % "
            f"of {content.cost}, the lists could gain {percent(reach.gain)} {content.goal}."
        )
    goal = content.goal.partition("@")[0]
    command = f"recprism diversify {content.run} --budget 0.05 --goal {goal}"
    again = " --overwrite" if certificate is not None else ""
    return (
        first,
        "Nothing can be said about factors before there is a change to explain.",
        f"Next: {command}{again}, then recprism report {content.run}",
    )


def _gain(point: Any) -> float:
    return float(point.gain)
