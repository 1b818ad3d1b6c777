"""What a metric is, and the one place where names find metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """A named judgement of lists and the facts a reader of its figures must know.

    name: how users ask for it, without the cut: "ndcg" in "ndcg@10"
    function: f(lists, context, **options) -> (n_users,) if per_user, NaN for users it cannot judge; else one number
    summary: one sentence that says what it measures
    higher_is_better: None where neither direction is better
    bounds: smallest and largest possible value
    needs: what the context must hold, keys of HOW_TO_GIVE
    per_user: a value for each user (averaged, with an interval), or one for all lists together
    min_places: places the lists must have, whatever the cut
    empties: what happens to users without held-out items, empty lists, items without subtopics
    options: keyword arguments for ``function``
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
        """The values for all places of ``lists``; take ``lists.at(k)`` for a cut."""
        return self.function(lists, lists.context if context is None else context, **self.options)

    def variant(self, name: str, options: Mapping[str, Any], **facts: Any) -> Metric:
        """The same metric under other options and a name of its own; ``facts`` are fields that change with them."""
        return replace(self, name=name, options={**self.options, **options}, **facts)


METRICS: dict[str, Metric] = {}
ALIASES = {
    "coverage": "catalogue_coverage",
    "pc": "catalogue_coverage",  # the paper: prediction coverage
    "sc": "subtopic_coverage",  # the paper
    "personalization": "personalisation",
}


def register(metric: Metric, *, replace: bool = False) -> Metric:
    """Make a metric known by its name; ``replace`` allows a name that is taken."""
    if "@" in metric.name or metric.name != _plain(metric.name):
        raise InputError(f"a metric's name is lower case, with _ between words and without @, not {metric.name!r}")
    if not replace and (metric.name in METRICS or metric.name in ALIASES):
        raise InputError(f"there is a metric called {metric.name!r} already; choose another name or pass replace=True")
    METRICS[metric.name] = metric
    return metric


def parse(text: str) -> tuple[Metric, int | None]:
    """The metric and the cut that a name such as "ndcg@10" stands for; the cut is None where none is named.

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


def canonical(name: str) -> str:
    """The registered name behind an alias; other names as they are.

    >>> canonical("sc"), canonical("alpha_ndcg")
    ('subtopic_coverage', 'alpha_ndcg')
    """
    plain = _plain(name)
    return ALIASES.get(plain, plain)


def find(name: str) -> Metric:
    """The metric of that name; case, spaces and hyphens do not matter."""
    plain = canonical(name)
    if plain not in METRICS:
        close = get_close_matches(plain, [*METRICS, *ALIASES], n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else f"there are {', '.join(sorted(METRICS))}"
        raise InputError(f"unknown metric {name!r}; {hint}")
    return METRICS[plain]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


# Metrics register themselves when their module is imported. A new one is a file and its name here.
from recprism.metrics import accuracy, calibration, catalogue, diversity, strata  # noqa: E402, F401
