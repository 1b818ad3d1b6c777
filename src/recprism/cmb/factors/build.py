"""Build the explanation of a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors import _ranking as ranking
from recprism.cmb.factors.axes import canonical
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.controls import Controls, run_controls
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.explanation import Explanation, Row, label_of
from recprism.cmb.factors.naming import Labels, Name, name_coordinates
from recprism.cmb.factors.nulls import null_erasures
from recprism.cmb.factors.parts import bias_and_rest
from recprism.cmb.factors.swaps import find_swaps
from recprism.cmb.factors.verdict import Verdict
from recprism.common.progress import ProgressCallback
from recprism.errors import InputError
from recprism.metrics.registry import metric_name
from recprism.models import Factors

NEGLIGIBLE = 0.01  # of the largest: smaller moves are not counted as moves


def explain(
    change: Change,
    evaluator: Evaluator,
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
    """Explain a difference between two sets of factors, whatever method produced it.

    Args:
        change: The change of the vectors.
        evaluator: Evaluates all users; its metrics must include the objective and the cost.
        objective: The metric whose gain is explained.
        cost: The metric of accuracy.
        axes: "raw" for the axes as trained, or a method of :func:`recprism.cmb.factors.axes.canonical`; lists are
            the same on all axes. None takes singular axes, which agree best over trainings (benchmarks/axes.py), and
            raw axes for named features.
        labels: Labels that can name factors; without them no factor has a name.
        titles: (n_items,) titles of the items; by default their ids.
        top: Number of factors to show.
        draws: Draws of each shuffled control on all users; 0 runs no controls. These draws support no claim about
            factors: a claim needs held-out users, see ``controls``.
        promotions: Name -> (n_items,) further candidates for plain promotion, see ``run_controls``.
        controls: Controls that were already run on the same axes, for example on held-out users. ``draws`` is then not
            used.
        agreement: Agreement of the rankings of factors on separate groups of users.
        seed: Seed of the controls.
        on_step: Receives (done, total) after every ranking of the controls.

    Raises:
        InputError: If the evaluator lacks the objective or the cost, or does not evaluate all users.
    """
    objective, cost = metric_name(objective), metric_name(cost)
    missing = [name for name in (objective, cost) if name not in evaluator.metrics]
    if missing:
        raise InputError(f"{missing[0]} is not among the evaluator's metrics, {', '.join(evaluator.metrics)}; add it")
    if evaluator.users is not None:
        raise InputError("swaps are explained user by user; pass an evaluator of all users")
    axes = axes or usual_axes(change.base)
    shown = on_axes(change, axes)
    if draws and controls is None:
        controls = run_controls(shown, evaluator, objective, cost, draws, seed, on_step=on_step, candidates=promotions)
    factors = _factor_rows(shown, evaluator, axes, labels, top)
    return Explanation(
        change=shown,
        axes=axes,
        objective=objective,
        cost=cost,
        base=evaluator.means(shown.base),
        after=evaluator.means(shown.after),
        parts=bias_and_rest(shown, evaluator),
        controls=controls,
        verdict=None if controls is None else Verdict.of(controls),
        factors=factors,
        together=evaluator.means(_without(shown, [(row.side, row.number) for row in factors]).after),
        swaps=find_swaps(shown, evaluator.depth, exclude=evaluator.exclude),
        titles=titles if titles is not None else [str(item) for item in change.base.item_ids],
        nulls=null_erasures(shown, evaluator, seed=seed),
        agreement=agreement,
    )


def usual_axes(base: Factors) -> str:
    """Return "svd", or "raw" if factors are named features or some factors are empty."""
    return "raw" if base.settings.get("features") or canonical(base).factors.dim < base.dim else "svd"


def on_axes(change: Change, axes: str) -> Change:
    """Express a change on other axes; every score changes by the same amount."""
    if axes == "raw":
        return change
    if axes != "svd":
        raise InputError(f"axes are raw or svd, not {axes!r}")
    found = canonical(change.base)
    if found.factors.dim < change.base.dim:
        raise InputError(
            f"scores need {found.factors.dim} axes and there are {change.base.dim} factors: changes along the empty "
            "ones would be lost; use axes='raw'"
        )
    return found.to_canonical(change)


def _factor_rows(change: Change, evaluator: Evaluator, axes: str, labels: Labels | None, top: int) -> tuple[Row, ...]:
    """Select the factors that moved most on each side, with the values after erasing each alone."""
    rows = []
    for side, delta in change.sides.items():
        sizes = ranking.shared(delta)
        chosen = [int(number) for number in ranking.order(sizes)[:top] if sizes[number] > 0]
        names = _names(change.base.item[:, chosen], labels)
        for number, name in zip(chosen, names, strict=True):
            raised, lowered = _moved(delta[:, number])
            values = evaluator.means(_without(change, [(side, number)]).after)
            label = label_of(change, axes, number)
            rows.append(Row(number, label, side, float(sizes[number]), raised, lowered, values, name))
    return tuple(rows)


def _without(change: Change, factors: Sequence[tuple[str, int]]) -> Change:
    """Return the change without some factors, given by side and number."""
    sides = {side: delta.copy() for side, delta in change.sides.items()}
    for side, number in factors:
        sides[side][:, number] = 0
    return change.replaced(**sides)


def _names(coordinates: NDArray[Any], labels: Labels | None) -> Sequence[Name | None]:
    """Name coordinates together, so that the p-values are corrected for all of them."""
    if labels is None or not coordinates.shape[1]:
        return [None] * coordinates.shape[1]
    return name_coordinates(coordinates, labels)


def _moved(values: NDArray[Any]) -> tuple[int, int]:
    """Count values that are raised and lowered by more than a negligible amount."""
    least = NEGLIGIBLE * float(np.abs(values).max(initial=0))
    return int((values > least).sum()), int((values < -least).sum())
