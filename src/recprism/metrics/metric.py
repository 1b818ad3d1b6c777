"""What a metric is, and where all of them are kept. Modules of metrics register here when they are imported.

:mod:`recprism.metrics.registry` imports all of them: look names up there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
        empties: What happens to users without held-out items, empty lists and items without categories.
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
LIST_FUNCTIONS: dict[str, Metric] = {}
"""Metrics of goals that are functions of a list, by "module:name". They are computed only where they are named."""
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
    if "@" in metric.name or metric.name != plain_name(metric.name):
        raise InputError(f"a metric's name is lower case, with _ between words and without @, not {metric.name!r}")
    if not replace and (metric.name in METRICS or metric.name in ALIASES):
        raise InputError(f"there is a metric called {metric.name!r} already; choose another name or pass replace=True")
    METRICS[metric.name] = metric
    return metric


def register_family(name: str, make: Callable[[str, int], Metric]) -> None:
    """Register metrics that differ by a whole number above 0, which stands for N in their name."""
    FAMILIES[name] = make


def plain_name(name: str) -> str:
    """Return a name in lower case, with _ between words; ``module:name`` stays as it is."""
    return name.strip() if ":" in name else name.strip().lower().replace("-", "_").replace(" ", "_")
