"""Live lists: all known interactions count as seen, including the held-out ones.

A rule, lifts, a change of item vectors, and a change that players found serve live lists as they are. User vectors and
dials that were found within a budget hold the lists of one history. They are solved again at the certified point, with
all known interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.budget.certificate import carried_over
from recprism.budget.diversified import Diversified, as_into, serve
from recprism.budget.scenario import Ranker, Scenario
from recprism.data.incidence import Incidence
from recprism.data.progress import ProgressCallback, count_steps
from recprism.deploy._budget import budget_of
from recprism.deploy.refit import StickyScenario
from recprism.dials.steering import own_weights
from recprism.errors import StorageError
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.train import lists_to_frame, ranked, rows_of
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of


@dataclass(frozen=True)
class LiveFigures:
    """Figures of live lists.

    Attributes:
        places: Number of places in the lists.
        consumed: Number of places with an item that the user already has.
        metric: The metric of the goal; None if the run is not diversified.
        base: Its mean in the live lists of the trained model; None if it needs labels.
        live: Its mean in the live lists.
        certified_on: The part whose labels earned the certificate; None without a certificate.
        constraints: How far the constraints of the run hold in the live lists, in words; None without constraints.

    Stability: provisional.
    """

    places: int
    consumed: int
    metric: str | None = None
    base: float | None = None
    live: float | None = None
    certified_on: str | None = None
    constraints: str | None = None

    @property
    def gain(self) -> float | None:
        """Gain relative to the live lists of the trained model."""
        return None if self.live is None or not self.base else self.live / self.base - 1

    def sentences(self) -> tuple[str, ...]:
        """Return the lines to print."""
        shown = f"Consumed items shown: {self.consumed:,} of {self.places:,} places."
        carried = None if self.certified_on is None else carried_over(self.certified_on)
        return (shown, self._about_gain(), *(it for it in (self.constraints, carried) if it is not None))

    def _about_gain(self) -> str:
        if self.metric is None:
            return "Gain of the live lists: none, they are those of the trained model."
        if self.gain is None:
            return f"Gain of the live lists: {self.metric} cannot be measured on them."
        return f"Gain of the live lists: {self.metric} {self.gain:+.1%} against live lists of the trained model."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "gain": self.gain, "sentences": list(self.sentences())}


def live_model(run: Run, *, base: bool = False) -> Ranker:
    """Return what serves live lists; user vectors and dials are solved once and kept in the run.

    Args:
        run: Trained, and perhaps diversified.
        base: Return the trained model's vectors, even if the run was diversified.

    Returns:
        The rule of the run, or its own vectors. User vectors and dials within a budget are solved for all interactions.

    Raises:
        InputError: If the certificate of the run is missing.

    Stability: provisional.
    """
    if base or not run.is_diversified():
        return run.factors()
    found, asked = run.diversified(), budget_of(run)
    if asked is None or found.into not in ("user-vectors", "dials"):
        return found.model
    if found.rule is not None and found.rule.lifts is not None:  # live lists have lifts of their own
        return _solved(run, asked, found).factors
    user = run.load_live()
    if user is None:
        made_from = run.live_fingerprint()
        user = replace(_solved(run, asked, found), steering={}).factors.user
        with suppress(StorageError):  # a read-only run serves live lists as well
            run.save_live(user, made_from)
    return found.factors.with_vectors(user=_with_own(found, user))


def _with_own(found: Diversified, user: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n_users, d) vectors with the dials that users set for themselves."""
    if found.dials is None or not found.steering:
        return user
    own = own_weights(found.dials, found.base, found.steering).astype(np.float32)
    return user + np.pad(own, ((0, 0), (user.shape[1] - own.shape[1], 0)))


def _solved(run: Run, asked: BudgetConfig, found: Diversified) -> Diversified:
    """Solve a result again for live lists."""
    certified = run.certificate() or {}
    scenario = scenario_of(run, live=True)
    stickiness = certified.get("retrained", {}).get("stickiness", 0.0)
    if stickiness:  # the certified lists keep items of an older run; items that a user has taken since are dropped
        lists = scenario_of(run).rank(found.factors)[0]
        scenario = StickyScenario(scenario, np.where(_is_in(scenario.seen, lists), -1, lists), stickiness)
    form = as_into(certified["into"])
    how = {"ordered": asked.ordered, "rest": asked.rest}
    return found.served_by(serve(scenario, asked.goal, certified["trade_off"], form, **how))


def recommend_live(
    run: Run,
    k: int,
    *,
    users: Sequence[Any] | None = None,
    base: bool = False,
    allow_violations: bool = False,
    on_step: ProgressCallback | None = None,
) -> tuple[pl.DataFrame, LiveFigures]:
    """Make lists without any item that a user already has, under the constraints of the run's result.

    Args:
        run: Trained, and perhaps diversified.
        k: Length of the lists.
        users: Ids; all users if None.
        base: Make the lists of the trained model, even if the run was diversified.
        allow_violations: Return lists that cannot keep a constraint, too.
        on_step: Receives progress: solving, ranking, measuring.

    Returns:
        A long table with user_id, item_id, rank (from 1) and score, and the figures. Places are counted in these lists;
        the gain is that of the lists of all users.

    Stability: provisional.
    """
    step = count_steps(on_step, "making live lists", 3)
    model, scenario = live_model(run, base=base), scenario_of(run, live=True)
    step()
    rows = rows_of(scenario.factors, users)
    items, scores = ranked(run, scenario, model, k, rows, allow_violations=allow_violations)
    step()
    figures = live_figures(run, scenario, model, rows, items)
    step()
    return lists_to_frame(scenario.factors, rows, items, scores), figures


def live_figures(
    run: Run,
    scenario: Scenario,
    model: Ranker,
    rows: NDArray[Any],
    items: NDArray[Any],
    *,
    is_certified: bool = True,
) -> LiveFigures:
    """Compute the figures of live lists.

    Args:
        run: The run with the goal.
        scenario: The history of all known interactions, and the constraints.
        model: The vectors or the rule that serve; the gain is measured for all users at the cut of the goal.
        rows: (n,) row numbers of the users with a list.
        items: (n, k) item numbers of these lists, -1 in empty places.
        is_certified: Whether the run's certificate is about these lists.

    Stability: provisional.
    """
    shown = int((items >= 0).sum())
    consumed = int(_is_in(scenario.seen.take_rows(rows), items).sum())
    served = scenario.rank(model)[0]
    violations = scenario.violations(served)
    held = None if violations is None else f"In the first {scenario.k} places: {violations.sentence()}"
    if not run.is_diversified() or np.array_equal(served, scenario.base_lists):
        return LiveFigures(shown, consumed, constraints=held)
    metric, certified = run.diversified().objective, run.certificate()
    base, live = (_mean(scenario.judge(it, (metric,))[metric]) for it in (scenario.base_lists, served))
    part = (certified["certificate"].get("part") or "test") if certified is not None and is_certified else None
    return LiveFigures(shown, consumed, metric, base, live, part, held)


def _mean(values: NDArray[Any]) -> float | None:
    """Mean over the users with a value; None if there is none."""
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _is_in(pairs: Incidence, items: NDArray[Any]) -> NDArray[np.bool_]:
    """(n, k) whether each item is in the same row of ``pairs``."""
    keys = pairs.row_of_entry.astype(np.int64) * pairs.n_cols + pairs.indices
    return np.isin(np.arange(len(items))[:, None] * pairs.n_cols + items, keys) & (items >= 0)
