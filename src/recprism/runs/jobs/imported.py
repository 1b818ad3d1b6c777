"""Run directories for models that were trained elsewhere: all commands and pages work for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import find_ids, id_positions, show
from recprism.common.log import phase
from recprism.data.dataset import Dataset
from recprism.data.labels import GIVEN, SET_ASIDE
from recprism.data.split import METHODS, Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters.scores import SCORES, ScoredCandidates
from recprism.models.factors import INNER_PRODUCT
from recprism.runs.card import write_card
from recprism.runs.config import DataConfig, ModelConfig, RunConfig, SplitConfig
from recprism.runs.lock import held
from recprism.runs.run import Run

log = logging.getLogger(__name__)
IMPORTED = "imported"


def run_from_factors(
    path: str | Path, factors: Factors, dataset: Dataset, split: Split, *, overwrite: bool = False
) -> Run:
    """Make a run that holds ``factors`` as its trained model.

    Users and items that the model does not know are left out of the run, with their interactions. The run's events and
    the log count them.

    Args:
        path: The run directory to make.
        factors: From any adapter; rows are found by id, in any order.
        dataset: The data.
        split: Of ``dataset``. The model must have been fitted to its training part alone; otherwise certificates are
            wrong.
        overwrite: Replace a run that is there.

    Raises:
        InputError: If the split is not of the data set, or if the ids of the model are unknown.
    """
    if split.item_ids.tolist() != dataset.interactions.item_ids.tolist():
        raise InputError(
            f"the split has {split.n_items:,} items and the data set {dataset.interactions.n_items:,}, not the same "
            "ones; pass the data set that the split was made of"
        )
    users = known_ids(split.user_ids, factors.user_ids, "user")
    items = known_ids(split.item_ids, factors.item_ids, "item")
    left_out = {"users": split.n_users - len(users), "items": split.n_items - len(items)}
    split = split.of_users(users).of_items(items)
    known = replace(dataset, categories=dataset.categories.take_items(items), attributes=dataset.attributes[items])
    if any(left_out.values()):
        log.warning("%s: the model does not know %s users and %s items; left out", path, *left_out.values())
    return write_run(path, factors, known, split, {"left_out": left_out}, overwrite=overwrite)


@phase("writing the run", __name__)
def write_run(
    path: str | Path,
    base: Factors | ScoredCandidates,
    dataset: Dataset,
    split: Split,
    facts: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> Run:
    """Make a run of a model, data and split that fit together; ``facts`` are written into its event "imported"."""
    Run(path).require_free(overwrite=overwrite)
    with held(path):
        run = Run.create(path, _config(base, dataset, split), overwrite=overwrite)
        with run.discarded_on_failure():
            run.save_data(dataset, split)
            run.event("data", name=dataset.name, **dataset.stats())
            run.save_factors(aligned(base, split) if isinstance(base, Factors) else base)
            run.event("imported", model=_name(base), **facts)
            write_card(run)
            run.commit()
    return run


def aligned(factors: Factors, split: Split) -> Factors:
    """Return the same recommender with its rows in the order of the split's users and items.

    Raises:
        InputError: If a user or an item of the split has no vector.
    """
    of_users = factors.of_users(id_positions(split.user_ids, factors.user_ids, "user"))
    found = of_users.of_items(id_positions(split.item_ids, factors.item_ids, "item"))
    return replace(found, user_ids=split.user_ids, item_ids=split.item_ids)  # "7" becomes 7 if the split has 7


def known_ids(wanted: NDArray[Any], known: NDArray[Any], side: str) -> NDArray[np.int64]:
    """Return ``(n,)`` positions of the wanted ids that are known; without any, the ids are of different kinds."""
    found = np.flatnonzero(find_ids(wanted, known) >= 0)
    if not len(found):
        raise InputError(
            f"the model knows no {side} of the split: its {side} ids are such as {show(known[0])}, the split's such as "
            f"{show(wanted[0])}; give the adapter the {side} ids that the data have"
        )
    return found


def _name(base: Factors | ScoredCandidates) -> str:
    return str(base.settings.get("model", IMPORTED)) if isinstance(base, Factors) else SCORES


def _config(base: Factors | ScoredCandidates, dataset: Dataset, split: Split) -> RunConfig:
    method = split.settings.get("method")
    shares = {name: split.settings[name] for name in ("validation", "test") if name in split.settings}
    return RunConfig(
        data=DataConfig(source=dataset.name),
        split=SplitConfig.model_validate({"method": method if method in (*METHODS, SET_ASIDE) else GIVEN, **shares}),
        model=ModelConfig.model_validate(
            {
                "name": _name(base),
                "preset": IMPORTED,
                "metric": base.metric if isinstance(base, Factors) else INNER_PRODUCT,
            }
        ),
    )
