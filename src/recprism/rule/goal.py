"""Goals: what lists should have more of. Words become a :class:`Goal` where they enter; inside, goals are objects.

A new goal is a subclass of :class:`GoalTerm` and a call of :func:`register_goal`, or a function of one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from recprism.common.checks import POSITIVE
from recprism.errors import InputError
from recprism.metrics.catalogue import OFTEN
from recprism.metrics.ideal import catalogue_alpha_dcg
from recprism.metrics.metric import LIST_FUNCTIONS
from recprism.metrics.registry import canonical, number_in
from recprism.rule._function_metric import metric_of
from recprism.rule.features import Features
from recprism.rule.kernels.list_function import CATEGORIES, VECTORS, ListFunction, known_function
from recprism.rule.kernels.prices import ALPHA, SEARCHED, SearchTerm
from recprism.rule.kernels.worth import CATEGORY, DISTANCE, OF_FUNCTION, SHOWN

TRADE_OFFS = tuple(round(step / 80, 4) for step in range(1, 33))  # 0.0125 to 0.4
SMALL_STEPS = tuple(round(0.01 * 40 ** (step / 32), 3) for step in range(33))  # 0.01 to 0.4, each 1.12 times the last
FEW_STEPS = tuple(round(0.005 * 80 ** (step / 12), 4) for step in range(13))  # 0.005 to 0.4; each takes long
LARGE_STEPS = tuple(round(step / 40, 3) for step in range(1, 33))  # 0.025 to 0.8


class GoalData(NamedTuple):
    """What units depend on.

    Attributes:
        features: Data on items and users.
        k: Length of the lists.
        n_users: Number of lists.
        n_items: Size of the catalogue.
    """

    features: Features
    k: int
    n_users: int
    n_items: int


class GoalTerm:
    """One metric that lists can be moved towards.

    Attributes:
        name: The metric.
        needs: What the data must have: "categories", "vectors", "labels".
        search: How the search counts it; None if the search does not look at it.
        showings: In how many lists an item of a metric of exposure is to be shown; None for others.
        steps: Trade-offs of a path towards it. They are fixed before any label is seen.

    Stability: experimental.
    """

    name: str
    needs: tuple[str, ...] = ("categories",)
    search: SearchTerm | None = None
    steps: ClassVar[tuple[float, ...]] = TRADE_OFFS
    showings: int | None = None

    def unit(self, data: GoalData) -> float:
        """Return the value of one unit in terms of the metric: one more category, say."""
        raise NotImplementedError

    @property
    def looks_at_order(self) -> bool:
        """Whether the order inside a list can have a value."""
        return self.search is not None and self.search.by_order

    @property
    def ties_users(self) -> bool:
        """Whether one user's list depends on the lists of others."""
        return self.search is not None and self.search.price == SHOWN

    @property
    def is_exposure(self) -> bool:
        """Whether numbers that are added to the scores of items reach it, instead of the search."""
        return self.search is None


class SubtopicCoverage(GoalTerm):
    """Categories in a list."""

    name = "subtopic_coverage"
    search = SEARCHED["subtopic_coverage"]

    def unit(self, data: GoalData) -> float:
        return 1 / max(data.features.categories.n_present, 1)


class AlphaNDCG(GoalTerm):
    """Categories in a list, early ones more than late ones; each further item of a category adds less."""

    name = "alpha_ndcg"
    search = SEARCHED["alpha_ndcg"]

    def unit(self, data: GoalData) -> float:
        ideal = float(catalogue_alpha_dcg(data.features.categories, ALPHA, data.k)[0, data.k - 1])
        return 1 / ideal if ideal > 0 else 0.0


class AlphaNDCGRelevant(AlphaNDCG):
    """The same for items that users want. An item gains as much as its relevance, and goals like this cost little."""

    name = "alpha_ndcg_relevant"
    needs = ("categories", "labels")
    search = SEARCHED["alpha_ndcg_relevant"]
    steps = LARGE_STEPS


class ErrIA(GoalTerm):
    """How soon a user who looks for one category finds a wanted item of it."""

    name = "err_ia"
    needs = ("categories", "labels")
    search = SEARCHED["err_ia"]
    steps = LARGE_STEPS

    def unit(self, data: GoalData) -> float:
        places = np.arange(1, data.k + 1)  # of a list whose items are relevant to every category
        return 1 / float((ALPHA ** (places - 1) / places).sum() * max(data.features.categories.n_present, 1))


class IladSubtopics(GoalTerm):
    """Mean distance of two items of a list, by their categories."""

    name = "ilad_subtopics"
    search = SEARCHED["ilad_subtopics"]

    def unit(self, data: GoalData) -> float:
        return 2 / max(data.k * (data.k - 1), 1)


class Ilad(IladSubtopics):
    """Mean distance of two items of a list, by their vectors."""

    name = "ilad"
    needs = ("vectors",)
    search = SEARCHED["ilad"]


class CatalogueCoverage(GoalTerm):
    """Items that some list shows. One that no list shows costs little to show once, so the steps are small."""

    name = "catalogue_coverage"
    needs = ()
    search = SEARCHED["catalogue_coverage"]
    steps = SMALL_STEPS

    def unit(self, data: GoalData) -> float:
        return data.n_users / max(data.n_items, 1)


class ShownOften(GoalTerm):
    """Items that at least some number of lists show."""

    name = "shown_often"
    needs = ()
    steps = SMALL_STEPS

    def __init__(self, name: str = "shown_often", showings: int = OFTEN) -> None:
        self.name, self.showings = name, showings


class Gini(GoalTerm):
    """How equally often items are shown."""

    name = "gini"
    needs = ()
    steps = LARGE_STEPS


class ExposureEntropy(Gini):
    """The same, by entropy."""

    name = "exposure_entropy"


class FunctionGoal(GoalTerm):
    """What a Python function returns for a list.

    Args:
        function: The function.
    """

    steps = FEW_STEPS

    def __init__(self, function: ListFunction) -> None:
        self.name, self.search, self.function = function.name, SearchTerm.of(function), function
        self.needs = tuple(it for it in (CATEGORIES, VECTORS) if it in function.takes)

    def unit(self, data: GoalData) -> float:  # noqa: ARG002 (the metric is what the function returns)
        return 1.0


TERMS: dict[str, GoalTerm] = {}


def register_goal(term: GoalTerm) -> None:
    """Make a goal known by its name, which is that of a registered metric.

    Raises:
        InputError: If its value depends on the lists of several users; such goals are built in.

    Stability: experimental.
    """
    if term.is_exposure or term.ties_users:
        raise InputError(f"{term.name} needs a value for one list; see SearchTerm for how the search can count it")
    _know(term)


def _know(term: GoalTerm) -> None:
    TERMS[term.name] = term
    if term.search is not None:
        SEARCHED[term.name] = term.search


for _term in (
    *(SubtopicCoverage(), AlphaNDCG(), IladSubtopics(), Ilad(), CatalogueCoverage()),
    *(AlphaNDCGRelevant(), ErrIA(), ShownOften(), Gini(), ExposureEntropy()),
):
    _know(_term)


def term_named(name: str) -> GoalTerm:
    """Return the goal of a name or an alias.

    Raises:
        InputError: There is none.
    """
    plain = canonical(name)
    if ":" in plain:
        return _function_goal(known_function(plain))
    showings = number_in(plain)
    if showings is not None:
        return ShownOften(plain, showings)
    if plain not in TERMS:
        raise InputError(f"there is no path towards {plain!r}; goals are {', '.join(TERMS)}, several joined by +")
    return TERMS[plain]


@cache
def _function_goal(function: ListFunction) -> FunctionGoal:
    LIST_FUNCTIONS[function.name] = metric_of(function)
    return FunctionGoal(function)


@dataclass(frozen=True)
class Goal:
    """One or several metrics to raise, each with its weight.

    Attributes:
        pairs: Metrics and their weights.

    >>> str(Goal.parse("sc+ilad")), Goal.parse({"sc": 2, "ilad": 1}).weights["subtopic_coverage"]
    ('subtopic_coverage+ilad', 2.0)
    >>> str(Goal.parse("sc=2,ilad=1"))
    'subtopic_coverage=2,ilad=1'

    Stability: experimental.
    """

    pairs: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        if not self.pairs:
            raise InputError("a goal needs a metric, such as subtopic_coverage")
        for name, weight in self.pairs:
            POSITIVE.read(f"the weight of goal {name!r}", weight)
        found = {term_named(name).name: float(weight) for name, weight in self.pairs}
        twice = next((name for name, weight in self.pairs if found[term_named(name).name] != weight), None)
        if twice is not None:
            raise InputError(f"{term_named(twice).name} has two weights in the goal; write each metric once")
        object.__setattr__(self, "pairs", tuple(found.items()))
        _require_one_measure(self.terms)

    @classmethod
    def parse(cls, words: Words) -> Goal:
        """Read a goal.

        Args:
            words: "sc+ilad" for equal weights, "sc=2,ilad=1" or a mapping for others, or a goal. A function of one
                list is given itself, or as "module:name"; see ``recprism.rule.kernels.list_function.ListFunction``.

        Raises:
            InputError: A name is unknown, a weight is no number above 0, or the metrics do not combine.
        """
        if isinstance(words, Goal):
            return words
        if isinstance(words, Mapping):
            return cls(tuple((it if isinstance(it, str) else known_function(it).name, w) for it, w in words.items()))
        if not isinstance(words, str):
            return cls(((known_function(words).name, 1.0),))
        if "=" not in words:
            return cls(tuple((name, 1.0) for name in words.split("+")))
        return cls(tuple(_weighted(word) for word in words.split(",")))

    def __str__(self) -> str:
        if all(weight == 1 for _, weight in self.pairs):
            return "+".join(self.weights)
        return ",".join(f"{name}={weight!r}".removesuffix(".0") for name, weight in self.pairs)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each metric by name."""
        return dict(self.pairs)

    @property
    def terms(self) -> tuple[GoalTerm, ...]:
        """The metrics."""
        return tuple(term_named(name) for name, _ in self.pairs)

    @property
    def exposure(self) -> GoalTerm | None:
        """The metric of exposure, if there is one."""
        return next((term for term in self.terms if term.is_exposure), None)

    @property
    def searched(self) -> dict[str, float]:
        """Weights of the metrics that the search looks at."""
        return {name: weight for name, weight in self.pairs if not term_named(name).is_exposure}

    @property
    def function(self) -> ListFunction | None:
        """The goal that is a function of one list, if there is one."""
        return next((term.function for term in self.terms if isinstance(term, FunctionGoal)), None)

    @property
    def steps(self) -> tuple[float, ...]:
        """Trade-offs of the path."""
        return self.terms[0].steps if len(self.terms) == 1 else TRADE_OFFS

    @property
    def ties_users(self) -> bool:
        """Whether one user's list depends on the lists of others when it is searched."""
        return any(term.ties_users for term in self.terms)

    def needing(self, what: str) -> GoalTerm | None:
        """Return the first metric that needs "categories", "vectors" or "labels"; None if no one does."""
        return next((term for term in self.terms if what in term.needs), None)

    def metrics(self, k: int) -> tuple[str, ...]:
        """Return the names of the metrics, cut at k."""
        return tuple(f"{name}@{k}" for name in self.weights)


Words = str | Mapping[Any, float] | Goal | Callable[..., Any]
"""What a goal can be written as."""


def _weighted(word: str) -> tuple[str, float]:
    """Read ``name=weight``."""
    name, _, weight = word.partition("=")
    try:
        return name.strip(), float(weight)
    except ValueError:
        raise InputError(f"the goal {word!r} has no weight; write {name.strip() or 'sc'}=1, say") from None


def _require_one_measure(terms: Iterable[GoalTerm]) -> None:
    """Refuse metrics that do not combine."""
    exposure = [term.name for term in terms if term.is_exposure]
    if len(exposure) > 1:
        raise InputError(f"{' and '.join(exposure)} are reached by the same boosts; choose one of them")
    by_price: dict[int | None, str] = {}
    for term in sorted(terms, key=lambda it: it.name):
        price = None if term.search is None else term.search.price
        if price in by_price:
            if price == OF_FUNCTION:
                raise InputError(f"{by_price[price]} and {term.name} are both functions; write one that adds them up")
            raise InputError(f"{by_price[price]} and {term.name} are two ways to measure one goal; choose one of them")
        by_price[price] = term.name
        if exposure and (term.looks_at_order or term.ties_users):
            possible = [name for name, it in SEARCHED.items() if it.price in (CATEGORY, DISTANCE)]
            raise InputError(f"an exposure goal does not combine with {term.name}; choose {', '.join(possible)}")
    of_list = next((term for term in terms if isinstance(term, FunctionGoal)), None)
    if of_list is None:
        return
    if SHOWN in by_price:
        raise InputError(f"{by_price[SHOWN]} ties all lists, and {of_list.name} values one; choose one of them")
    if "vectors" in of_list.needs and by_price.get(DISTANCE, "ilad") != "ilad":
        raise InputError(f"{of_list.name} takes item vectors, and {by_price[DISTANCE]} others; combine it with ilad")
