"""The result of :func:`recprism.diversify`: what changed, what it costs, why, and the vectors to serve."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism._display import Displayed
from recprism.budget.certificate import Certificate
from recprism.budget.diversified import Diversified
from recprism.budget.scenario import Scenario
from recprism.budget.steering import Steered, steer
from recprism.data._files import atomic_path
from recprism.data._ids import as_id_array, id_positions
from recprism.data.progress import ProgressCallback
from recprism.dials import Dials
from recprism.errors import InputError
from recprism.explain.choice.fit import DRAWS
from recprism.explain.reasons.questions import what_if, why, why_list, why_not
from recprism.explain.reasons.reason import Reason, ReasonNot, WhatIf
from recprism.metrics import Comparison, compare
from recprism.metrics.registry import with_gini
from recprism.models import Factors
from recprism.rerank.rule import Rule
from recprism.runs.jobs.explain import ExplainedRun, explain_found


class Result(Displayed):
    """More diverse vectors and what is known about them.

    Attributes:
        scenario: What was served before.
        found: The change, its goal and its certificate.

    Stability: provisional.
    """

    def __init__(self, scenario: Scenario, found: Diversified) -> None:
        self.scenario, self.found = scenario, found

    @property
    def factors(self) -> Factors:
        """The vectors to serve; those of the model if nothing was certified."""
        return self.found.factors

    @property
    def certificate(self) -> Certificate | None:
        """What the change costs at most."""
        return self.found.certificate

    @cached_property
    def change(self) -> Comparison:
        """The metrics before and after, user by user, on the scenario's part."""
        case = self.scenario
        before, after = (case.evaluate(model, self._metrics) for model in (self.found.start, self.found.model))
        return compare(before, after)

    @property
    def _metrics(self) -> tuple[str, ...]:
        case = self.scenario
        goals = tuple(f"{name}@{case.k}" for name in self.found.goal.split("+"))
        judged = ("ndcg", "recall") if len(case.split.part(case.part)) else ()
        known = ("subtopic_coverage", "ilad_subtopics") if len(case.subtopics) else ()
        others = (f"{name}@{case.k}" for name in (*judged, *known, "catalogue_coverage"))
        return with_gini((*goals, *others))

    @cached_property
    def _live(self) -> Scenario:
        case = self.scenario
        about = (case.base, case.split.live(), case.subtopics)
        return Scenario(*about, "test", case.k, constraints=case.constraints, concepts=case.own_concepts)

    def recommend(self, users: Any, k: int = 10) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return lists for real users: items of all known interactions are left out, and the constraints hold.

        Args:
            users: Ids of the users.
            k: Length of the lists.

        Returns:
            ``(n, k)`` item ids, and their scores.
        """
        single = np.isscalar(users)
        wanted = as_id_array([users] if single else users, "user", distinct=False)
        base = self.found.start
        items, scores = self._live.rank(self.found.model, k, users=id_positions(wanted, base.user_ids, "user"))
        ids = base.ids_of(items)
        return (ids[0], scores[0]) if single else (ids, scores)

    def explain(self, *, draws: int = DRAWS, seed: int = 0, on_step: ProgressCallback | None = None) -> ExplainedRun:
        """Explain why the lists are as they are, as `recprism explain` does.

        Args:
            draws: Draws of each shuffle of categories; 0 runs none.
            seed: Of the choice model.
            on_step: Receives progress.

        Raises:
            InputError: If nothing was certified, so that the lists did not change.
        """
        self._require_changed()
        return explain_found(self.found, self.scenario, draws=draws, seed=seed, on_step=on_step)

    def why(self, user: Any, item: Any = None) -> Reason | tuple[Reason, ...]:
        """Explain why an item is in a user's list; without an item, explain every item of the list.

        Args:
            user: Id of the user.
            item: Id of an item of the list.
        """
        rule = self._rule()
        if item is None:
            return why_list(self.scenario, rule, user)
        return why(self.scenario, rule, user, item)

    def why_not(self, user: Any, item: Any) -> ReasonNot:
        """Explain why an item is not in a user's list."""
        return why_not(self.scenario, self._rule(), user, item)

    def what_if(self, user: Any, **changes: Any) -> WhatIf:
        """Run the rule again after a change.

        Args:
            user: Id of the user.
            **changes: without=ITEM, ban=CATEGORY, price=NUMBER, seen=ITEM or forget=ITEM, as in
                :func:`recprism.explain.what_if`.
        """
        return what_if(self.scenario, self._rule(), user, **changes)

    @property
    def dials(self) -> Dials:
        """The named weights of each user.

        Raises:
            InputError: If the result has none, because it is served by other vectors or the items have no categories.
        """
        if self.found.dials is None:
            raise InputError(f"this result is served by {self.found.into} and has no dials; pass into='dials'")
        return self.found.dials

    def steer(self, user: Any, **settings: float) -> Steered:
        """Set dials for one user, and rank the user's list again; the result itself does not change.

        Args:
            user: Id of the user.
            **settings: Name of a category=share of the user's score range to add, from -1 to 1. Names with blanks are
                passed as ``**{"Film noir": 0.2}``.
        """
        return steer(self.scenario, self.found, user, settings)

    def _require_changed(self) -> None:
        if not self.found.is_changed:
            raise InputError("nothing was certified, so the lists did not change and there is nothing to explain")

    def _rule(self) -> Rule:
        self._require_changed()
        if self.found.rule is None:
            raise InputError("no rule made these lists; reasons are for results within a budget")
        return self.found.rule

    def export(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the vectors to serve into one file.

        Args:
            path: Ends in .npz (arrays user, item, user_ids, item_ids and, if there is one, item_bias) or in
                .safetensors (read by :meth:`recprism.Factors.load`).
            overwrite: Replace a file that exists.

        Raises:
            InputError: If the file exists, or its ending is another.
        """
        path = Path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already; name another file, or pass overwrite=True")
        if path.suffix == ".npz":
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **_arrays(self.factors))  # type: ignore[arg-type]
        elif path.suffix == ".safetensors":
            self.factors.save(path)
        else:
            raise InputError(f"{path}: the vectors are written as .npz or .safetensors; `recprism export` has more")
        return path

    def to_frame(self) -> pl.DataFrame:
        """Return one row per metric: before, after, relative change and p-value."""
        return self.change.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return goal, certificate and changes in plain values."""
        return {**self.found.to_dict(), "change": self.change.to_dict()}

    def _facts(self) -> dict[str, Any]:
        found = self.found
        facts: dict[str, Any] = {"goal": found.goal, "into": found.into, "trade_off": found.trade_off}
        changes = {row.name: row.relative for row in self.change.rows if row.relative is not None}
        shown = (self._metrics[0], f"ndcg@{self.scenario.k}")
        facts |= {name: f"{100 * changes[name]:+.1f} %" for name in shown if name in changes}
        if found.certificate is not None:
            facts["certified"] = found.is_changed
        return facts


def _arrays(factors: Factors) -> dict[str, NDArray[Any]]:
    ids = {"user_ids": factors.user_ids, "item_ids": factors.item_ids}
    plain = {name: it if it.dtype.kind in "iu" else it.astype(str) for name, it in ids.items()}  # no pickled objects
    bias = {} if factors.item_bias is None else {"item_bias": factors.item_bias}
    return {"user": factors.user, "item": factors.item, **bias, **plain}
