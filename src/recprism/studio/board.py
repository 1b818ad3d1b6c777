"""The factors and directions of a run's own change, and the effect of scaling each."""

from __future__ import annotations

from dataclasses import replace

from recprism.errors import InputError
from recprism.explain.factors import _sentences as sentences
from recprism.explain.factors.explanation import Row
from recprism.models import Factors
from recprism.runs.jobs.factors import explain_factors
from recprism.studio import schemas
from recprism.studio.view import View

NOT_CHECKED = (
    "No controls have been run here, so nothing is claimed about factors; `recprism explain` runs them and keeps the "
    "result."
)
OF_LISTS = (
    " The change is the smallest one that holds given lists. Erasing any part undoes most of it, so an erasure says "
    "little about the part that was erased."
)
FURTHEST = 3.0


class Board:
    """Features of a run. The construction takes some seconds, because it erases each feature alone."""

    def __init__(self, view: View) -> None:
        self.view = view
        found = explain_factors(view.run, draws=0)
        self.explanation = found.explanation
        self.evaluator = replace(found.evaluator, metrics=tuple(found.explanation.base))
        self.rows = (*self.explanation.directions, *self.explanation.factors)

    def answer(self) -> schemas.FeaturesAnswer:
        """Return all features, with the verdict of the last `recprism explain`, if there was one."""
        kept = self.view.run.explanation() or {}
        verdict = kept.get("verdict")
        said = NOT_CHECKED if verdict is None else str(verdict["sentence"])
        return schemas.FeaturesAnswer(
            objective=self.explanation.objective,
            verdict=said + OF_LISTS if self.view.run.diversified().search is None else said,
            holds=verdict is not None and bool(verdict["holds"]),
            features=[self._feature(number, row) for number, row in enumerate(self.rows)],
        )

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
