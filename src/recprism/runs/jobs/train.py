"""The main job, step by step on a run directory: load, split, train, recommend, evaluate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism._log import phase
from recprism.budget._popularity import beside_popularity
from recprism.budget.scenario import Scenario
from recprism.data._ids import as_id_array, id_positions, id_series
from recprism.data.dataset import Dataset
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.split import Part, Split
from recprism.errors import BusyError, InputError
from recprism.metrics import PAPER_METRICS, Context, Evaluation, deepest_cut, evaluate, parse
from recprism.models import COSINE, Epoch, Factors, make_model
from recprism.models._settings import choose_device
from recprism.models.registry import Model
from recprism.runs._card import write_card
from recprism.runs._lock import held, writing
from recprism.runs.config import RunConfig
from recprism.runs.jobs._dataset import open_data
from recprism.runs.run import Run
from recprism.runs.stored_path import RunPaths

log = logging.getLogger(__name__)


def start(
    path: str | Path,
    config: RunConfig,
    *,
    overwrite: bool = False,
    on_data: Callable[[Dataset, Split], None] | None = None,
) -> Run:
    """Load and split into a new run; nothing is written before data and model are known to work.

    on_data: receives what was read, once it is kept in the run
    """
    make_model(config.model.name, config.model.preset, **config.model.settings)
    choose_device(config.device)
    dataset, split = divided(config)
    Run(path).require_free(overwrite=overwrite)
    with held(path):
        run = Run.create(path, config, overwrite=overwrite)
        _keep_data(run, dataset, split)
    if on_data is not None:
        on_data(dataset, split)
    return run


def divided(config: RunConfig) -> tuple[Dataset, Split]:
    """What a run of this configuration would hold."""
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
    """Train the run's model from its checkpoint, if it has one, or from the start; the factors are kept in the run."""
    config = run.config

    def follow(epoch: Epoch) -> None:
        run.event("epoch", done=epoch.epoch, total=epoch.epochs, loss=epoch.loss, validation=epoch.validation)
        if on_epoch is not None:
            on_epoch(epoch)

    if not run.has_data():  # stopped before it was written
        _keep_data(run, *divided(config))
    split = run.split()
    factors = _model_for(config, split).fit(
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
    run.drop_checkpoint()
    run.event("trained", **{name: value for name, value in factors.settings.items() if not isinstance(value, dict)})
    write_card(run)
    return factors


def _model_for(config: RunConfig, split: Split) -> Model:
    """The model that was asked for; without a validation part it trains all epochs, unless a patience was named."""
    settings = dict(config.model.settings)
    model = make_model(config.model.name, config.model.preset, **settings)
    if len(split.validation) or "patience" in settings or getattr(model, "patience", None) is None:
        return model
    log.warning("the split has no validation part, so that training runs through all epochs")
    return make_model(config.model.name, config.model.preset, **settings, patience=None)


def scenario_of(run: Run, part: Part = "test") -> Scenario:
    """The trained model of a run about to serve lists that ``part`` judges: what audits and searches start from."""
    return Scenario(run.factors(), run.split(), run.subtopics(), part, store=RunPaths(run))


@phase("ranking", __name__)
def recommend(
    run: Run, k: int, *, part: Part = "test", users: Sequence[Any] | None = None, base: bool = False
) -> pl.DataFrame:
    """Lists as a long table user_id, item_id, rank (from 1), score; what was seen before ``part`` is left out.

    A diversified run gives its perturbed lists, or with ``base`` those of the model it started from.
    """
    factors, split = run.served_factors(base=base), run.split()
    rows = rows_of(factors, users)
    items, scores = factors.rank(k, exclude=split.seen_before(part), users=rows)
    return lists_to_frame(factors, rows, items, scores)


def rows_of(factors: Factors, users: Sequence[Any] | None) -> NDArray[np.int64]:
    """(n,) row numbers of user ids; all of them for None."""
    if users is None:
        return np.arange(factors.n_users)
    return id_positions(as_id_array(users, "user", distinct=False), factors.user_ids, "user")


def lists_to_frame(factors: Factors, users: NDArray[Any], items: NDArray[Any], scores: NDArray[Any]) -> pl.DataFrame:
    """(n, k) item numbers, -1 where nothing is left, as a long table."""
    filled = items >= 0
    rank = np.broadcast_to(np.arange(1, items.shape[1] + 1), items.shape)
    owner = np.broadcast_to(users[:, None], items.shape)
    return pl.DataFrame(
        {
            "user_id": id_series(factors.user_ids[owner[filled]]),
            "item_id": id_series(factors.item_ids[items[filled]]),
            "rank": rank[filled].astype(np.int32),
            "score": scores[filled],
        }
    )


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
    """Rank for all users and judge the lists on ``part``; distances are taken on the unperturbed item factors.

    Every row has the popularity baseline beside it.

    The run's card takes the figures up if they have intervals; a glance without them (``bootstrap=0``) leaves it alone.
    """
    step = count_steps(on_step, "measuring", 3)
    with run.unchanged() as saving:
        factors, split = run.served_factors(base=base), run.split()
        if any("relevant" in parse(name)[0].needs for name in metrics or ()):
            split.require_labels(part, "accuracy")
        items, _ = factors.rank(deepest_cut(metrics), exclude=split.seen_before(part))
        step()
        context = Context.from_split(split, part, subtopics=run.subtopics(), vectors=run.factors().item)
        result = evaluate(items, context, metrics, bootstrap=bootstrap, users=factors.user_ids, seed=seed)
        step()
        result = beside_popularity(result, split, part, context)
        step()
        if bootstrap:
            whose = "diversified lists" if run.is_diversified() and not base else "lists of the trained model"
            with suppress(BusyError), saving():  # whoever holds the lock writes the card anew
                write_card(run, result.to_frame(), f"The {whose}, judged on the {part} part.")
    return result


def metric_names(words: str | None) -> tuple[str, ...] | None:
    """From ``ndcg@10,gini@20`` to names that exist; ``paper`` stands for the columns of the paper's tables."""
    if words is None:
        return None
    names = (
        PAPER_METRICS if words.strip() == "paper" else tuple(word.strip() for word in words.split(",") if word.strip())
    )
    for name in names:
        parse(name)
    return names


def part_named(word: str) -> Literal["test", "validation"]:
    parts: dict[str, Literal["test", "validation"]] = {"test": "test", "validation": "validation"}
    if word not in parts:
        raise InputError(f"lists are judged on test or validation, not on {word!r}")
    return parts[word]
