"""Checking a run's perturbation: erase it bit by bit, set it beside its controls, on users it may never have seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb import CMB
from recprism.cmb._settings import BAKED
from recprism.data.progress import ProgressCallback
from recprism.data.shares import Share, share
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.explain._promotion import with_bias_column
from recprism.explain.change import Change
from recprism.explain.controls import Controls, run_controls
from recprism.explain.erasure import Erasure, erase, usual_features
from recprism.explain.evaluator import METRICS, Evaluator, metric_name
from recprism.explain.parts import Parts, bias_and_rest
from recprism.explain.verdict import Verdict
from recprism.metrics import parse
from recprism.models import Factors
from recprism.runs.run import Run

Rows = NDArray[np.int64]

DEFAULT_OBJECTIVE = "subtopic_coverage@10"
# Promotion is a rival, and must be a strong one: on ML-1M now this, now that of the two goes further.
PROMOTERS: dict[str, dict[str, float]] = {
    "one number per item, short reach": {"max_step": 0.05, "relevance": 0.7},
    "one number per item, long reach": {"max_step": 0.5, "relevance": 0.5},
}


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
    model, split, subtopics = run.cmb(), run.split(), run.subtopics()
    wanted = metric_name(objective or own_objective(model))
    users = None
    change = Change.of(model.base_, model.delta_)
    rows = np.arange(split.n_users)
    hidden = share(held_out, "held_out", 0, 0.9)
    if hidden:
        rows, users = divided_users(split.n_users, hidden, seed)
        change = refitted(model, split, subtopics, rows)
    judge = Evaluator.on(split, part, model.base_, subtopics, tuple(dict.fromkeys((wanted, *METRICS))), users)
    learn = partial(learned_promotion, model.base_, split, subtopics, rows)
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


def divided_users(n_users: int, held_out: float, seed: int = 0) -> tuple[Rows, Rows]:
    """Row numbers of the users to learn on, and of those to judge on, each rising."""
    if not 0 < held_out < 1:
        raise InputError(f"{held_out} of the users cannot be held out; name a share between 0 and 1, such as 0.2")
    order = np.random.default_rng([seed, n_users]).permutation(n_users)
    n_judged = min(max(round(held_out * n_users), 1), n_users - 1)
    return np.sort(order[n_judged:]), np.sort(order[:n_judged])


def refitted(model: CMB, split: Split, subtopics: Subtopics | None, rows: Rows, *, seed: int | None = None) -> Change:
    """The same search on some of the users; its change of the item vectors then serves everybody."""
    if model.credit == BAKED:
        raise InputError("users can be held out of a search by players only; this perturbation was baked from lists")
    if model.side != "item":
        raise InputError(f"side={model.side}: users that were never seen have no change of their own; use side=item")
    base = model.base_
    settings = {**model.settings(), **({} if seed is None else {"seed": seed})}
    again = CMB(**settings).fit(base.of_users(rows), split.of_users(rows), subtopics)
    return Change.of(base, again.delta_)


def learned_promotion(
    base: Factors, split: Split, subtopics: Subtopics | None, rows: Rows, objective: str
) -> dict[str, NDArray[Any]]:
    """name -> (n_items,) learned on some of the users by players that have one number per item; nothing where the
    objective needs labels and the split has none to learn from."""
    metric, cut = parse(objective)
    start = with_bias_column(base).of_users(rows)
    settings: dict[str, Any] = {} if cut is None else {"k": cut}
    needs_labels = not {"relevant", "user_subtopics"}.isdisjoint(metric.needs)
    if not len(split.validation):
        if needs_labels:
            return {}
        settings["reward_on"] = "test"  # what is left out of the lists; no label is looked at
    return {
        name: _learned_numbers(start, split.of_users(rows), subtopics, metric.name, {**settings, **promoter})
        for name, promoter in PROMOTERS.items()
    }


def _learned_numbers(
    start: Factors, split: Split, subtopics: Subtopics | None, goal: str, settings: dict[str, Any]
) -> NDArray[Any]:
    """(n_items,) of players on the last factor alone."""
    model = CMB(diversity=goal, only=(start.dim - 1,), scaling="global", **settings).fit(start, split, subtopics)
    return model.factors_.item[:, -1]


def own_objective(model: CMB) -> str:
    """What the run was diversified for, at 10; the first of several, and SC where it is no metric's name."""
    goal = model.settings()["diversity"]
    first = next(iter(goal)) if isinstance(goal, Mapping) else str(goal).partition("+")[0]
    try:
        return f"{parse(first)[0].name}@10"
    except InputError:
        return DEFAULT_OBJECTIVE
