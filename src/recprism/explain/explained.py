"""Why lists are as they are: the summary of their rule, and how far a choice model explains what was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.display import Displayed
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.common.version import __version__
from recprism.explain.accounting import RuleSummary, summarise_rule
from recprism.explain.boost_reasons import BoostReason, explain_boosts
from recprism.explain.choice.fit import DRAWS, FEWEST_USERS, fit_choice_model
from recprism.explain.choice.model import LEVEL, ChoiceModel
from recprism.rule.boosts import ItemBoosts
from recprism.rule.features import category_probabilities
from recprism.rule.rule import Rule

CANDIDATES = 200
IN_SHORT = "in_short"  # in what a run keeps


@dataclass(frozen=True)
class ExplanationInShort:
    """An explanation in plain values: what pages show, and what a run keeps.

    Attributes:
        sentences: The explanation in words.
        explained: Share of what scores leave open that one choice model explains; None without a model.
        verdict: Of the choice model, by size; None without one.
        users: Users that the model was judged on; 0 without one.
        shuffled: What the model explains with categories shuffled among items of the same popularity, on average.
        p_value: Of the real categories against the shuffled ones; None without draws.
        boosted: How many items are boosted for all users.
        categories: One row per category, as in :meth:`recprism.explain.accounting.RuleSummary.table`; empty for
            exposure.
    """

    sentences: tuple[str, ...]
    explained: float | None
    verdict: str | None
    users: int
    shuffled: float | None
    p_value: float | None
    boosted: int
    categories: tuple[Mapping[str, Any], ...]

    @property
    def holds(self) -> bool:
        """Whether categories explain the lists, at least in part, and better than shuffled ones."""
        return self.verdict in ("explains", "in part") and self.p_value is not None and self.p_value <= LEVEL


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedLists(Displayed):
    """Why the lists of a result are as they are.

    Attributes:
        rule: What makes the lists; None if players found a change of vectors.
        rule_summary: What the rule does over all users; None without a rule, and for goals of exposure.
        boosts: Why items are boosted, the largest boost first; empty for other goals than exposure.
        choice_model: How far one choice model for all users explains the lists; None without categories, and if
            too few lists changed.
        note: Why there is no choice model; empty if there is one.
    """

    rule: Rule | None
    rule_summary: RuleSummary | None
    boosts: tuple[BoostReason, ...]
    choice_model: ChoiceModel | None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "rule": None if self.rule is None else self.rule.to_dict(),
            "rule_summary": None if self.rule_summary is None else self.rule_summary.to_dict(),
            "boosts": [{**it.to_dict(), "sentence": it.sentence()} for it in self.boosts],
            "choice_model": None if self.choice_model is None else self.choice_model.to_dict(),
            "note": self.note,
        }

    def in_short(self) -> ExplanationInShort:
        """Return what pages show."""
        model = self.choice_model
        control = None if model is None else model.shuffled_within
        return ExplanationInShort(
            sentences=tuple(self.sentences()),
            explained=None if model is None or not np.isfinite(model.explained) else float(model.explained),
            verdict=None if model is None else model.verdict,
            users=0 if model is None else model.n_users,
            shuffled=None if control is None else control.mean,
            p_value=None if control is None else control.p_value,
            boosted=len(self.boosts),
            categories=() if self.rule_summary is None else tuple(self.rule_summary.table()),
        )

    def to_keep(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a run keeps, in plain values; ``asked`` is the part, the draws and the seed."""
        in_short = {"asked": _by_this_version(asked), **asdict(self.in_short())}
        return {**self.to_dict(), "part": asked["part"], IN_SHORT: in_short}

    def sentences(self) -> list[str]:
        """Say what makes the lists, and whether that explains them."""
        said = []
        if self.rule is not None:
            prices = ", ".join(f"{price:.3f} per unit of {goal}" for goal, price in self.rule.prices.items())
            what = f"relevance, plus a price for what the list lacks ({prices})" if prices else "relevance plus boosts"
            said.append(f"The lists follow a rule: {what}.")
            if self.boosts:
                said.append(f"{len(self.boosts):,} items are boosted. {self.boosts[0].sentence()}")
        else:
            said.append("Players found a change of vectors; there is no rule that made these lists.")
        if self.rule_summary is not None:
            said.append(self.rule_summary.sentence())
        said += [self.note] if self.note else []
        return said if self.choice_model is None else [*said, *self.choice_model.sentences()]


def kept_in_short(kept: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> ExplanationInShort | None:
    """Return what :meth:`ExplainedLists.to_keep` kept, if it answered just this question; else None."""
    found = dict((kept or {}).get(IN_SHORT) or {})
    if found.pop("asked", None) != _by_this_version(asked):
        return None
    lists: dict[str, Any] = {name: tuple(found.pop(name)) for name in ("sentences", "categories")}
    return ExplanationInShort(**lists, **found)


def _by_this_version(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {**asked, "recprism": __version__}


@phase("explaining", __name__)
def explain_made(
    problem: Problem,
    rule: Rule | None,
    lists: NDArray[np.int64],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> ExplainedLists:
    """Explain lists in the context that they were made for.

    Args:
        problem: The context.
        rule: What made the lists; None if players found a change of vectors.
        lists: ``(n_users, k)`` item numbers.
        draws: Draws of each shuffle of categories; 0 runs none.
        seed: Of the choice model.
        on_step: Receives progress.
    """
    model, note = _choice_model(problem, rule, lists, draws, seed, on_step)
    return ExplainedLists(
        rule=rule,
        rule_summary=None if rule is None or rule.boosts is not None else summarise_rule(problem, rule),
        boosts=() if rule is None or rule.boosts is None else _boosts(problem, rule, lists),
        choice_model=model,
        note=note,
    )


def _choice_model(
    problem: Problem,
    rule: Rule | None,
    lists: NDArray[np.int64],
    draws: int,
    seed: int,
    on_step: ProgressCallback | None,
) -> tuple[ChoiceModel | None, str]:
    """Fit the choice model; without enough newcomers there is none, and a sentence says so."""
    categories = problem.categories
    if not len(categories):
        return None, "The items have no categories, so no choice model was fitted."
    depth = CANDIDATES if rule is None else rule.candidates  # scores are scaled over the candidates
    items, scores = problem.candidates_after([], depth, None, None if rule is None else rule.boosts)
    new = (lists[:, :, None] != problem.base_lists[:, None, :]).all(2) & (lists >= 0)
    known = new & (lists[:, :, None] == items[:, None, :]).any(2)
    if int(known.any(1).sum()) < FEWEST_USERS:
        return None, f"No choice model was fitted: fewer than {FEWEST_USERS} lists have new items among the candidates."
    model = fit_choice_model(
        items,
        scores,
        problem.base_lists,
        lists,
        categories,
        history=category_probabilities(problem.history, categories),
        popularity=problem.split.train.col_counts,
        draws=draws,
        seed=seed,
        on_step=on_step,
    )
    return model, ""


def _boosts(problem: Problem, rule: Rule, lists: NDArray[np.int64]) -> tuple[BoostReason, ...]:
    assert rule.boosts is not None
    n_items = problem.base.n_items
    before, after = (np.bincount(it[it >= 0], minlength=n_items) for it in (problem.base_lists, lists))
    term = rule.goal.exposure
    assert term is not None
    scores = problem.candidates[1][:, : rule.candidates]
    real = np.where(np.isfinite(scores), scores, np.nan)
    reach = float(np.nanmean(np.nanmax(real, 1) - np.nanmin(real, 1)))
    found = ItemBoosts(term.name, term.showings, rule.boosts, before, after, reach, len(lists))
    return tuple(explain_boosts(found, [str(it) for it in problem.base.item_ids]))
