"""What report, studio and terminal show of a result: metrics and lists before and after, who pays, drivers, reasons,
dials and the certificate, computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.certificate import Certificate
from recprism.budget.problem import Lists, Problem, Ranker
from recprism.budget.promise import fallen_back
from recprism.budget.segments import SegmentTable
from recprism.common.progress import ProgressCallback
from recprism.errors import InputError
from recprism.explain.choice.fit import DRAWS
from recprism.explain.explained import ExplanationInShort, kept_in_short
from recprism.metrics import Comparison
from recprism.result.catalogue import Catalogue
from recprism.result.effect import Effect, effect
from recprism.result.highlights import who_pays
from recprism.result.reasons import newcomer_reasons
from recprism.result.result import Result
from recprism.result.summary import Sizes, Statement, summarise


@dataclass(frozen=True, eq=False)
class ResultView:
    """What report, studio and terminal show of a result, or of a step of a path.

    Attributes:
        problem: The judged context.
        catalogue: The items.
        find: Makes the result, when it is first needed: to find a rule may be a search.
        judged: ``(n_users, k)`` the judged lists; None makes them when they are first needed.
    """

    problem: Problem
    catalogue: Catalogue
    find: Callable[[], Result]
    judged: Lists | None = None

    @cached_property
    def result(self) -> Result:
        """What makes the lists."""
        return self.find()

    @cached_property
    def lists(self) -> Lists:
        """``(n_users, k)`` the judged lists after the change."""
        return self.result.ranked(live=False)[0] if self.judged is None else self.judged

    @cached_property
    def certificate(self) -> Certificate | None:
        """What is certified, with the confidence of all questions that its labels answered."""
        own, run = self.result.certificate, self.result.run
        return own if own is None or run is None else run.together_with_others(own)

    @property
    def labelled(self) -> bool:
        """Whether held-out interactions judge."""
        return len(self.problem.split.part(self.problem.part)) > 0

    def sentences(self) -> Iterator[str]:
        """Yield what is promised about the lists, who judged them, and what the promise leaves out."""
        found, kept, part = self.result, self.certificate, self.problem.part
        if found.is_changed and not self.labelled:
            yield f"No user has interactions in the {part} part: what it costs there is not known."
        elif found.is_changed and kept is not None and kept.part != part:
            yield f"Judged on the {part} part, which was not used to choose the lists."
        if found.rule is not None and found.rule.history_window is not None:
            window = found.rule.history_window
            yield f"Only the latest {window:,} interactions of a user count as history, here and at request time."
        if found.violations is not None:
            yield found.violations.sentence()
        if (fallen := fallen_back(self.fallback_share, "judged")) is not None:
            yield fallen
        if kept is not None:
            yield kept.sentence()
            if kept.last is not None:
                yield kept.scope()
        if found.asked_before:
            yield found.asked_before
        for name, cost in found.constraint_costs.items():
            yield f"The constraints alone change {name} by {-100 * cost:+.1f} %, which the budget does not count."

    # -- all users ----------------------------------------------------------------------------------------------------

    def effect(
        self,
        metrics: Sequence[str] | None = None,
        *,
        controls: Mapping[str, tuple[Ranker, Problem]] | None = None,
        on_step: ProgressCallback | None = None,
    ) -> Effect:
        """Measure the judged lists before and after; arguments as in :func:`recprism.result.effect.effect`."""
        return effect(self.result, metrics, controls=controls, on_step=on_step)

    def drivers(
        self, *, draws: int = DRAWS, seed: int = 0, on_step: ProgressCallback | None = None
    ) -> ExplanationInShort:
        """Return what drives the judged lists, over all users; what `recprism explain` kept is not computed again.

        Args:
            draws: Draws of each shuffle of categories; 0 runs none.
            seed: Of the choice model.
            on_step: Receives progress.
        """
        run, asked = self.result.run, {"part": self.problem.part, "draws": draws, "seed": seed}
        kept = None if run is None else kept_in_short(run.explanation(), asked)
        return kept or self.result.explain(draws=draws, seed=seed, on_step=on_step).in_short()

    @cached_property
    def fallback_share(self) -> float:
        """Share of the judged lists that are base lists by the limit of the rule."""
        return 0.0 if self.result.rule is None else self.problem.fallback_share(self.result.rule)

    def summary(self, change: Comparison) -> tuple[Statement, ...]:
        """Return the result in a few sentences: the gain, the cost, the promise, who pays, and side effects.

        Args:
            change: The effect on the judged lists, with the metrics of the goal and of accuracy.
        """
        about: dict[str, Any] = {"part": self.problem.part, "sizes": Sizes.of(self.problem)}
        about |= {"certificate": self.certificate, "segments": self.segments[0]}
        return summarise(change, self.result.objective, COST, **about)

    @cached_property
    def live_lists(self) -> Lists:
        """``(n_users, k)`` the live lists after the change."""
        return self.result.ranked(live=True)[0]

    @cached_property
    def segments(self) -> tuple[SegmentTable | None, SegmentTable]:
        """Accuracy by segments of users (None without labels), and exposure by segments of items."""
        return who_pays(self.problem, self.lists)

    @cached_property
    def newcomers(self) -> NDArray[np.int64]:
        """``(n_users,)`` how many items of each list the base list lacks."""
        kept = (self.lists[:, :, None] == self.problem.base_lists[:, None, :]).any(2)
        return np.asarray((~kept & (self.lists >= 0)).sum(1))

    # -- one user -----------------------------------------------------------------------------------------------------

    def context(self, *, live: bool) -> Problem:
        """Return the live context, or the judged one."""
        return self.problem.live() if live else self.problem

    def lists_of(self, row: int, *, live: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a user's list before and after, ``(k,)`` each."""
        case = self.context(live=live)
        after = case.rank(self.result.model, users=np.array([row]))[0][0] if live else self.lists[row]
        return case.base_lists[row], after

    def reasons_of(self, row: int, *, live: bool = True) -> dict[int, str]:
        """Return item number -> why it is new in a user's list; empty if no rule made the list."""
        if self.result.rule is None:
            return {}
        after, titles = self.lists_of(row, live=live)[1], self.catalogue.title_of
        return newcomer_reasons(self.context(live=live), self.result.rule, row, after, titles.__getitem__)

    def dials_of(self, row: int, *, live: bool = True) -> dict[str, float]:
        """Return category -> weight of a user, as a share of the user's score range; empty if there can be none."""
        try:
            return self.result.dials(self.problem.split.user_ids[[row]], live=live).shares_of(row)
        except InputError:  # no rule, no categories, or a model without dials
            return {}


def view_of(result: Result, catalogue: Catalogue) -> ResultView:
    """Return the view of a result."""
    return ResultView(result.problem, catalogue, lambda: result)
