"""The checks behind an explanation: controls on held-out users, and the stability of the factors' ranking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recprism.cmb import CMB
from recprism.cmb.factors import _ranking as ranking
from recprism.cmb.factors.build import on_axes, usual_axes
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.controls import Controls, PureBias, Shuffled, run_controls
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.held_out import divided_users, learned_promotion, refitted
from recprism.common.checks import random_generator
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.data.categories import Categories
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics.registry import metric_name, metric_of_goal

GROUPS = 4  # of users, on each of which factors are ranked
FEWEST_USERS = 20  # to be divided into groups
HELD_OUT = 0.2  # of the users, to judge controls on
COST = "ndcg@10"
ENOUGH = 40  # draws: two controls share the level of 5 %, and 2 / (39 + 1) does not pass it


@dataclass(frozen=True, eq=False)
class Checks:
    """What an explanation's claims are checked against.

    Attributes:
        controls: What random and simple changes reach.
        notes: On which users the controls were judged.
        agreement: Whether the ranking of the factors comes out alike on separate groups of users; None if unknown.
    """

    controls: Controls
    notes: tuple[str, ...]
    agreement: ranking.Agreement | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; empty if a figure is missing, because JSON has no NaN."""
        controls = {**asdict(self.controls), "shuffled": [_plain(it) for it in self.controls.shuffled]}
        agreement = None if self.agreement is None else asdict(self.agreement)
        plain = {"controls": controls, "notes": list(self.notes), "agreement": agreement}
        try:
            json.dumps(plain, allow_nan=False)
        except ValueError:
            return {}
        return plain

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Checks:
        """Read what :meth:`to_dict` wrote."""
        plain = dict(kept["controls"])
        shuffled = tuple(
            Shuffled(**{**it, "objective": np.array(it["objective"]), "cost": np.array(it["cost"])})
            for it in plain["shuffled"]
        )
        pairs = {name: tuple(plain["bias"][name]) for name in ("sources", "scales")}
        bias = PureBias(**{**plain["bias"], **pairs})
        own = {"base": tuple(plain["base"]), "learned": tuple(plain["learned"]), "bias": bias}
        controls = Controls(**{**plain, **own, "shuffled": shuffled})
        agreement = None if kept["agreement"] is None else ranking.Agreement(**kept["agreement"])
        return cls(controls, tuple(kept["notes"]), agreement)


def _plain(control: Shuffled) -> dict[str, Any]:
    return {**asdict(control), "objective": control.objective.tolist(), "cost": control.cost.tolist()}


@dataclass(frozen=True)
class Question:
    """What is asked of an explanation; the checks depend on nothing else but the result and its data.

    Attributes:
        objective: The metric whose gain is explained.
        axes: The axes that factors are named on.
        part: The part that judges.
        draws: Of each control; 0 runs none.
        seed: Of the draws.
        held_out: Share of the users who judge the controls, if the search can be repeated without them.
    """

    objective: str
    axes: str
    part: Part = "test"
    draws: int = 199
    seed: int = 0
    held_out: float = HELD_OUT

    @classmethod
    def about(
        cls,
        found: CMB,
        objective: str | None = None,
        *,
        axes: str | None = None,
        part: Part = "test",
        draws: int = 199,
        seed: int = 0,
        held_out: float = HELD_OUT,
    ) -> Question:
        """Fill in the result's own objective and the usual axes.

        Raises:
            InputError: If the draws are too few to show a gain beyond chance.
        """
        require_enough(draws)
        name = metric_name(objective or metric_of_goal(found.goal))
        return cls(name, axes or usual_axes(found.base_), part, draws, seed, held_out)


def require_enough(draws: int) -> None:
    """Refuse numbers of draws that can never show a gain beyond chance."""
    if 0 < draws < ENOUGH:
        raise InputError(
            f"draws={draws}: fewer than {ENOUGH} can never show a gain beyond chance; ask for 0, or at least {ENOUGH}"
        )


@phase("running the controls", __name__)
def run_checks(
    found: CMB, split: Split, categories: Categories, asked: Question, on_step: ProgressCallback | None = None
) -> Checks:
    """Run the controls of a result and test the stability of its ranking of factors.

    If players searched for item vectors, the search is repeated without a fifth of the users, who then judge: on users
    that it knows, a search beats every control, because it found out who likes what.
    """
    everybody = np.arange(split.n_users)
    apart = _can_be_repeated(found) and split.n_users >= FEWEST_USERS
    rows, judged = divided_users(split.n_users, asked.held_out, asked.seed) if apart else (everybody, None)
    change = Change.of(found.base_, found.delta_) if judged is None else refitted(found, split, categories, rows)
    controls = run_controls(
        on_axes(change, asked.axes),
        Evaluator.on(split, asked.part, found.base_, categories, (asked.objective, COST), judged),
        asked.objective,
        COST,
        asked.draws,
        asked.seed,
        on_step=on_step,
        candidates=learned_promotion(found.base_, split, categories, rows, asked.objective),
        unseen=judged is not None,
    )
    notes: tuple[str, ...] = ()
    if judged is not None:
        notes = (f"Controls were judged on {len(judged):,} users, after a search that did not know them.",)
    return Checks(controls, notes, stability(found, split, categories, asked.axes, asked.seed))


def _can_be_repeated(found: CMB) -> bool:
    """Whether players searched for item vectors alone: such a search can be repeated without some of the users."""
    return found.side == "item"


def stability(
    found: CMB, split: Split, categories: Categories, axes: str = "raw", seed: int = 0
) -> ranking.Agreement | None:
    """Test whether the ranking of factors comes out alike on separate groups of users.

    A search for item vectors is repeated in each group, with another seed. Users' own vectors move for themselves, so
    their change is compared group by group.

    Returns:
        None for item vectors that no search can find again, and if there is too little to compare.
    """
    if found.side == "both" or split.n_users < FEWEST_USERS or found.base_.dim < 2:
        return None
    mixed = random_generator(seed, split.n_users).permutation(split.n_users)
    groups = [np.sort(rows) for rows in np.array_split(mixed, GROUPS)]
    if _can_be_repeated(found):
        again = (
            on_axes(refitted(found, split, categories, rows, seed=found.seed + number), axes)
            for number, rows in enumerate(groups)
        )
        return ranking.rank_agreement([ranking.shared(it.sides["item"]) for it in again])
    delta = on_axes(Change.of(found.base_, found.delta_), axes).sides["user"]
    return ranking.rank_agreement([ranking.shared(delta, rows) for rows in groups])
