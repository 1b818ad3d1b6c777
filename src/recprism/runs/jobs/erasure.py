"""Checking a run's perturbation: erase it bit by bit, set it beside its controls, on users it may never have seen."""

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
from recprism.explain._held_out import divided_users, learned_promotion, refitted
from recprism.explain.change import Change
from recprism.explain.controls import Controls, run_controls
from recprism.explain.erasure import Erasure, erase, usual_features
from recprism.explain.evaluator import METRICS, Evaluator, metric_name
from recprism.explain.parts import Parts, bias_and_rest
from recprism.explain.verdict import Verdict
from recprism.runs.run import Run


@dataclass(frozen=True, eq=False)
class ErasureReport:
    """What became of a perturbation under erasure and controls.

    held_out: how many users were judged, none of whom the perturbation had seen; None where all were judged
    controls, verdict: None where no controls were asked for
    """

    objective: str
    parts: Parts
    erasure: Erasure
    controls: Controls | None
    verdict: Verdict | None
    held_out: int | None = None

    def to_dict(self) -> dict[str, Any]:
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
    """Erasure and controls of a diversified run.

    objective: the metric whose gain is in question; what the run was diversified for unless named
    features: numbers that must be on the curve of erasure, beside the usual dozen; 5 and 10 unless named
    controls: draws of each shuffle, 0 for no controls
    held_out: share of the users to judge on, with the perturbation searched for again on the others; 0 judges all users
        under the perturbation as it is
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
    judge = Evaluator.on(split, part, found.base, subtopics, tuple(dict.fromkeys((wanted, *METRICS))), users)
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
    """candidates: from the objective to numbers per item that plain promotion may use, by name."""
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
    """What was asked for, or the paper's 5 and 10 as far as there are so many factors."""
    return [n for n in (5, 10) if n <= dim] or [dim] if wanted is None else list(wanted)
