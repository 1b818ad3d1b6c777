"""What a run's own change consists of: factors and directions that players found, or the dials of a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import polars as pl

from recprism.data.shares import percent
from recprism.errors import InputError
from recprism.explain.factors import _sentences as sentences
from recprism.explain.factors.explanation import Row
from recprism.models import Factors
from recprism.runs.jobs.factors import explain_factors
from recprism.studio import schemas
from recprism.studio.view import View

NOT_CHECKED = (
    "No controls have been run here, so nothing is claimed about factors; `recprism erase` runs them and keeps the "
    "result."
)
BY_RULE = "A rule made the lists, and gives a reason for every new item; there are no factors to look at."
FURTHEST = 3.0


class Board(Protocol):
    """What the page shows about a run's own change."""

    def answer(self) -> schemas.FeaturesAnswer:
        """Describe the change."""

    def turn(self, number: int, scale: float, user: str) -> schemas.TurnAnswer:
        """Rank all users with one feature scaled: 1 leaves it unchanged, 0 erases it."""


def board_of(view: View) -> Board:
    """Return the board of a diversified run."""
    return FactorBoard(view) if view.run.diversified().rule is None else RuleBoard(view)


class RuleBoard:
    """The rule of a run, and its dials if it has some."""

    def __init__(self, view: View) -> None:
        self.found = view.run.diversified()

    def answer(self) -> schemas.FeaturesAnswer:
        """Return the rule in words, and the dials with the most users first."""
        dials = self.found.dials
        shares = None if dials is None else dials.to_frame().group_by("concept").agg(pl.len(), pl.col("share").mean())
        rows = [] if shares is None else shares.sort("len", "concept", descending=(True, False)).rows()
        return schemas.FeaturesAnswer(
            objective=self.found.objective,
            verdict=BY_RULE if dials is None else f"{BY_RULE} {dials.sentence()}",
            holds=False,
            features=[],
            dials=[schemas.Dial(name=name, users=users, share=share) for name, users, share in rows],
        )

    def turn(self, number: int, scale: float, user: str) -> schemas.TurnAnswer:
        """Refuse: there are no features."""
        raise InputError(
            f"there is no feature {number} to scale to {scale} for user {user}: a rule made the lists; "
            "`recprism steer` sets the dials of one user"
        )


class FactorBoard:
    """Features that players found. The construction takes some seconds, because it erases each feature alone."""

    def __init__(self, view: View) -> None:
        self.view = view
        found = explain_factors(view.run, draws=0)
        self.explanation = found.explanation
        self.evaluator = replace(found.evaluator, metrics=tuple(found.explanation.base))
        self.rows = (*self.explanation.directions, *self.explanation.factors)

    def answer(self) -> schemas.FeaturesAnswer:
        """Return all features, with the verdict of the last `recprism erase`, if there was one."""
        kept = self.view.run.factors_explanation() or {}
        verdict = kept.get("verdict")
        said = NOT_CHECKED if verdict is None else str(verdict["sentence"])
        return schemas.FeaturesAnswer(
            objective=self.explanation.objective,
            verdict=f"{said} {self._nulls()}",
            holds=verdict is not None and bool(verdict["holds"]),
            features=[self._feature(number, row) for number, row in enumerate(self.rows)],
        )

    def _nulls(self) -> str:
        """Say what erasures without a meaning take back, next to which the features are read."""
        nulls = ((it.name, self.explanation.taken_back(it.values)) for it in self.explanation.nulls)
        parts = ", ".join(f"{name}: {percent(share, 'z.0f')}" for name, share in nulls)
        return f"To compare, what erasing something without a meaning undoes of the gain: {parts}."

    def turn(self, number: int, scale: float, user: str) -> schemas.TurnAnswer:
        """Rank all users with one feature scaled: 1 leaves it unchanged, 0 erases it."""
        if not 0 <= number < len(self.rows):
            raise InputError(f"there is no feature {number}; there are {len(self.rows)}, from 0 on")
        turned: Factors = self.explanation.turned(self.rows[number], scale)
        return schemas.TurnAnswer(
            scale=scale,
            values=dict(self.evaluator.means(turned)),
            as_found=dict(self.explanation.after),
            base=dict(self.explanation.base),
            lists=self.view.lists_of(user, turned),
        )

    def _feature(self, number: int, row: Row) -> schemas.Feature:
        high, low = self.explanation.typical(row)
        return schemas.Feature(
            number=number,
            kind=row.kind,
            label=row.label,
            name=row.words,
            sentence=sentences.about(self.explanation, row),
            size=row.size,
            taken_back=self.explanation.taken_back(row.erased),
            high=[self.view.item(item) for item in high],
            low=[self.view.item(item) for item in low],
        )
