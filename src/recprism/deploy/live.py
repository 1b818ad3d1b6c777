"""Lists for real users: all known interactions count as seen, the held-out ones included.

A change of item vectors, or one that players found, serves such lists as it is. Where a budget was spent in user
vectors, these hold the lists of one history: the same rule is solved again at the certified point, for all that is
known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.budget.certificate import carried_over
from recprism.budget.diversified import served_at
from recprism.budget.path import constrained
from recprism.budget.scenario import Scenario
from recprism.data.incidence import Incidence
from recprism.data.progress import ProgressCallback, count_steps
from recprism.deploy.refit import Keeping
from recprism.errors import InputError, StorageError
from recprism.models import Factors
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import constraints_of
from recprism.runs.jobs.train import lists_to_frame, rows_of
from recprism.runs.run import Run


@dataclass(frozen=True)
class LiveFigures:
    """What live lists show.

    Attributes:
        places: How many places of lists were looked at.
        consumed: How many of them hold an item that the user already has.
        metric: What the goal is measured by; None where the run is not diversified.
        base: Its mean in the live lists of the trained model; None where it needs labels.
        live: Its mean in the live lists.
        certified_on: The part whose labels the certificate was earned on; None where there is no certificate.
        constraints: How far the constraints of the run hold in the live lists, in words; None without any.
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
        """Relative to the live lists of the trained model."""
        return None if self.live is None or not self.base else self.live / self.base - 1

    def sentences(self) -> tuple[str, ...]:
        """What to print."""
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
        """Plain values only, ready for JSON."""
        return {**asdict(self), "gain": self.gain, "sentences": list(self.sentences())}


def live_scenario(run: Run) -> Scenario:
    """The trained model of a run about to serve lists to users whose whole history is known."""
    return Scenario(run.factors(), run.split().live(), run.subtopics(), "test")


def hidden_live(run: Run) -> Incidence:
    """Users x items that live lists never show: all that a user already has, and what the run bans."""
    seen, asked = run.split().live().train, _budget_of(run)
    banned = constraints_of(asked.constraints, run.factors()).get("banned", []) if asked is not None else []
    if not banned:
        return seen
    everybody = np.repeat(np.arange(seen.n_rows), len(banned))
    return seen.union(Incidence.from_pairs(everybody, np.tile(banned, seen.n_rows), seen.shape))


def live_factors(run: Run, *, base: bool = False) -> Factors:
    """The vectors that serve live lists; they are solved once and kept in the run.

    Args:
        run: Trained, and perhaps diversified.
        base: The trained model's vectors, even if the run was diversified.

    Returns:
        The run's own vectors, with other user vectors where a budget was spent in these.

    Raises:
        InputError: If the run lost the certificate that says how far its path goes.
    """
    if base or not run.is_diversified():
        return run.factors()
    found, asked = run.diversified(), _budget_of(run)
    if asked is None or asked.side == "item":
        return found.factors
    if run.certificate() is None:
        raise InputError(
            f"{run.path}: has lost certificate.json, which says how far to diversify; "
            f"run `recprism diversify {run.argument} --budget {asked.budgets.get('ndcg@10', 0.01):g} --overwrite`"
        )
    user = run.load_live()
    if user is None:
        made_from = run.live_fingerprint()
        user = _solved(run, asked, found.factors)
        with suppress(StorageError):  # a run that may only be read serves live lists, too
            run.save_live(user, made_from)
    return found.base.with_vectors(user=user)


def _solved(run: Run, asked: BudgetConfig, held_out: Factors) -> NDArray[np.float32]:
    """(n_users, d) user vectors; held_out: those of the lists that were certified."""
    certified = run.certificate() or {}
    scenario = live_scenario(run)
    stickiness = certified.get("retrained", {}).get("stickiness", 0.0)
    if stickiness:  # the certified lists hold on to those of an older run; what a user has since taken is let go
        lists = held_out.rank(scenario.k, exclude=run.split().seen_before("test"))[0]
        scenario = Keeping(scenario, np.where(_is_in(scenario.seen, lists), -1, lists), stickiness)
    constraints = constraints_of(asked.constraints, scenario.factors)
    baked, _ = served_at(scenario, asked.goal, certified["trade_off"], constraints=constraints)
    return baked.perturbation.applied_to(scenario.factors).user


def recommend_live(
    run: Run,
    k: int,
    *,
    users: Sequence[Any] | None = None,
    base: bool = False,
    on_step: ProgressCallback | None = None,
) -> tuple[pl.DataFrame, LiveFigures]:
    """Lists without anything that is known of a user, and what they show.

    Args:
        run: Trained, and perhaps diversified.
        k: Length of the lists.
        users: Ids; all users if None.
        base: The lists of the trained model, even if the run was diversified.
        on_step: Receives the steps that are done: solving, ranking, measuring.

    Returns:
        A long table user_id, item_id, rank (from 1), score. Then the figures, whose places are those of these lists and
        whose gain is that of the lists of all users.
    """
    step = count_steps(on_step, "making live lists", 3)
    factors, hidden = live_factors(run, base=base), hidden_live(run)
    step()
    rows = rows_of(factors, users)
    items, scores = factors.rank(k, exclude=hidden, users=rows)
    step()
    figures = live_figures(run, factors, rows, items, hidden)
    step()
    return lists_to_frame(factors, rows, items, scores), figures


def live_figures(
    run: Run,
    factors: Factors,
    rows: NDArray[Any],
    items: NDArray[Any],
    hidden: Incidence,
    *,
    is_certified: bool = True,
) -> LiveFigures:
    """What live lists show.

    Args:
        run: Where the history and the goal are.
        factors: The vectors that serve; their gain is that of all users at the goal's cut.
        rows: (n,) row numbers of the users whose lists are shown.
        items: (n, k) item numbers of these lists, -1 where nothing is left.
        hidden: (n_users, n_items) pairs that the ranking leaves out.
        is_certified: Whether the vectors are those that the run's certificate is about, and not a blend.
    """
    scenario = live_scenario(run)
    shown = int((items >= 0).sum())
    consumed = int(_is_in(scenario.seen.take_rows(rows), items).sum())
    served = factors.rank(scenario.k, exclude=hidden)[0]
    certified, asked = run.certificate(), _budget_of(run)
    held = None
    if certified is not None and asked is not None:
        held = _constraints(scenario, asked, certified, served)
    if not run.is_diversified() or np.array_equal(served, scenario.base_lists):
        return LiveFigures(shown, consumed, constraints=held)
    metric = run.diversified().objective
    base, live = (_mean(scenario.judge(it, (metric,))[metric]) for it in (scenario.base_lists, served))
    part = (certified["certificate"].get("part") or "test") if certified is not None and is_certified else None
    return LiveFigures(shown, consumed, metric, base, live, part, held)


def _mean(values: NDArray[Any]) -> float | None:
    """Of the users who can be judged; None where there is nobody."""
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _constraints(
    scenario: Scenario, asked: BudgetConfig, certified: Mapping[str, Any], lists: NDArray[Any]
) -> str | None:
    """How far they hold in lists; (n_users, k) item numbers."""
    constraints = constraints_of(asked.constraints, scenario.factors)
    if not constraints:
        return None
    bound = constrained(scenario, asked.goal, certified.get("trade_off") or 0.0, constraints)
    found = bound.report(np.asarray(lists, np.int64), features=scenario.features).sentence()
    return f"In the first {scenario.k} places: {found}"


def _budget_of(run: Run) -> BudgetConfig | None:
    wanted = run.config.diversify
    return None if wanted is None else wanted.within


def _is_in(pairs: Incidence, items: NDArray[Any]) -> NDArray[np.bool_]:
    """(n, k) whether a row of ``pairs`` holds the items of the same row."""
    keys = pairs.row_of_entry.astype(np.int64) * pairs.n_cols + pairs.indices
    return np.isin(np.arange(len(items))[:, None] * pairs.n_cols + items, keys) & (items >= 0)
