"""The explanation of players on the page: factors, controls, erasure, the heat map, single users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.checks import require_enough
from recprism.cmb.factors.erasure import BY, Erasure, Which, erase
from recprism.cmb.factors.explanation import UNCHECKED, Explanation, Row
from recprism.cmb.factors.heat import Heat, item_heat
from recprism.cmb.factors.views import Swap, view_user
from recprism.cmb.jobs.factors import explain_factors
from recprism.common.progress import ProgressCallback
from recprism.data.split import Part
from recprism.report.content import Cell, Control, Entry, ErasedPoint, Explained, Feature, User, known
from recprism.result.catalogue import Catalogue, State, places
from recprism.result.highlights import example_users
from recprism.runs.run import Run

ERASURE_DRAWS = 5
CURVES: tuple[Which, ...] = ("top", "matched", "squares")


def check_draws(draws: int) -> None:
    """Refuse too few draws of a control, before anything is measured."""
    require_enough(draws)


def explained_content(
    run: Run, *, part: Part, draws: int, seed: int, tell: ProgressCallback
) -> tuple[Explained, tuple[User, ...]]:
    """Run the controls and the erasures, and describe three users.

    Args:
        run: A diversified run.
        part: The part whose labels are used.
        draws: Draws of each control; 0 runs no controls.
        seed: Seed of controls and erasures.
        tell: Receives progress.
    """
    tell("controls", 0, 1)
    found = explain_factors(run, part=part, draws=draws, seed=seed, on_step=tell)
    explanation, evaluator = found.explanation, found.evaluator
    short = replace(evaluator, metrics=(explanation.objective, explanation.cost))
    erasure = erase(explanation.change, short, explanation.objective, draws=ERASURE_DRAWS, seed=seed, on_step=tell)
    catalogue = Catalogue(run.items(), run.categories())
    verdict = explanation.verdict
    found_users = _users(explanation, short, catalogue, tell)
    about = Explained(
        objective=explanation.objective,
        holds=explanation.says_something,
        checked=verdict is not None,
        known_users=verdict is not None and verdict.reason == "known users",
        sentence=UNCHECKED if verdict is None else verdict.sentence(),
        notes=explanation.notes,
        promotion=explanation.parts.sentence(explanation.objective),
        stability="" if explanation.agreement is None else explanation.stability(),
        gain=None if verdict is None else known(verdict.gain),
        controls=()
        if verdict is None
        else tuple(Control(it.name, known(it.gain), known(it.share), known(it.corrected)) for it in verdict.figures),
        features=tuple(_feature(explanation, row) for row in explanation.factors),
        nulls=tuple((it.name, explanation.taken_back(it.values)) for it in explanation.nulls),
        together=tuple(explanation.said_together()),
        erased=_erased(erasure),
        erasure_sentences=tuple(erasure.sentence(by, _described(erasure)) for by in BY),
        heat=_cells(explanation, item_heat(explanation)),
        heat_side="item" if explanation.change.item is not None else "user",
    )
    return about, tuple(found_users)


# -- factors ----------------------------------------------------------------------------------------------------------


def _feature(explanation: Explanation, row: Row) -> Feature:
    row = replace(row, label=_sided(explanation, row.label, row.side))
    return Feature(row.label, row.words, explanation.about(row), row.size, explanation.taken_back(row.erased))


def _sided(explanation: Explanation, label: str, side: str) -> str:
    """Add the side to a label if both sides moved."""
    return f"{label} ({side})" if len(explanation.change.sides) > 1 else label


def _described(erasure: Erasure) -> int:
    """Return the number of features in the sentence: ten, as in the paper, or all if there are fewer."""
    return max(int(n) for n in erasure.features if n <= 10)


def _erased(erasure: Erasure) -> tuple[ErasedPoint, ...]:
    return tuple(
        ErasedPoint(by, which, n, *(erasure.remaining_range(by, which, n) or (None, None, None)))
        for by in BY
        for which in CURVES
        for n in erasure.features.tolist()
    )


def _cells(explanation: Explanation, heat: Heat | None) -> tuple[Cell, ...]:
    if heat is None:
        return ()
    names = _distinct(explanation, heat.items)
    return tuple(
        Cell(names[i], explanation.label(int(factor)), float(heat.values[i, j]))
        for i in range(len(names))
        for j, factor in enumerate(heat.factors)
    )


def _distinct(explanation: Explanation, items: NDArray[np.int64]) -> list[str]:
    """Return titles; the id is added to a title that several items share, because a chart merges equal names."""
    titles = [explanation.titles[item] for item in items]
    ids = explanation.change.base.item_ids[items].tolist()
    return [title if titles.count(title) == 1 else f"{title} [{own}]" for title, own in zip(titles, ids, strict=True)]


# -- users ------------------------------------------------------------------------------------------------------------


def _users(explanation: Explanation, evaluator: Any, catalogue: Catalogue, tell: ProgressCallback) -> list[User]:
    change = explanation.change
    lists = evaluator.lists(change.base), evaluator.lists(change.after)
    values = evaluator.values(change.base), evaluator.values(change.after)
    chosen = example_users(lists, values, explanation.objective, explanation.cost)
    found = []
    for done, one in enumerate(chosen, start=1):
        view = view_user(explanation, evaluator, change.base.user_ids[one.row])
        reasons = {swap.rank_in: _reason(explanation, swap) for swap in view.swaps}
        before, after = (it[one.row] for it in lists)
        found.append(
            User(
                str(view.user),
                one.reason,
                changes_of(values, (explanation.objective, explanation.cost), one.row),
                entries(before, after, {}, catalogue, "gone"),
                entries(after, before, reasons, catalogue, "new"),
            )
        )
        tell("users", done, len(chosen))
    return found


def changes_of(
    values: tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]], names: Sequence[str], row: int
) -> dict[str, tuple[float | None, float | None]]:
    """Return a user's value of each metric before and after; metrics of all lists together are left out."""
    before, after = values
    return {
        name: (known(before[name][row]), known(after[name][row]))
        for name in names
        if name in before and len(before[name]) > 1
    }


def entries(
    items: NDArray[Any],
    others: NDArray[Any],
    reasons: Mapping[int, tuple[str, ...]],
    catalogue: Catalogue,
    alone: State,
) -> tuple[Entry, ...]:
    """Describe a list; ``alone`` is the state of an item that the other list lacks."""
    found = []
    for place in places(items, others, alone):
        card = catalogue[place.item]
        reason = reasons.get(place.rank, ())
        found.append(Entry(place.rank, card.title, card.year, card.categories, place.state, reason))
    return tuple(found)


def _reason(explanation: Explanation, swap: Swap) -> tuple[str, ...]:
    """Say why an item came: the item it replaced, the effect of the swap, and the parts of its rise.

    Parts by factor are shown only if the verdict holds.
    """
    lines = [f"It replaced {swap.went}, which was at rank {swap.rank_out}.", _effect(swap)]
    promoted = f"{swap.promotion:+.3f} of this is the same for all users (plain promotion)"
    lines.append(f"Its score rose by {swap.rise:+.3f} relative to that item; {promoted}.")
    if explanation.says_something:
        parts = ", ".join(f"{_sided(explanation, part.label, part.side)} {part.amount:+.3f}" for part in swap.parts)
        lines.append(f"The largest parts of the rise: {parts}.")
    return tuple(line for line in lines if line)


def _effect(swap: Swap) -> str:
    known = {name: value for name, value in swap.effects.items() if not np.isnan(value)}
    effects = ", ".join(f"{name} {round(value, 3) + 0.0:+.3f}" for name, value in known.items())
    return f"This swap alone: {effects}." if effects else ""
