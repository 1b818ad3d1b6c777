"""The steps of a run: load, split, train, recommend, evaluate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import polars as pl
from numpy.typing import NDArray

from recprism.budget.popularity import with_popularity
from recprism.budget.problem import Lists, Problem
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback, count_steps
from recprism.data.dataset import Dataset
from recprism.data.split import Part, Split
from recprism.errors import BusyError, InputError, StorageError
from recprism.forms.live import LiveFigures, live_figures
from recprism.metrics import Evaluation
from recprism.metrics.registry import parse, with_gini
from recprism.metrics.suite import PAPER_METRICS, require_context
from recprism.models import Factors
from recprism.models.factors import COSINE
from recprism.models.registry import Model, make_model
from recprism.models.settings import choose_device
from recprism.models.training import Epoch
from recprism.result.lists import lists_to_frame
from recprism.runs.card import write_card
from recprism.runs.config import RunConfig
from recprism.runs.jobs.dataset import open_data
from recprism.runs.lock import held, writing
from recprism.runs.run import Run

log = logging.getLogger(__name__)


def start(
    path: str | Path,
    config: RunConfig,
    *,
    overwrite: bool = False,
    on_data: Callable[[Dataset, Split], None] | None = None,
) -> Run:
    """Load and split data into a new run; nothing is written before data and model are known to work.

    A run that is replaced stays as it is until :func:`train` has ended.

    Args:
        path: The run directory to make.
        config: What is asked of the run.
        overwrite: Replace a run that is there.
        on_data: Receives the data and their split after they are written.
    """
    make_model(config.model.name, config.model.preset, **config.model.settings)
    choose_device(config.device)
    dataset, split = divided(config)
    _model_for(config, split).require_fit(split, device=config.device)
    Run(path).require_free(overwrite=overwrite)
    with held(path):
        run = Run.create(path, config, overwrite=overwrite)
        with run.discarded_on_failure():
            _keep_data(run, dataset, split)
    if on_data is not None:
        on_data(dataset, split)
    return run


def divided(config: RunConfig) -> tuple[Dataset, Split]:
    """Load and split the data that a configuration names."""
    dataset = open_data(config.data)
    with phase("splitting the data", __name__):
        return dataset, dataset.split(config.split.method, seed=config.seed, **config.split.options())


@phase("writing the data", __name__)
def _keep_data(run: Run, dataset: Dataset, split: Split) -> None:
    run.save_data(dataset, split)
    run.event("data", name=dataset.name, **dataset.stats())


@writing
@phase("training", __name__)
def train(run: Run, on_epoch: Callable[[Epoch], None] | None = None) -> Factors:
    """Train the run's model, from its checkpoint if it has one, and write the vectors into the run.

    Args:
        run: A run that was started.
        on_epoch: Called after every epoch.
    """
    config = run.config

    def follow(epoch: Epoch) -> None:
        run.event("epoch", done=epoch.epoch, total=epoch.epochs, loss=epoch.loss, validation=epoch.validation)
        if on_epoch is not None:
            on_epoch(epoch)

    with run.discarded_on_failure():
        if not run.has_data():  # it was stopped before they were written
            _keep_data(run, *divided(config))
        split = run.split()
        model = _model_for(config, split)
        if not len(split.validation) and getattr(model, "patience", None) is None:
            log.warning("the split has no validation part, so training runs all epochs")
        factors = model.fit(
            split,
            seed=config.seed,
            device=config.device,
            progress=follow,
            checkpoint=run.save_checkpoint,
            resume=run.load_checkpoint(),
        )
        if config.model.metric == COSINE:
            factors = factors.on_sphere()
        run.save_factors(factors)
        run.event("trained", **{name: value for name, value in factors.settings.items() if not isinstance(value, dict)})
        write_card(run)
        run.commit()
        run.drop_checkpoint()
    return factors


def _model_for(config: RunConfig, split: Split) -> Model:
    """Make the model. Without a validation part it trains all epochs, unless a patience is set."""
    settings = dict(config.model.settings)
    model = make_model(config.model.name, config.model.preset, **settings)
    if len(split.validation) or "patience" in settings or getattr(model, "patience", None) is None:
        return model
    return make_model(config.model.name, config.model.preset, **settings, patience=None)


@phase("ranking", __name__)
def recommend(
    run: Run,
    k: int,
    *,
    users: Sequence[Any] | None = None,
    live: bool = True,
    part: Part = "test",
    base: bool = False,
    allow_violations: bool = False,
    on_step: ProgressCallback | None = None,
) -> tuple[pl.DataFrame, LiveFigures | None]:
    """Make the lists of a run, under the constraints of its result.

    Args:
        run: A trained run.
        k: Length of the lists.
        users: Ids of the users; all of them by default.
        live: Whether all known interactions count as seen; else those before ``part``.
        part: The part that judged lists are made for.
        base: Use the trained model, also if the run is diversified.
        allow_violations: Return lists that cannot keep a constraint, too.
        on_step: Receives progress.

    Returns:
        A long table user_id, item_id, rank (from 1), score; and figures of live lists. Places are counted in these
        lists; the gain is that of the lists of all users.

    Raises:
        ConstraintError: If a list cannot keep a constraint, and neither the run nor the argument allows it.
    """
    step = count_steps(on_step, "making lists", 2)
    result = run.model_or_result(part, base=base)
    problem, rows = result.context(live=live), result.rows_of(users)
    some = None if users is None else rows
    items, scores = problem.rank(result.model, k, users=some)
    _require_kept(run, problem, items, some, allow_violations)
    step()
    figures = None
    if live:
        certified = None if result.certificate is None else result.certificate.part or part
        objective = result.objective if result.is_changed else None
        figures = live_figures(problem, result.model, rows, items, objective, certified)
    step()
    return lists_to_frame(problem.base, rows, items, scores), figures


def _require_kept(run: Run, problem: Problem, items: Lists, users: NDArray[Any] | None, allow_violations: bool) -> None:
    """Refuse lists that cannot keep a constraint, unless the run or the caller allows them."""
    found = problem.violations(items, users=users)
    if found is not None and not found.none:
        if not allow_violations and not run.constraints.allow_violations:
            found.require_none()
        log.warning("%s", found.sentence())


@phase("ranking and measuring", __name__)
def evaluate_run(
    run: Run,
    metrics: Sequence[str] | None = None,
    *,
    part: Part = "test",
    bootstrap: int = 1000,
    base: bool = False,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> Evaluation:
    """Evaluate the lists of all users, with the popularity baseline in every row.

    Distances between items use the vectors of the trained model. If there are intervals, the run's card is written
    again with the figures.

    Args:
        run: A trained run.
        metrics: Names with cuts; the usual ones by default.
        part: The part that judges.
        bootstrap: Resamples of the intervals; 0 for no intervals.
        base: Use the trained model, also if the run is diversified.
        seed: Of the resamples.
        on_step: Receives the progress.

    Raises:
        InputError: If a metric needs labels that the part does not have.
    """
    step = count_steps(on_step, "measuring", 3)
    with run.unchanged() as saving:
        found = run.model_or_result(part, base=base)
        problem = found.problem
        if any("relevant" in parse(name)[0].needs for name in metrics or ()):
            problem.split.require_labels(part, "accuracy")
        step()
        result = problem.evaluate(found.model, metrics, bootstrap=bootstrap, seed=seed)
        step()
        result = with_popularity(result, problem.split, part, problem.context, hidden=problem.hidden)
        step()
        if bootstrap:
            whose = "diversified lists" if run.is_diversified() and not base else "lists of the trained model"
            with suppress(BusyError, StorageError), saving():  # the process that holds the lock writes the card
                write_card(run, result.to_frame(), f"The {whose}, judged on the {part} part.")
    return result


def metric_names(words: str | None) -> tuple[str, ...] | None:
    """Return the metrics that a text such as ``ndcg@10,gini@20`` names; ``paper`` means those of the paper's tables."""
    if words is None:
        return None
    names = (
        PAPER_METRICS if words.strip() == "paper" else tuple(word.strip() for word in words.split(",") if word.strip())
    )
    if not names:
        raise InputError(f"{words!r} names no metric; write names with commas between, as in ndcg@10,sc@20")
    for name in names:
        parse(name)
    return with_gini(names)


def require_measurable(run: Run, names: Sequence[str] | None) -> None:
    """Refuse metrics that need what a run does not have, before labels are asked for the lists."""
    if names is not None:
        require_context(names, run.problem().context)


def part_named(word: str) -> Literal["test", "validation"]:
    """Return the part of a name; the training part judges no lists."""
    parts: dict[str, Literal["test", "validation"]] = {"test": "test", "validation": "validation"}
    if word not in parts:
        raise InputError(f"lists are judged on test or validation, not on {word!r}")
    return parts[word]
