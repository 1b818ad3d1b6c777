"""Settings and ``fit`` of the models that are trained here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from recprism.common.checks import COUNT, POSITIVE, Check, OneOf
from recprism.common.memory import require_room
from recprism.common.version import __version__
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models._breakdown import vector_of
from recprism.models._pairwise import bpr_slope
from recprism.models._sparse import Graph
from recprism.models._start import STARTS, Start, root_mean_square, starting_vectors
from recprism.models.factors import Factors
from recprism.models.sampling import Triples
from recprism.models.settings import TRAINING_RULES, NamedSettings, choose_device, seed_number, training_data
from recprism.models.training import Checkpoint, CheckpointSink, Progress, Task, Training
from recprism.models.validation import DEPTH, ValidationNdcg

FEWEST_STEPS = 8
Smoothing = Callable[[Tensor], Tensor]
"""Maps parameters to vectors, both (n_users + n_items, dim); it is linear and symmetric, and so its own gradient."""


@dataclass(frozen=True, kw_only=True)
class PairwiseModel(NamedSettings, ABC):
    """User and item vectors, trained with the BPR loss and Adam.

    Attributes:
        dim: Length of the vectors.
        epochs: Largest number of passes over the training positives.
        patience: Stop when NDCG@10 on the validation part has not improved for so many epochs, and keep the best. None
            trains all epochs.
        learning_rate: Learning rate of Adam.
        weight_decay: L2 penalty: this times the parameters is added to the gradient of the loss (see ``loss``).
        batch_size: Largest number of positives per step. If ``loss`` is "mean", an epoch has at least eight steps.
        negatives: Items drawn for each positive.
        fixed_negatives: Draw all negatives once before training. Each triple is then an example, and ``batch_size``
            counts triples.
        negatives_avoid: Which of a user's items are never drawn as negatives: those of the training part, or those of
            all parts. "all" leaks held-out items into training and flatters the model, but the paper's row needs it.
        loss: How ``weight_decay`` is scaled. "sum" is the loss summed over a batch, as in many papers. "mean" is the
            loss over the whole training part, each positive counting once, so that one value suits data of any size.
        start: Start of the vectors: spectral (singular vectors of the training part), normal or xavier (both random).
        start_scale: Root mean square of the entries at the start; xavier has a scale of its own.
    """

    dim: int = 50
    epochs: int = 100
    patience: int | None = 3
    learning_rate: float = 0.005
    weight_decay: float = 0.0
    batch_size: int = 16_384
    negatives: int = 1
    fixed_negatives: bool = False
    negatives_avoid: Literal["train", "all"] = "train"
    loss: Literal["mean", "sum"] = "mean"
    start: Start = "spectral"
    start_scale: float = 0.2

    spectral_power: ClassVar[float]

    rules: ClassVar[Mapping[str, Check]] = {
        **TRAINING_RULES,
        "dim": COUNT,
        "fixed_negatives": OneOf((True, False)),
        "negatives_avoid": OneOf(("train", "all")),
        "loss": OneOf(("mean", "sum")),
        "start": OneOf(tuple(STARTS)),
        "start_scale": POSITIVE,
    }

    def fit(
        self,
        split: Split,
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
            seed: The same seed and device give the same bits.
            device: "auto" (CUDA if available), "cpu", "cuda" or "cuda:1".
            progress: Called with an ``Epoch`` after each epoch.
            checkpoint: Called after each epoch with arrays and facts that ``resume`` accepts.
            resume: A checkpoint of the same training. A resumed training ends with the same bits as an uninterrupted
                one.

        Returns:
            The trained vectors; ``settings`` describes the training.

        Raises:
            InputError: There is no validation part for early stopping, or the checkpoint is of another training.
        """
        self.require_fit(split, device=device)
        place = choose_device(device)
        number = seed_number(seed, resume)
        generator = torch.Generator(place).manual_seed(number)
        with torch.no_grad():
            graph = Graph.of(split.train, place)
            smooth = self._smoothing(graph)
            start = self._starting_parameters(graph, smooth, generator)
            triples = self._triples(split, place, generator)
            training = Training(self._task(split, triples, smooth, number, place), start, generator)
            if resume is not None:
                training.resume(resume)
            training.run(progress, checkpoint)
            facts = {**self._outcome(training), "seed": number, "device": place.type, "version": __version__}
            return self._factors(split, smooth(training.best), facts)

    def require_fit(self, split: Split, *, device: str | torch.device = "auto") -> None:
        """Raise an error if ``fit`` cannot work on this split, before anything is computed.

        Args:
            split: Training and validation interactions.
            device: As that of ``fit``.

        Raises:
            InputError: There is no validation part for early stopping, no training part, or no such device.
            TooLargeError: The vectors or the negatives do not fit into memory.
        """
        if not len(split.train):
            raise InputError("the training part has no interactions; hold out fewer, or give more data")
        if self.patience is not None and not len(split.validation):
            raise InputError(
                "early stopping needs a validation part and this split has none; "
                "set patience to None to train all epochs (--set patience=none), or hold out some interactions"
            )
        self._require_room(split, choose_device(device))

    def _require_room(self, split: Split, device: torch.device) -> None:
        """Check memory for parameters, best so far, two moments, two gradients and a checkpoint, and for negatives."""
        rows = split.n_users + split.n_items
        drawn = len(split.train) if self.fixed_negatives else min(self.batch_size, len(split.train))
        require_room(
            8 * drawn * self.negatives,
            f"{self.negatives:,} negatives for each of {drawn:,} positives",
            lambda free: f"at most negatives={free // (8 * drawn):,} fits",
            device=str(device),
        )
        require_room(
            7 * 4 * rows * self.dim,
            f"training {rows:,} vectors of {self.dim:,} factors",
            lambda free: (
                f"at most dim={free // (7 * 4 * rows):,} fits, or fewer users and items (--min-user, --min-item)"
            ),
            device=str(device),
        )

    @abstractmethod
    def _smoothing(self, graph: Graph) -> Smoothing:
        """Return the map from parameters to vectors."""

    def _starting_parameters(self, graph: Graph, smooth: Smoothing, generator: torch.Generator) -> Tensor:
        start = starting_vectors(graph, self.dim, generator, start=self.start, spectral_power=self.spectral_power)
        return start if self.start == "xavier" else start * (self.start_scale / root_mean_square(smooth(start)))

    def _triples(self, split: Split, device: torch.device, generator: torch.Generator) -> Triples:
        avoid = split.train if self.negatives_avoid == "train" else split.seen_before_test.union(split.test)
        fixed = generator if self.fixed_negatives else None
        return Triples(split.train, self.negatives, device, avoid=avoid, fixed=fixed)

    def _task(self, split: Split, triples: Triples, smooth: Smoothing, seed: int, device: torch.device) -> Task:
        n_users = split.n_users
        few = -(-len(triples) // FEWEST_STEPS)
        batch_size = min(self.batch_size, few) if self.loss == "mean" else self.batch_size

        def steps(parameters: Tensor, generator: torch.Generator) -> Iterator[tuple[Tensor, int, Tensor]]:
            for batch in triples.batches(batch_size, generator):
                vectors = smooth(parameters)
                slope = bpr_slope(vectors[:n_users], vectors[n_users:], batch)
                gradient = smooth(torch.cat([slope.user, slope.item]))
                terms = batch.negatives.numel()
                yield slope.loss, terms, gradient.div_(terms) if self.loss == "mean" else gradient

        ndcg = ValidationNdcg(split, device)

        def judge(parameters: Tensor) -> float:
            vectors = smooth(parameters)
            return ndcg(vectors[:n_users], vectors[n_users:])

        # A resumed training may have more epochs or more patience; everything else must be the same.
        settings = {name: value for name, value in asdict(self).items() if name not in ("epochs", "patience")}
        data = {"training data": training_data(split), "seed": seed, "device": device.type}
        return Task(
            steps,
            None if self.patience is None else judge,
            self.epochs,
            self.patience or self.epochs,
            self.learning_rate,
            self.weight_decay / (len(split.train) if self.loss == "mean" else 1),
            {"model": self.name, **settings, **data},
            lambda place: vector_of(split, place // self.dim),
        )

    def _outcome(self, training: Training) -> dict[str, Any]:
        return {
            "epochs_trained": training.epoch,
            "best_epoch": training.best_epoch,
            f"validation_ndcg@{DEPTH}": training.best_value,
        }

    def _factors(self, split: Split, vectors: Tensor, facts: dict[str, Any]) -> Factors:
        user, item = vectors[: split.n_users].cpu().numpy(), vectors[split.n_users :].cpu().numpy()
        has_history = split.train.row_counts > 0
        # A user without training items gets the mean vector, and so the recommendations of an average user.
        user[~has_history] = user[has_history].mean(0)
        settings = {"model": self.name, **asdict(self), **facts}
        return Factors.from_arrays(user, item, user_ids=split.user_ids, item_ids=split.item_ids, settings=settings)
