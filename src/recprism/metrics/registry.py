"""The class of metrics, and the registry of their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from torch import Tensor

from recprism.errors import InputError
from recprism.metrics.context import Context
from recprism.metrics.lists import Lists

MetricFunction = Callable[..., Tensor]  # f(lists, context, **options)


@dataclass(frozen=True)
class Metric:
    """A named function of lists, and the facts that its readers need.

    Attributes:
        name: The name without the cut: "ndcg" in "ndcg@10".
        function: ``f(lists, context, **options)`` -> ``(n_users,)`` if ``per_user``, else one number. NaN for users
            that cannot be evaluated.
        summary: One sentence that says what it measures.
        higher_is_better: None if neither direction is better.
        bounds: Smallest and largest possible value.
        needs: What the context must have: keys of ``HOW_TO_GIVE``.
        per_user: Whether there is a value for each user (averaged, with an interval), or one for all lists together.
        min_places: Smallest length of the lists, whatever the cut.
        empties: What happens to users without held-out items, empty lists and items without subtopics.
        options: Keyword arguments for ``function``.
    """

    name: str
    function: MetricFunction
    summary: str = ""
    higher_is_better: bool | None = True
    bounds: tuple[float, float] = (0.0, 1.0)
    needs: tuple[str, ...] = ()
    per_user: bool = True
    min_places: int = 1
    empties: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __call__(self, lists: Lists, context: Context | None = None) -> Tensor:
        """Return the values for all places of ``lists``; pass ``lists.at(k)`` for a cut."""
        return self.function(lists, lists.context if context is None else context, **self.options)

    def variant(self, name: str, options: Mapping[str, Any], **facts: Any) -> Metric:
        """Return the metric with other options and another name; ``facts`` are fields that change with them."""
        return replace(self, name=name, options={**self.options, **options}, **facts)


METRICS: dict[str, Metric] = {}
FAMILIES: dict[str, Callable[[str, int], Metric]] = {}
"""Metrics with a number in their name: "shown_N_times" -> f(name, N)."""
ALIASES = {
    "coverage": "catalogue_coverage",
    "pc": "catalogue_coverage",  # the paper: prediction coverage
    "sc": "subtopic_coverage",  # the paper
    "personalization": "personalisation",
}


def register(metric: Metric, *, replace: bool = False) -> Metric:
    """Register a metric by its name.

    Args:
        metric: The metric.
        replace: Whether the name may belong to a registered metric.

    Returns:
        The metric.

    Raises:
        InputError: The name is taken or malformed.
    """
    if "@" in metric.name or metric.name != _plain(metric.name):
        raise InputError(f"a metric's name is lower case, with _ between words and without @, not {metric.name!r}")
    if not replace and (metric.name in METRICS or metric.name in ALIASES):
        raise InputError(f"there is a metric called {metric.name!r} already; choose another name or pass replace=True")
    METRICS[metric.name] = metric
    return metric


def register_family(name: str, make: Callable[[str, int], Metric]) -> None:
    """Register metrics that differ by a whole number above 0, which stands for N in their name."""
    FAMILIES[name] = make


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
    plain = _plain(name)
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
    if plain not in METRICS:
        close = get_close_matches(plain, [*METRICS, *ALIASES], n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else f"there are {', '.join(sorted(METRICS))}"
        raise InputError(f"unknown metric {name!r}; {hint}")
    return METRICS[plain]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


# Metrics register themselves when their module is imported. A new metric needs a file and its name here.
from recprism.metrics import _intents, accuracy, calibration, catalogue, diversity, strata  # noqa: E402, F401
