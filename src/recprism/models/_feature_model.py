"""A recommender over named item features: what is known of an item is fixed, how much each user wants it is learned."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism._version import __version__
from recprism.data.feature_matrix import FeatureMatrix
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models._breakdown import vector_of
from recprism.models._pairwise import bpr_slope
from recprism.models._sampling import Triples
from recprism.models._settings import (
    NamedSettings,
    choose_device,
    require_count,
    require_number,
    seed_number,
    training_data,
)
from recprism.models._validation import DEPTH, ValidationNdcg
from recprism.models.bpr import BPRMF
from recprism.models.factors import Factors
from recprism.models.training import Checkpoint, CheckpointSink, Progress, Task, Training

FEWEST_STEPS = 8


@dataclass(frozen=True, kw_only=True)
class FeatureModel(NamedSettings):
    """score(u, v) = weights[u] . features[v] + bias[v]; weights and bias are trained with the BPR loss and Adam.

    A change of an item's features changes the lists, and each column has a name: ``factors.settings["features"]``.
    """

    completion: float | None = 1.0
    """Cells that are 0 ("never mentioned") are filled with what a ridge regression of this strength on the item vectors
    of a BPRMF expects there: items that are taken together are spoken of alike. None leaves them 0, as an attribute
    table wants it. What it is worth on the Musical Instruments reviews: docs/case_study.md.
    """
    epochs: int = 100
    """Passes over the training positives, at most."""
    patience: int | None = 5
    """Stop when NDCG@10 on the validation part has not risen for so many epochs, and keep the best. None trains on."""
    learning_rate: float = 0.006
    weight_decay: float = 0.5
    """L2 on weights and bias, in the units of :class:`BPRMF`."""
    batch_size: int = 16_384
    """Positives per step, at most: small data is still cut into eight steps an epoch."""
    negatives: int = 3
    """Items drawn against each positive."""
    popularity: float = 0.3
    """The bias starts from this times log(1 + number of training users) of the item."""

    name: ClassVar[str] = "features"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "negatives"):
            require_count(name, getattr(self, name))
        if self.patience is not None:
            require_count("patience", self.patience)
        if self.completion is not None:
            require_number("completion", self.completion, above_zero=True)
        require_number("learning_rate", self.learning_rate, above_zero=True)
        require_number("weight_decay", self.weight_decay)
        require_number("popularity", self.popularity)

    def fit(
        self,
        split: Split,
        item_features: FeatureMatrix,
        *,
        seed: int | np.random.Generator | None = 0,
        device: str | torch.device = "auto",
        progress: Progress | None = None,
        checkpoint: CheckpointSink | None = None,
        resume: Checkpoint | None = None,
    ) -> Factors:
        """Factors with one column per feature: ``item`` (n_items, d) is the features, scaled to at most 1 in size.

        item_features: rows are found by id; items without a row have no feature. Features that were read from reviews
            should come from the training part alone (``mentions_of_pairs``): a test review tells who wrote it.

        The other arguments are those of :meth:`BPRMF.fit`.
        """
        if self.patience is not None and not len(split.validation):
            raise InputError("early stopping needs a validation part and this split has none; set patience to None")
        place, number = choose_device(device), seed_number(seed, resume)
        features = self._prepared(split, item_features, number, place)
        with torch.no_grad():
            layout = _Layout(torch.from_numpy(features).to(place), split.n_users)
            training = Training(
                self._task(split, layout, number, place),
                layout.start(self.popularity * np.log1p(split.train.col_counts)),
                torch.Generator(place).manual_seed(number),
            )
            if resume is not None:
                training.resume(resume)
            training.run(progress, checkpoint)
            weights, bias = (part.cpu().numpy().copy() for part in layout.parts(training.best))
        has_history = split.train.row_counts > 0
        weights[~has_history] = weights[has_history].mean(0)
        settings = {
            "model": self.name,
            **asdict(self),
            "features": list(item_features.names),
            "epochs_trained": training.epoch,
            "best_epoch": training.best_epoch,
            f"validation_ndcg@{DEPTH}": training.best_value,
            "seed": number,
            "device": place.type,
            "version": __version__,
        }
        ids = {"user_ids": split.user_ids, "item_ids": split.item_ids}
        return Factors.from_arrays(weights, features, **ids, item_bias=bias, settings=settings)

    def _prepared(
        self, split: Split, item_features: FeatureMatrix, seed: int, device: torch.device
    ) -> NDArray[np.float32]:
        known = item_features.aligned(split.item_ids).values.astype(np.float32)
        largest = float(np.abs(known).max(initial=0.0))
        if not np.isfinite(largest) or largest == 0:
            raise InputError("item features are all 0 or not finite; there is nothing to learn from")
        known /= largest
        if self.completion is None:
            return known
        base = BPRMF(patience=None, epochs=5) if not len(split.validation) else BPRMF()
        return completed(known, base.fit(split, seed=seed, device=device).item, self.completion)

    def _task(self, split: Split, layout: _Layout, seed: int, device: torch.device) -> Task:
        triples = Triples(split.train, self.negatives, device)
        batch_size = min(self.batch_size, -(-len(triples) // FEWEST_STEPS))

        def steps(parameters: Tensor, generator: torch.Generator) -> Iterator[tuple[Tensor, int, Tensor]]:
            for batch in triples.batches(batch_size, generator):
                slope = bpr_slope(*layout.vectors(parameters), batch)
                terms = batch.negatives.numel()
                yield slope.loss, terms, layout.gradient(slope.user, slope.item).div_(terms)

        ndcg = ValidationNdcg(split, device)
        judge: Callable[[Tensor], float] = lambda parameters: ndcg(*layout.vectors(parameters))  # noqa: E731
        settings = {name: value for name, value in asdict(self).items() if name not in ("epochs", "patience")}
        data = {
            "training data": training_data(split),
            "item features": _checksum(layout.features),
            "seed": seed,
            "device": device.type,
        }
        return Task(
            steps,
            None if self.patience is None else judge,
            self.epochs,
            self.patience or self.epochs,
            self.learning_rate,
            self.weight_decay / len(split.train),
            {"model": self.name, **settings, **data},
            lambda place: vector_of(split, layout.row_of(place)),
        )


def _checksum(features: Tensor) -> str:
    """A short text that changes with the features: weights learned for others mean nothing here."""
    shape = " x ".join(map(str, features.shape))
    return f"{shape}, checksum {zlib.crc32(features.cpu().numpy().tobytes()):08x}"


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where weights (n_users, d) and bias (n_items,) lie in the one flat tensor that is trained."""

    features: Tensor
    n_users: int

    def start(self, bias: NDArray[np.float64]) -> Tensor:
        weights = torch.zeros(self.n_users * self.features.shape[1], device=self.features.device)
        return torch.cat([weights, torch.from_numpy(bias).to(weights)])

    def parts(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        end = self.n_users * self.features.shape[1]
        return parameters[:end].view(self.n_users, -1), parameters[end:]

    def row_of(self, place: int) -> int:
        """The user, or the number of users plus the item, that a number in the flat tensor belongs to."""
        width = self.features.shape[1]
        return place // width if place < self.n_users * width else place - self.n_users * (width - 1)

    def vectors(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """User and item vectors whose product is the score: the bias is one more column."""
        weights, bias = self.parts(parameters)
        ones = torch.ones(self.n_users, 1, device=weights.device)
        return torch.cat([weights, ones], 1), torch.cat([self.features, bias[:, None]], 1)

    def gradient(self, user: Tensor, item: Tensor) -> Tensor:
        """Of what the vectors ask for, what can be had: the features stay as they are."""
        return torch.cat([user[:, :-1].flatten(), item[:, -1]])


def completed(known: NDArray[np.float32], item_vectors: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """Features with every 0 replaced by its expectation, between 0 and the feature's largest value.

    known: (n_items, d); item_vectors: (n_items, k); both float32

    The low-rank part of the Explicit Factor Model: item vectors that come from who takes what also have to produce the
    features, by a linear map.
    """
    mean = known.mean(0)
    gram = item_vectors.T @ item_vectors + ridge * np.eye(item_vectors.shape[1], dtype=np.float32)
    expected = mean + item_vectors @ np.linalg.solve(gram, item_vectors.T @ (known - mean))
    return np.where(known != 0, known, np.clip(expected, 0, known.max(0))).astype(np.float32)
