"""The cases of the contest: data, split and base model, with the files that keep trained models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contest.base_models.exchange import read_model
from contest.base_models.second_stage import second_stage
from contest.base_models.tuned import train
from recprism.budget.problem import Problem
from recprism.common.files import atomic_path
from recprism.data.split import Part, Split
from recprism.models import Factors
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.factors import COSINE

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset

NOT_RANDOM = ("ease",)  # the same bits for every seed
NEW_SEEDS = 200  # first seed of the random splits: test parts of earlier ones were read before


@dataclass(frozen=True)
class World:
    """A data set, a base model and the method of the split.

    Attributes:
        dataset: Name of the data set.
        model: Name of the base model; with "+history", a second stage over it that knows history and popularity.
        split: Method of the split.
        trained: How many seeds of the base model there are.
    """

    dataset: str
    model: str
    split: str = "random"
    trained: int = 5

    @property
    def seeds(self) -> int:
        """How many seeds there are at most. EASE on a split in time has no random part, so it has one."""
        return 1 if self.model in NOT_RANDOM and self.split != "random" else self.trained

    @property
    def slug(self) -> str:
        """Name of the folder."""
        return f"{self.dataset}-{self.model}-{self.split}"


GRID = (
    *(World("ml-1m", model, "user-temporal") for model in ("bprmf", "bprmf+history", "lightgcn", "als", "ease")),
    World("ml-1m", "sasrec", "user-temporal", trained=4),
    World("ml-1m", "bprmf", "temporal"),
    *(World("amazon-cds-2014", model, "user-temporal") for model in ("bprmf", "ease")),
    *(World("hetrec2011-lastfm-2k", model) for model in ("bprmf", "ease")),
)
"""The worlds of the contest. docs/frontier.md says which of them have been run."""


class Case:
    """One seed of a world: its split, its model and the problems of its parts.

    The model is trained once and kept in the folder of the case, as ``model.safetensors`` with ``model.json``
    (:meth:`recprism.models.Factors.save`), or as ``model.npz`` with ``items`` and ``scores``. A model that was trained
    elsewhere, on the same split, can be put there. Files ``models-*.npz`` of ``benchmarks/contest_models.py``,
    anywhere in the folder of the contest, are looked at before a model is trained.

    Args:
        world: The world.
        seed: Number of the case. At random, split and model have the seed 200 + number. A split in time is the same
            in all cases, and the model has the number as its seed.
        dataset: Its data set.
        folder: Folder of the contest.
        device: Device of the training.
    """

    def __init__(self, world: World, seed: int, dataset: Dataset, folder: Path, device: str = "auto") -> None:
        self.world, self.seed, self.dataset, self.device = world, seed, dataset, device
        self.contest, self.folder = folder, folder / world.slug / f"seed-{seed}"

    @cached_property
    def split(self) -> Split:
        """The split of the case."""
        return self.dataset.split(self.world.split, seed=self._model_seed if self.world.split == "random" else 0)

    @property
    def _model_seed(self) -> int:
        return NEW_SEEDS + self.seed if self.world.split == "random" else self.seed

    @cached_property
    def model(self) -> Factors | ScoredCandidates:
        """The model, read from the folder; it is trained and written if it is not there."""
        found = self._read("model") or self._trained()
        if self._read("model") is None:
            self._write("model", found)
        return found

    def _trained(self) -> Factors | ScoredCandidates:
        split, dataset, seed = self.split, self.world.dataset, self._model_seed
        name, _, second = self.world.model.partition("+")
        model = read_model(self.contest, dataset, name, split, seed)
        found = model or train(name, split, dataset=dataset, seed=seed, device=self.device)
        if not second:
            return found
        assert isinstance(found, Factors)
        return second_stage(found, split, self.dataset.categories)

    def _read(self, name: str) -> Factors | ScoredCandidates | None:
        path = self.folder / f"{name}.safetensors"
        if path.exists() and path.with_suffix(".json").exists():
            return Factors.load(path)
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as stored:
            return ScoredCandidates(stored["items"], stored["scores"], self.split.user_ids, self.split.item_ids)

    def _write(self, name: str, model: Factors | ScoredCandidates) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if isinstance(model, Factors):
            model.save(self.folder / f"{name}.safetensors")
            return
        with atomic_path(self.folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, items=model.items, scores=model.scores)

    @property
    def has_vectors(self) -> bool:
        """Whether vectors serve the lists, so that dials and boosts can be judged."""
        return isinstance(self.model, Factors) and self.model.metric != COSINE

    @cached_property
    def test(self) -> Problem:
        """The problem of the test part."""
        return self.problem("test")

    @cached_property
    def validation(self) -> Problem:
        """The problem of the validation part."""
        return self.problem("validation")

    def forget_problems(self) -> None:
        """Free the problems with their caches, which are large."""
        for part in ("test", "validation"):
            self.__dict__.pop(part, None)

    def problem(self, part: Part) -> Problem:
        """Return a new problem of a part."""
        return Problem(self.model, self.split, self.dataset.categories, part)


def cases(world: World, seeds: int, dataset: Dataset, folder: Path, device: str = "auto") -> Iterator[Case]:
    """Yield the case of each seed."""
    return (Case(world, seed, dataset, folder, device) for seed in range(min(seeds, world.seeds)))
