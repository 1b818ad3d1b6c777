"""A rule compiled for one context: dials, user vectors or item boosts, and how many lists come out equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.budget.scenario import Lists, Scenario
from recprism.data._bound import contents_of
from recprism.data.concepts import Concepts
from recprism.dials import Dials, lists_to_dials, lists_to_vectors
from recprism.dials.lifts import lifted
from recprism.errors import InputError
from recprism.models import Factors
from recprism.rerank._kernels.prices import looks_at_order
from recprism.rerank.rule import Rule

CompiledForm = Literal["dials", "user-vectors", "boosts"]
"""What a rule can be compiled into."""


@dataclass(frozen=True)
class Agreement:
    """How many lists of a compiled form equal those of the rule.

    Attributes:
        users: Number of lists.
        same_items: Lists with the same items.
        same_order: Lists with the same items in the same order.
    """

    users: int
    same_items: int
    same_order: int

    @classmethod
    def of(cls, lists: Lists, others: Lists) -> Agreement:
        """Compare ``(n_users, k)`` lists."""
        items = (np.sort(lists, 1) == np.sort(others, 1)).all(1)
        return cls(len(lists), int(items.sum()), int((lists == others).all(1).sum()))

    def sentence(self) -> str:
        """Return the comparison in words."""
        return (
            f"Of {self.users:,} lists, {self.same_items:,} have the items of the rule's list "
            f"({self.same_items / max(self.users, 1):.1%}), {self.same_order:,} in its order."
        )


@dataclass(frozen=True, eq=False)
class Compiled:
    """A rule as vectors.

    Attributes:
        form: What it was compiled into.
        factors: The vectors that an index ranks by.
        agreement: How many of their lists equal those of the rule, in the context that it was compiled for.
        dials: The named weights; None for other forms.
    """

    form: CompiledForm
    factors: Factors
    agreement: Agreement
    dials: Dials | None = None


NEW_USERS: Mapping[str, str] = {
    "dials": "Dials belong to users of the run: users without dials of their own kept 30 % of the rule's gain in "
    "subtopic coverage on MovieLens-1M, and 9 % on CDs (docs/design/carry.md).",
    "user-vectors": "User vectors belong to users of the run: new users get base lists until theirs are compiled.",
    "boosts": "Boosts belong to items: new users get them, too. What they keep there was not measured.",
}
"""Form -> a sentence about users for whom nothing was compiled."""


def require_form(form: str) -> None:
    """Refuse what a rule is not compiled into."""
    if form not in NEW_USERS:
        raise InputError(f"a rule is compiled into {', '.join(NEW_USERS)}, not into {form!r}")


@dataclass(frozen=True)
class FormOptions:
    """How a rule is compiled.

    Attributes:
        form: "dials" (a few named weights per user), "user-vectors" (an index of items stays as it is) or "boosts" (a
            number per item, for goals of exposure).
        ordered: Dials keep the order of the lists, too; it takes more weights, and holds fewer lists.
        rest: Where weights do not return a list, dials also change the user's vector, as little as possible.
        concepts: The named columns of the items that dials have weights for; the categories by default.

    Stability: provisional.
    """

    form: CompiledForm
    ordered: bool = False
    rest: bool = False
    concepts: Concepts | None = None

    def __post_init__(self) -> None:
        require_form(self.form)
        if self.form != "dials" and (self.ordered or self.rest or self.concepts is not None):
            raise InputError(f"ordered, rest and concepts are for dials, and the form is {self.form}; omit them")

    def __call__(self, scenario: Scenario, rule: Rule, /) -> Factors:
        """Return the vectors that a rule is compiled into in one context."""
        return compile_rule(scenario, rule, **vars(self)).factors

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: concepts by a hash of their content, None for the categories."""
        own = self.concepts
        named = None if own is None else contents_of({"values": own.values, "names": np.array(own.names)})
        return {**vars(self), "concepts": named}


def compile_rule(scenario: Scenario, rule: Rule, form: CompiledForm, **options: Any) -> Compiled:
    """Compile the lists of a rule in one context.

    Args:
        scenario: The context: history, candidates and constraints.
        rule: What makes the lists.
        form: As in :class:`FormOptions`.
        **options: Further attributes of :class:`FormOptions`.

    Raises:
        InputError: If the form does not fit the rule or the model, or an option is for another form.
    """
    asked, base, dials = FormOptions(form, **options), scenario.factors, None
    if form == "boosts":
        if rule.lifts is None or not rule.for_exposure_alone:
            raise InputError("boosts are for goals of exposure alone, such as gini; choose another form or goal")
        factors = lifted(base, rule.lifts)
    elif form == "dials":
        dials = compile_dials(scenario, rule, ordered=asked.ordered, rest=asked.rest, concepts=asked.concepts)
        factors = dials.applied_to(with_lifts(base, rule))
    else:
        # A user's own vector can hold the order of a list, too.
        lists = scenario.rank(rule)[0]
        factors = lists_to_vectors(base, lists, exclude=scenario.hidden, order=True).applied_to(base)
    return Compiled(form, factors, agreement_of(scenario, rule, factors), dials)


def agreement_of(scenario: Scenario, rule: Rule, factors: Factors) -> Agreement:
    """Compare the lists of vectors with those of the rule, both under the constraints."""
    return Agreement.of(scenario.rank(rule)[0], scenario.rank(factors)[0])


def compile_dials(
    scenario: Scenario,
    rule: Rule,
    *,
    users: NDArray[Any] | None = None,
    ordered: bool = False,
    rest: bool = False,
    concepts: Concepts | None = None,
) -> Dials:
    """Compile the lists of a rule into named weights.

    Args:
        scenario: The context.
        rule: What makes the lists.
        users: ``(n,)`` row numbers; all users by default.
        ordered: Keep the order of the lists, too. Goals that look at the order always do.
        rest: Where weights do not return a list, also change the user's vector, as little as possible.
        concepts: The named columns of the items; the categories by default.

    Raises:
        InputError: If there are no categories, or the model has no vectors or ranks by cosine.
    """
    named = Concepts.from_subtopics(scenario.subtopics) if concepts is None else concepts
    if not len(named):
        raise InputError(
            "dials need categories of the items and there are none; name other concepts, such as --concepts "
            "clusters=20, or choose --form rule or user-vectors"
        )
    base = with_lifts(scenario.factors, rule)
    return lists_to_dials(
        base,
        scenario.rank(rule, users=users)[0],
        named,
        # What is served without weights: the base lists of a scenario may have other candidates, and no lifts.
        base_lists=scenario.rank(base, users=users)[0],
        exclude=scenario.hidden if users is None else scenario.hidden.take_rows(users),
        users=users,
        ordered=ordered or looks_at_order(rule.goal.searched),
        demote=True,  # a list that needs less of a category is better served by a negative weight than not at all
        rest=rest,
    )


def with_lifts(base: Factors, rule: Rule) -> Factors:
    """Return the model with the lifts of a rule in its item bias."""
    return base if rule.lifts is None else lifted(base, rule.lifts)
