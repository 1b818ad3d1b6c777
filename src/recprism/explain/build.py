"""From a change to its explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.data.incidence import Incidence
from recprism.data.progress import ProgressCallback
from recprism.data.subtopics import Subtopics
from recprism.dials.solve import lists_to_vectors
from recprism.errors import InputError
from recprism.explain import _ranking as ranking
from recprism.explain.axes import canonical
from recprism.explain.change import Change
from recprism.explain.controls import Controls, run_controls
from recprism.explain.evaluator import Evaluator, metric_name
from recprism.explain.explanation import Explanation, Row, label_of
from recprism.explain.naming import Labels, Name, name_coordinates
from recprism.explain.parts import bias_and_rest
from recprism.explain.score_directions import Directions, directions
from recprism.explain.swaps import find_swaps
from recprism.explain.verdict import Verdict
from recprism.models import Factors

NEGLIGIBLE = 0.01  # of the largest: smaller moves are not counted as moves


def explain(
    change: Change,
    judge: Evaluator,
    objective: str = "subtopic_coverage@10",
    *,
    cost: str = "ndcg@10",
    axes: str | None = None,
    labels: Labels | None = None,
    titles: Sequence[str] | None = None,
    top: int = 5,
    draws: int = 199,
    promotions: Mapping[str, NDArray[Any]] | None = None,
    controls: Controls | None = None,
    agreement: ranking.Agreement | None = None,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> Explanation:
    """Explain a difference between two sets of factors, whoever made it.

    judge: must look at all users; its metrics must hold the objective and the cost
    axes: "raw", as trained, or a rule of :func:`recprism.explain.axes.canonical`; lists are the same on all of them.
        None takes singular axes, which agree best over trainings (benchmarks/axes.py), and the raw ones of named
        features
    labels: what factors can be named by; without, none has a name
    draws: of each shuffled control, on all users; 0 runs none. Either way nothing is claimed about factors: that takes
        users who took no part in finding the change, see ``controls``
    promotions: name -> (n_items,) further candidates for plain promotion, see :func:`run_controls`
    controls: already run, on the same axes, such as on users whom the change was not searched for; ``draws`` is then
        not looked at
    """
    objective, cost = metric_name(objective), metric_name(cost)
    missing = [name for name in (objective, cost) if name not in judge.metrics]
    if missing:
        raise InputError(f"{missing[0]} is not among the judge's metrics, {', '.join(judge.metrics)}; add it")
    if judge.users is not None:
        raise InputError("swaps are explained user by user; give a judge that looks at all users")
    axes = axes or usual_axes(change.base)
    shown = on_axes(change, axes, judge.subtopics)
    if draws and controls is None:
        controls = run_controls(shown, judge, objective, cost, draws, seed, on_step=on_step, candidates=promotions)
    found = directions(shown, top, centred=True)
    factors = _factor_rows(shown, judge, axes, labels, top)
    return Explanation(
        change=shown,
        axes=axes,
        objective=objective,
        cost=cost,
        base=judge.means(shown.base),
        after=judge.means(shown.after),
        parts=bias_and_rest(shown, judge),
        controls=controls,
        verdict=None if controls is None else Verdict.of(controls),
        factors=factors,
        directions=_direction_rows(found, judge, labels),
        together=(
            judge.means(found.erased(*range(len(found)))),
            judge.means(_without(shown, [(row.side, row.number) for row in factors]).after),
        ),
        all_directions=found,
        swaps=find_swaps(shown, judge.depth, exclude=judge.exclude),
        titles=titles if titles is not None else [str(item) for item in change.base.item_ids],
        agreement=agreement,
    )


def explain_lists(
    base: Factors,
    lists: NDArray[Any],
    judge: Evaluator,
    objective: str = "subtopic_coverage@10",
    *,
    side: Literal["user", "item"] = "user",
    exclude: Incidence | None = None,
    **settings: Any,
) -> Explanation:
    """Explain lists that another method or an editor made: they are baked into vectors first, and the notes say how
    much of them the vectors give back. Settings are those of :func:`explain`."""
    found = lists_to_vectors(base, np.asarray(lists), side, exclude=judge.exclude if exclude is None else exclude)
    explanation = explain(Change.of(base, found.perturbation), judge, objective, **settings)
    return replace(explanation, notes=(*explanation.notes, found.sentence()))


def usual_axes(base: Factors) -> str:
    """Singular axes, unless the factors are features with names, or some of them are empty."""
    return "raw" if base.settings.get("features") or canonical(base).factors.dim < base.dim else "svd"


def on_axes(change: Change, axes: str, subtopics: Subtopics | None = None) -> Change:
    """The same change of the same scores, on the axes that are shown."""
    if axes == "raw":
        return change
    found = canonical(change.base, axes, subtopics=subtopics)
    if found.factors.dim < change.base.dim:
        raise InputError(
            f"scores need {found.factors.dim} axes and there are {change.base.dim} factors: what moved along the empty "
            "ones would be lost; use axes='raw'"
        )
    return found.to_canonical(change)


def _factor_rows(change: Change, judge: Evaluator, axes: str, labels: Labels | None, top: int) -> tuple[Row, ...]:
    """The factors that moved most on each side that moved, with what erasing each alone leaves."""
    rows = []
    for side, delta in change.sides.items():
        sizes = ranking.shared(delta)
        chosen = [int(number) for number in ranking.order(sizes)[:top] if sizes[number] > 0]
        names = _names(change.base.item[:, chosen], labels)
        for number, name in zip(chosen, names, strict=True):
            raised, lowered = _moved(delta[:, number])
            values = judge.means(_without(change, [(side, number)]).after)
            label = label_of(change, axes, number)
            rows.append(Row("factor", number, label, side, float(sizes[number]), raised, lowered, values, name))
    return tuple(rows)


def _without(change: Change, factors: Sequence[tuple[str, int]]) -> Change:
    """The change with some factors, named by side and number, erased."""
    sides = {side: delta.copy() for side, delta in change.sides.items()}
    for side, number in factors:
        sides[side][:, number] = 0
    return change.replaced(**sides)


def _direction_rows(found: Directions, judge: Evaluator, labels: Labels | None) -> tuple[Row, ...]:
    names = _names(found.items, labels)
    return tuple(
        Row(
            "direction",
            number,
            f"Direction {number + 1}",
            "",
            one.share,
            *_moved(one.items),
            judge.means(found.erased(number)),
            names[number],
        )
        for number, one in enumerate(found)
    )


def _names(coordinates: NDArray[Any], labels: Labels | None) -> Sequence[Name | None]:
    """Tested together, so that the p-values allow for all of them."""
    if labels is None or not coordinates.shape[1]:
        return [None] * coordinates.shape[1]
    return name_coordinates(coordinates, labels)


def _moved(values: NDArray[Any]) -> tuple[int, int]:
    """How many are raised and lowered by more than a negligible amount."""
    least = NEGLIGIBLE * float(np.abs(values).max(initial=0))
    return int((values > least).sum()), int((values < -least).sum())
