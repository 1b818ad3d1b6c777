"""The result of :func:`recprism.diversify`: what changed, what it costs, why, and the vectors to serve."""

from __future__ import annotations

from collections.abc import Callable
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
from recprism.data._files import atomic_path
from recprism.data._ids import as_id_array, id_positions
from recprism.data.progress import ProgressCallback
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.explain.checks import Explained, Question, explain_result
from recprism.explain.explanation import Explanation
from recprism.explain.naming import Labels
from recprism.explain.views import ItemView, UserView, view_item, view_user
from recprism.metrics import Comparison, compare
from recprism.metrics.registry import with_gini
from recprism.models import Factors


class Result(Displayed):
    """More diverse vectors and what is known about them.

    Attributes:
        scenario: What was served before.
        found: The change, its goal and its certificate.

    Stability: provisional.
    """

    def __init__(self, scenario: Scenario, found: Diversified) -> None:
        self.scenario, self.found = scenario, found
        self._explained: dict[tuple[Question, int], Explained] = {}

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
        before, after = (case.evaluate(factors, self._metrics) for factors in (self.found.base, self.found.factors))
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
        return Scenario(case.factors, case.split.live(), case.subtopics, "test", case.k, constraints=case.constraints)

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
        items, scores = self._live.rank(self.factors, k, users=id_positions(wanted, self.factors.user_ids, "user"))
        ids = self.factors.ids_of(items)
        return (ids[0], scores[0]) if single else (ids, scores)

    def explain(
        self,
        user: Any = None,
        *,
        item: Any = None,
        objective: str | None = None,
        axes: str | None = None,
        draws: int = 199,
        part: Part | None = None,
        seed: int = 0,
        top: int = 5,
        on_step: ProgressCallback | None = None,
    ) -> Explanation | UserView | ItemView:
        """Explain what the change did to the lists, as `recprism explain` does.

        Factors are named only if they beat random shuffles and simple item boosts, on held-out users if the search can
        be repeated without them.

        Args:
            user: The id of one user, to see that user's list only. No controls are run for it.
            item: The id of one item, likewise.
            objective: The metric whose gain is explained; the goal by default.
            axes: The axes that factors are named on.
            draws: Of each control; 0 runs none.
            part: The part that judges; the scenario's by default.
            seed: Of the draws.
            top: How many factors are spelled out.
            on_step: Receives the progress of the controls.

        Returns:
            The explanation, or the view of a user or an item.

        Raises:
            InputError: If nothing was changed, both a user and an item are named, or an id is unknown.
        """
        if user is not None and item is not None:
            raise InputError("explain takes a user or an item, not both")
        if not self.found.is_changed:
            raise InputError("nothing was certified, so the lists did not change and there is nothing to explain")
        single = user is not None or item is not None
        asked = Question.about(
            self.found,
            objective,
            axes=axes,
            part=part or self.scenario.part,
            draws=0 if single else draws,
            seed=seed,
        )
        explained = self._once((asked, top), lambda: self._explain(asked, top, on_step))
        if user is not None:
            return view_user(explained.explanation, explained.evaluator, _plain_id(user), top=top)
        if item is not None:
            return view_item(explained.explanation, _plain_id(item), top=top)
        return explained.explanation

    def _once(self, key: tuple[Question, int], make: Callable[[], Explained]) -> Explained:
        if key not in self._explained:
            self._explained[key] = make()
        return self._explained[key]

    def _explain(self, asked: Question, top: int, on_step: ProgressCallback | None) -> Explained:
        case = self.scenario
        labels = Labels.of(case.subtopics, popularity=case.split.train.col_counts)
        return explain_result(self.found, case.split, case.subtopics, asked, labels=labels, top=top, on_step=on_step)

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
        facts: dict[str, Any] = {"goal": found.goal, "side": found.side, "trade_off": found.trade_off}
        changes = {row.name: row.relative for row in self.change.rows if row.relative is not None}
        shown = (self._metrics[0], f"ndcg@{self.scenario.k}")
        facts |= {name: f"{100 * changes[name]:+.1f} %" for name in shown if name in changes}
        if found.certificate is not None:
            facts["certified"] = found.is_changed
        return facts


def _plain_id(given: Any) -> Any:
    """Return an id that JSON can hold: ids of an array are NumPy scalars."""
    return given.item() if isinstance(given, np.generic) else given


def _arrays(factors: Factors) -> dict[str, NDArray[Any]]:
    ids = {"user_ids": factors.user_ids, "item_ids": factors.item_ids}
    plain = {name: it if it.dtype.kind in "iu" else it.astype(str) for name, it in ids.items()}  # no pickled objects
    bias = {} if factors.item_bias is None else {"item_bias": factors.item_bias}
    return {"user": factors.user, "item": factors.item, **bias, **plain}
