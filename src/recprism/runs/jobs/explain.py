"""Explains the lists of a run, and keeps the explanation in short."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.common.version import __version__
from recprism.data.split import Part
from recprism.explain.choice.fit import DRAWS
from recprism.explain.explained import ExplainedLists, ExplanationInShort
from recprism.runs.run import Run

KEPT = "in_short"  # in explanation.json


def facts_to_keep(found: ExplainedLists, *, part: str, draws: int, seed: int) -> dict[str, Any]:
    """Return what explanation.json holds."""
    in_short = {"asked": _question(part, draws, seed), **asdict(found.in_short())}
    return {**found.to_dict(), "part": part, KEPT: in_short}


def kept_in_short(run: Run, *, part: str, draws: int, seed: int) -> ExplanationInShort | None:
    """Return what the last `recprism explain` kept, if it answered just this; else None."""
    kept = (run.explanation() or {}).get(KEPT)
    if not isinstance(kept, dict) or kept.pop("asked", None) != _question(part, draws, seed):
        return None
    lists: dict[str, Any] = {name: tuple(kept.pop(name)) for name in ("sentences", "categories")}
    return ExplanationInShort(**lists, **kept)


def _question(part: str, draws: int, seed: int) -> dict[str, Any]:
    return {"part": part, "draws": draws, "seed": seed, "recprism": __version__}


@phase("explaining", __name__)
def explain_run(
    run: Run, *, part: Part = "test", draws: int = DRAWS, seed: int = 0, on_step: ProgressCallback | None = None
) -> ExplainedLists:
    """Explain the judged lists of a run.

    Args:
        run: A diversified run.
        part: The part that the lists are made for.
        draws: Draws of each shuffle of categories; 0 runs none.
        seed: Of the choice model.
        on_step: Receives progress.

    Raises:
        InputError: If the run has no result.
    """
    return run.load_result(part).explain(draws=draws, seed=seed, on_step=on_step)
