"""Checks a run's change: erases it factor by factor, and compares it with controls, also on held-out users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism._log import phase
from recprism.data.progress import ProgressCallback
from recprism.data.shares import Share, share
from recprism.data.split import Part
from recprism.explain.factors._held_out import divided_users, learned_promotion, refitted
from recprism.explain.factors.change import Change
from recprism.explain.factors.controls import Controls, run_controls
from recprism.explain.factors.erasure import Erasure, erase, usual_features
from recprism.explain.factors.evaluator import METRICS, Evaluator
from recprism.explain.factors.parts import Parts, bias_and_rest
from recprism.explain.factors.verdict import Verdict
from recprism.metrics.registry import metric_name
from recprism.runs.run import Run


@dataclass(frozen=True, eq=False)
class ErasureReport:
    """A change under erasure and controls.

    Attributes:
        objective: The metric whose gain is in question.
        parts: What plain promotion of items and the rest contribute.
        erasure: The gain that is left after each number of erased factors.
        controls: What randomised changes reach; None without controls.
        verdict: Whether the change beats the controls; None without controls.
        held_out: How many held-out users were judged; None if all users were judged.

    Stability: experimental.
    """

    objective: str
    parts: Parts
    erasure: Erasure
    controls: Controls | None
    verdict: Verdict | None
    held_out: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {
            "objective": self.objective,
            "held_out_users": self.held_out,
            "parts": self.parts.to_dict(),
            "erasure": self.erasure.to_dict(),
            "controls": None if self.controls is None else self.controls.to_dict(),
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
        }


@phase("erasing", __name__)
def erase_run(
    run: Run,
    objective: str | None = None,
    *,
    features: Sequence[int] | None = None,
    draws: int = 20,
    controls: int = 199,
    part: Part = "test",
    held_out: Share = 0.0,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> ErasureReport:
    """Run erasure and controls on a diversified run.

    Args:
        run: A diversified run.
        objective: The metric whose gain is in question; the run's own goal by default.
        features: Numbers of factors that must be on the curve of erasure, in addition to the usual dozen; 5 and 10 by
            default.
        draws: Random orders of erasure.
        controls: Draws of each shuffle; 0 runs no controls.
        part: The part that judges.
        held_out: Share of the users to judge on, after the change is searched for again on the others. 0 judges all
            users with the change as it is.
        seed: Of the draws.
        on_step: Receives the progress.

    Stability: experimental.
    """
    found, split, subtopics = run.diversified(), run.split(), run.subtopics()
    wanted = metric_name(objective or found.objective)
    users = None
    change = Change.of(found.base, found.change)
    rows = np.arange(split.n_users)
    hidden = share(held_out, "held_out", 0, 0.9)
    if hidden:
        rows, users = divided_users(split.n_users, hidden, seed)
        change = refitted(found, split, subtopics, rows)
    names = tuple(dict.fromkeys((wanted, *METRICS)))
    judge = Evaluator.on(split, part, found.base, subtopics, names, users, found.constraints)
    learn = partial(learned_promotion, found.base, split, subtopics, rows)
    return run_erasure(
        change,
        judge,
        wanted,
        features=features,
        draws=draws,
        controls=controls,
        candidates=learn,
        seed=seed,
        on_step=on_step,
    )


def run_erasure(
    change: Change,
    judge: Evaluator,
    objective: str,
    *,
    features: Sequence[int] | None = None,
    draws: int = 20,
    controls: int = 199,
    candidates: Callable[[str], Mapping[str, NDArray[Any]]] | None = None,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> ErasureReport:
    """Run erasure and controls on a change.

    Args:
        change: The change of vectors.
        judge: Evaluates lists.
        objective: The metric whose gain is in question.
        features: As in :func:`erase_run`.
        draws: Random orders of erasure.
        controls: Draws of each shuffle; 0 runs no controls.
        candidates: Maps the objective to name -> ``(n_items,)`` numbers that plain promotion may use.
        seed: Of the draws.
        on_step: Receives the progress.
    """
    counts = (*usual_features(change.base.dim), *shown_features(change.base.dim, features))
    curves = erase(change, judge, objective, features=counts, draws=draws, seed=seed, on_step=on_step)
    found = None
    if controls:
        offered = None if candidates is None else candidates(objective)
        found = run_controls(
            change,
            judge,
            objective,
            draws=controls,
            seed=seed,
            on_step=on_step,
            candidates=offered,
            unseen=judge.users is not None,
        )
    return ErasureReport(
        curves.objective,
        bias_and_rest(change, judge),
        curves,
        found,
        None if found is None else Verdict.of(found),
        None if judge.users is None else len(judge.users),
    )


def shown_features(dim: int, wanted: Sequence[int] | None) -> list[int]:
    """Return the numbers asked for; by default the paper's 5 and 10, if there are as many factors."""
    return [n for n in (5, 10) if n <= dim] or [dim] if wanted is None else list(wanted)
