"""The factors and directions of a run's own change: what each is, and what turning it by hand does."""

from __future__ import annotations

from dataclasses import replace

from recprism.cmb._settings import BAKED
from recprism.errors import InputError
from recprism.explain import _sentences as sentences
from recprism.explain.explanation import Row
from recprism.models import Factors
from recprism.runs.jobs.explain import explain_run
from recprism.studio import schemas
from recprism.studio.view import View

NOT_CHECKED = (
    "No controls have been run here, so nothing is claimed about factors; `recprism explain` runs them and keeps what "
    "it finds."
)
OF_LISTS = (
    " Its vectors were made to hold given lists, as small as can be: erasing anything undoes most of that, and says "
    "little about the thing that was erased."
)
FURTHEST = 3.0


class Board:
    """Made once per run, which takes some seconds: everything is erased alone to see what it does."""

    def __init__(self, view: View) -> None:
        self.view = view
        found = explain_run(view.run, draws=0)
        self.explanation = found.explanation
        self.evaluator = replace(found.judge, metrics=tuple(found.explanation.base))
        self.rows = (*self.explanation.directions, *self.explanation.factors)

    def answer(self) -> schemas.FeaturesAnswer:
        """All of them, with the verdict of the last `recprism explain`, where there was one."""
        kept = self.view.run.explanation() or {}
        verdict = kept.get("verdict")
        said = NOT_CHECKED if verdict is None else str(verdict["sentence"])
        return schemas.FeaturesAnswer(
            objective=self.explanation.objective,
            verdict=said + OF_LISTS if self.view.run.cmb().credit == BAKED else said,
            holds=verdict is not None and bool(verdict["holds"]),
            features=[self._feature(number, row) for number, row in enumerate(self.rows)],
        )

    def turn(self, number: int, scale: float, user: str) -> schemas.TurnAnswer:
        """Rank everybody with one of them scaled: 1 leaves it as it was found, 0 erases it."""
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
