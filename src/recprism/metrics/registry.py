"""Metrics by name. This module imports all modules of metrics; a new one needs its name in the import below."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from recprism.errors import InputError
from recprism.metrics import _intents, accuracy, calibration, catalogue, diversity, strata  # noqa: F401
from recprism.metrics.metric import ALIASES, FAMILIES, LIST_FUNCTIONS, METRICS, Metric, plain_name, register

__all__ = ["ALIASES", "METRICS", "register"]  # here rather than in ``metric``, where not all metrics are known yet


def number_in(name: str) -> int | None:
    """Return the number in the name of a metric of a family; None for other names.

    >>> number_in("shown_20_times"), number_in("gini")
    (20, None)
    """
    for family in FAMILIES:
        before, _, after = family.partition("N")
        number = name.removeprefix(before).removesuffix(after)
        if f"{before}{number}{after}" == name and re.fullmatch(r"[1-9][0-9]{0,8}", number):
            return int(number)
    return None


def parse(text: str) -> tuple[Metric, int | None]:
    """Return the metric and the cut of a name such as "ndcg@10"; the cut is None if the name has none.

    Args:
        text: The name; case, spaces and hyphens do not matter.

    Raises:
        InputError: The metric is unknown, or the cut is not a whole number above 0.

    >>> metric, k = parse("ndcg@10")
    >>> metric.name, k
    ('ndcg', 10)
    >>> parse("ndgc@10")
    Traceback (most recent call last):
        ...
    recprism.errors.InputError: unknown metric 'ndgc'; did you mean 'ndcg'?
    """
    name, at, cut = text.strip().partition("@")
    metric = find(name)
    if not at:
        return metric, None
    if not cut.isdecimal() or int(cut) < 1:
        raise InputError(f"{text!r} asks for a cut at {cut!r}; write a whole number above 0, such as {metric.name}@10")
    return metric, int(cut)


def metric_name(word: str, k: int = 10) -> str:
    """Return the full name of a metric; without a cut, it is cut at ``k``.

    >>> metric_name("SC"), metric_name("recall@20")
    ('subtopic_coverage@10', 'recall@20')
    """
    metric, cut = parse(word)
    return f"{metric.name}@{k if cut is None else cut}"


def metric_of_goal(goal: str) -> str:
    """Return the metric of the (first) goal, at 10; subtopic coverage if the goal is a function without a name.

    >>> metric_of_goal("ilad+sc"), metric_of_goal("my own")
    ('ilad@10', 'subtopic_coverage@10')
    """
    try:
        return metric_name(goal.partition("+")[0].partition("@")[0])
    except InputError:
        return "subtopic_coverage@10"


def canonical(name: str) -> str:
    """Return the registered name of an alias; other names are returned as they are.

    >>> canonical("sc"), canonical("alpha_ndcg")
    ('subtopic_coverage', 'alpha_ndcg')
    """
    plain = plain_name(name)
    return ALIASES.get(plain, plain)


def with_gini(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of metrics, with Gini after every catalogue coverage.

    An item that one user sees counts in full for catalogue coverage, so it is never shown without Gini.

    >>> with_gini(["ndcg@10", "pc@20", "recall@10"])
    ('ndcg@10', 'pc@20', 'gini@20', 'recall@10')
    >>> with_gini(["gini", "catalogue_coverage"])
    ('gini', 'catalogue_coverage')
    """
    given = tuple(names)
    found: list[str] = []
    for name in given:
        word, at, cut = name.partition("@")
        gini = f"gini{at}{cut}"
        found += [name, gini] if canonical(word) == "catalogue_coverage" and gini not in given else [name]
    return tuple(dict.fromkeys(found))


def find(name: str) -> Metric:
    """Return the metric of that name; case, spaces and hyphens do not matter."""
    plain = canonical(name)
    number = number_in(plain)
    if number is not None:
        return next(make for family, make in FAMILIES.items() if family == plain.replace(str(number), "N"))(
            plain, number
        )
    if plain in LIST_FUNCTIONS:
        return LIST_FUNCTIONS[plain]
    if plain not in METRICS:
        close = get_close_matches(plain, [*METRICS, *ALIASES], n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else f"there are {', '.join(sorted(METRICS))}"
        raise InputError(f"unknown metric {name!r}; {hint}")
    return METRICS[plain]
