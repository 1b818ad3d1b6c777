"""Checks changed vectors: erases them factor by factor, with null erasures and controls next to every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.checks import HELD_OUT
from recprism.cmb.factors.erasure import Erasure, check_features, erase, usual_features
from recprism.cmb.factors.evaluator import METRICS, Evaluator
from recprism.cmb.factors.explanation import Explanation, finite
from recprism.cmb.factors.held_out import divided_users, refitted
from recprism.cmb.factors.nulls import Null, null_erasures
from recprism.cmb.jobs.factors import changed_vectors, explain_factors
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.common.shares import Share, share
from recprism.data.split import Part
from recprism.runs.run import Run


@dataclass(frozen=True, eq=False)
class ErasureReport:
    """Changed vectors under erasure and controls.

    Attributes:
        explanation: Promotion and the rest, controls and verdict, factors.
        erasure: The gain that is left after each number of erased factors.
        nulls: The same for erasures without a meaning.
        held_out: How many held-out users the erasures were judged on; None if all users judged.
        kept: What factors_explanation.json holds in addition, so that the controls serve once more.
    """

    explanation: Explanation
    erasure: Erasure
    nulls: tuple[Null, ...]
    held_out: int | None
    kept: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; factors only under a verdict that holds."""
        found = self.explanation.to_dict()
        claims = ("factors", "together", "nulls", "agreement")
        named = {name: found[name] for name in claims} if self.explanation.says_something else {}
        nulls = [
            {"erased": it.name, "metric": name, "value": value, "remaining": self.erasure.share_left(value, name)}
            for it in self.nulls
            for name, value in it.values.items()
        ]
        plain: dict[str, Any] = finite(
            {
                **{name: found[name] for name in ("objective", "cost", "axes", "base", "after")},
                "held_out_users": self.held_out,
                **{name: found[name] for name in ("parts", "controls", "verdict", "notes")},
                "erasure": self.erasure.to_dict(),
                "nulls": nulls,
                "named": named,
            }
        )
        return plain


@phase("erasing", __name__)
def erase_run(
    run: Run,
    objective: str | None = None,
    *,
    axes: str | None = None,
    top: int = 5,
    features: Sequence[int] | None = None,
    draws: int = 20,
    controls: int = 199,
    part: Part = "test",
    held_out: Share = 0.0,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> ErasureReport:
    """Run erasure and controls on a result that changed vectors.

    Args:
        run: A run with such a result.
        objective: The metric whose gain is in question; the run's own goal by default.
        axes: The axes that factors are named on.
        top: How many factors are named, if the verdict holds.
        features: Numbers of factors that must be on the curve of erasure, in addition to the usual dozen; 5 and 10 by
            default.
        draws: Random orders of erasure, and random directions.
        controls: Draws of each shuffle; 0 runs no controls, and no factor is named.
        part: The part that judges.
        held_out: Share of the users to judge on, after the change is searched for again on the others. 0 erases the
            change as it is, judged on all users; a fifth of the users then judges the controls, where players searched
            for item vectors.
        seed: Of the draws.
        on_step: Receives the progress.

    Raises:
        InputError: If a rule makes the lists, so that no vector changed.
    """
    found, split, categories = changed_vectors(run), run.split(), run.categories()
    change, users = Change.of(found.base_, found.delta_), None
    counts = (*usual_features(change.base.dim), *shown_features(change.base.dim, features))
    hidden = share(held_out, "held_out", 0, 0.9)
    if hidden:
        rows, users = divided_users(split.n_users, hidden, seed)
        change = refitted(found, split, categories, rows)
    explained = explain_factors(
        run,
        objective,
        axes=axes,
        top=top,
        draws=controls,
        part=part,
        seed=seed,
        held_out=hidden or HELD_OUT,
        on_step=on_step,
    )
    wanted = explained.explanation.objective
    names = tuple(dict.fromkeys((wanted, *METRICS)))
    judge = Evaluator.on(split, part, found.base_, categories, names, users)
    return ErasureReport(
        explained.explanation,
        erase(change, judge, wanted, features=counts, draws=draws, seed=seed, on_step=on_step),
        null_erasures(change, judge, draws=draws, seed=seed),
        None if users is None else len(users),
        explained.kept,
    )


def shown_features(dim: int, wanted: Sequence[int] | None) -> list[int]:
    """Return the numbers asked for; by default the paper's 5 and 10, if there are as many factors."""
    for n in wanted or ():
        check_features(n, dim)
    return [n for n in (5, 10) if n <= dim] or [dim] if wanted is None else list(wanted)
