"""A recommender over named item features: features are fixed, and the weights of each user are learned."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.checks import AMOUNT, POSITIVE, Check
from recprism.common.version import __version__
from recprism.data.feature_matrix import FeatureMatrix
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models._breakdown import vector_of
from recprism.models._pairwise import bpr_slope
from recprism.models.bpr import BPRMF
from recprism.models.factors import Factors
from recprism.models.sampling import Triples
from recprism.models.settings import TRAINING_RULES, NamedSettings, choose_device, seed_number, training_data
from recprism.models.training import Checkpoint, CheckpointSink, Progress, Task, Training
from recprism.models.validation import DEPTH, ValidationNdcg

FEWEST_STEPS = 8


@dataclass(frozen=True, kw_only=True)
class FeatureModel(NamedSettings):
    """score(u, v) = weights[u] . features[v] + bias[v]; weights and bias are trained with the BPR loss and Adam.

    A change of an item's features changes the lists. ``factors.settings["features"]`` names the columns.

    Attributes:
        completion: Fill cells that are 0 ("never mentioned") with the prediction of a ridge regression of this
            strength on the item vectors of a BPRMF. None leaves them 0, which suits attribute tables. For the effect on
            review data see docs/case_study.md.
        epochs: Largest number of passes over the training positives.
        patience: Stop when NDCG@10 on the validation part has not improved for so many epochs, and keep the best. None
            trains all epochs.
        learning_rate: Learning rate of Adam.
        weight_decay: L2 penalty on weights and bias, in the units of :class:`BPRMF`.
        batch_size: Largest number of positives per step; an epoch has at least eight steps.
        negatives: Items drawn for each positive.
        popularity: The bias starts at this times log(1 + number of training users) of the item.

    """

    completion: float | None = 1.0
    epochs: int = 100
    patience: int | None = 5
    learning_rate: float = 0.006
    weight_decay: float = 0.5
    batch_size: int = 16_384
    negatives: int = 3
    popularity: float = 0.3

    name: ClassVar[str] = "features"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}

    rules: ClassVar[Mapping[str, Check]] = {
        **TRAINING_RULES,
        "popularity": AMOUNT,
        "completion": replace(POSITIVE, none="for no completion"),
    }

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
        """Train on ``split.train``; ``split.validation`` decides when to stop (see ``patience``).

        Args:
            split: Training and validation interactions.
            item_features: Features by item id; items without a row have none. Features from reviews should come from
                the training part only (``mentions_of_pairs``), because a test review reveals a test interaction.
            seed: The same seed and device give the same bits.
            device: "auto" (CUDA if available), "cpu", "cuda" or "cuda:1".
            progress: Called with an ``Epoch`` after each epoch.
            checkpoint: Called after each epoch with arrays and facts that ``resume`` accepts.
            resume: A checkpoint of the same training.

        Returns:
            Factors with one column per feature. ``item``, (n_items, d), holds the features, scaled to at most 1.

        Raises:
            InputError: There is no validation part, or the features are all 0 or not finite.
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
    """Return a short text that changes with the features; a checkpoint fits one set of features only."""
    shape = " x ".join(map(str, features.shape))
    return f"{shape}, checksum {zlib.crc32(features.cpu().numpy().tobytes()):08x}"


@dataclass(frozen=True, eq=False)
class _Layout:
    """The layout of weights, (n_users, d), and bias, (n_items,), in the flat tensor of parameters."""

    features: Tensor
    n_users: int

    def start(self, bias: NDArray[np.float64]) -> Tensor:
        weights = torch.zeros(self.n_users * self.features.shape[1], device=self.features.device)
        return torch.cat([weights, torch.from_numpy(bias).to(weights)])

    def parts(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        end = self.n_users * self.features.shape[1]
        return parameters[:end].view(self.n_users, -1), parameters[end:]

    def row_of(self, place: int) -> int:
        """Return the user, or the number of users plus the item, that a position in the flat tensor belongs to."""
        width = self.features.shape[1]
        return place // width if place < self.n_users * width else place - self.n_users * (width - 1)

    def vectors(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return user and item vectors whose product is the score; the bias is one more column."""
        weights, bias = self.parts(parameters)
        ones = torch.ones(self.n_users, 1, device=weights.device)
        return torch.cat([weights, ones], 1), torch.cat([self.features, bias[:, None]], 1)

    def gradient(self, user: Tensor, item: Tensor) -> Tensor:
        """Return the gradient of weights and bias; the features are fixed."""
        return torch.cat([user[:, :-1].flatten(), item[:, -1]])


def completed(known: NDArray[np.float32], item_vectors: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """Replace each 0 by its expected value, between 0 and the feature's largest value.

    This is the low-rank part of the Explicit Factor Model: a linear map predicts the features from item vectors that
    were learned from interactions.

    Args:
        known: Features, (n_items, d) float32.
        item_vectors: (n_items, k) float32.
        ridge: Strength of the ridge regression.

    Returns:
        The completed features, (n_items, d) float32.
    """
    mean = known.mean(0)
    gram = item_vectors.T @ item_vectors + ridge * np.eye(item_vectors.shape[1], dtype=np.float32)
    expected = mean + item_vectors @ np.linalg.solve(gram, item_vectors.T @ (known - mean))
    return np.where(known != 0, known, np.clip(expected, 0, known.max(0))).astype(np.float32)
