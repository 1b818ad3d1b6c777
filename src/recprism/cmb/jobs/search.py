"""Searches with players in a run, and writes the change of its vectors."""

from __future__ import annotations

from collections.abc import Callable

from recprism.budget.problem import Problem, Ranker
from recprism.cmb import CMB, Step
from recprism.cmb.controls import control_perturbations
from recprism.cmb.history import Progress
from recprism.common.log import phase
from recprism.errors import InputError
from recprism.result.result import Result
from recprism.runs.card import BEFORE, write_card
from recprism.runs.config import DiversifyConfig
from recprism.runs.lock import writing
from recprism.runs.parts.stage import SEARCH
from recprism.runs.run import Run


@writing
def begin_search(run: Run, asked: DiversifyConfig, *, overwrite: bool = False) -> Run:
    """Return a copy of the run in which :func:`search` can begin; the run itself does not change.

    Args:
        run: A trained run.
        asked: The settings of the search.
        overwrite: Replace the result that is there when the search has ended.

    Raises:
        InputError: If the run has a result, or an unfinished search for it, that may not be replaced.
    """
    run.require_undiversified(overwrite=overwrite)
    staged = run.staged()
    with staged.discarded_on_failure():
        staged.set_diversify(asked)
        staged.keep_for(SEARCH)
    return staged


def interrupted_search(run: Run) -> Run:
    """Return the copy of the run in which an interrupted search continues.

    Raises:
        InputError: If there is none, or if the model of the run has changed since it began.
    """
    staged = run.unfinished(SEARCH)
    if staged is None:
        raise InputError(
            f"{run.path}: nothing was interrupted in this run; start a search with `recprism search {run.argument}`"
        )
    if staged.fingerprint() != run.fingerprint():
        raise InputError(
            f"{run.path}: its model has changed since the search began; start the search again with "
            f"`recprism search {run.argument} --overwrite`"
        )
    return staged


@writing
@phase("searching", __name__)
def search(run: Run, on_step: Callable[[Step], None] | None = None) -> CMB:
    """Search with players as the run's configuration says, from the checkpoint of an interrupted search or the start.

    Args:
        run: From :func:`begin_search` or :func:`interrupted_search`. At the end, it becomes the run.
        on_step: Called after every iteration.

    Raises:
        InputError: If no search was configured.
    """
    wanted = run.config.diversify
    if wanted is None:
        raise InputError(f"{run.path}: no search was started in this run; run `recprism search {run.argument}`")
    with run.discarded_on_failure():
        model = _fitted(run, wanted, on_step)
        run.save_result(Result.of_vectors(run.problem(), model.changed()))
        run.event("diversified", iterations=len(model.history_), converged=model.converged_)
        write_card(run, about=BEFORE)
        run.commit()
        run.drop_checkpoint("search")
    return model


def _fitted(run: Run, wanted: DiversifyConfig, on_step: Callable[[Step], None] | None) -> CMB:
    """Search, and keep a checkpoint of every step in the run."""
    model = CMB.preset(wanted.preset, seed=run.config.seed, device=run.config.device, **wanted.settings)
    stored, resume = run.load_checkpoint("search"), None
    if stored is not None:
        resume = Progress.from_json(stored[1]["steps"], stored[0], stored[1].get("checkpoint_key"))

    def follow(progress: Progress) -> None:
        facts = {"steps": progress.to_json(), "checkpoint_key": dict(progress.checkpoint_key)}
        run.save_checkpoint(progress.arrays, facts, "search")
        step = progress.steps[-1]
        sampled = {} if step.users is None else {"error": step.error, "users": step.users}
        run.event("step", done=step.iteration + 1, total=model.iterations, psi=step.psi, reward=step.reward, **sampled)
        if on_step is not None:
            on_step(step)

    return model.fit(run.factors(), run.split(), run.categories(), follow=follow, resume=resume)


def require_goals(model: CMB, run: Run) -> None:
    """Refuse unknown goals, and goals of categories if the run has none, before anything is written."""
    model.require_known_goals()
    model.require_items(run.split().n_items)
    if "categories" in model.objective.needs and not len(run.categories()):
        raise InputError(
            f"{run.path}: {model.objective.name} needs categories of the items and there are none; choose "
            "--goal ilad or catalogue_coverage, or make the run again with --items FILE --category-column NAME"
        )


def random_changes(found: Result, seed: int) -> dict[str, tuple[Ranker, Problem]]:
    """Return the controls of changed vectors, for :func:`recprism.result.effect.effect`.

    The change is permuted, and replaced by noise of its size.
    """
    assert found.vectors is not None
    base, reach = found.vectors.base, float(found.vectors.settings["max_step"])
    drawn = control_perturbations(base, found.vectors.change, reach, seed)
    return {name: (it.applied_to(base), found.problem) for name, it in drawn.items()}
