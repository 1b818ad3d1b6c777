"""The training loop: Adam, early stopping, progress and checkpoints; independent of models and files."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.errors import InputError, RecprismError
from recprism.models._adam import Adam
from recprism.models._breakdown import Whose, breakdown

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Facts: TypeAlias = Mapping[str, Any]
Checkpoint: TypeAlias = tuple[Arrays, Facts]
"""Arrays for a safetensors file and facts for JSON."""
CheckpointSink: TypeAlias = Callable[[Arrays, Facts], None]
ARRAYS = ("parameters", "best", "first_moment", "second_moment", "random_state")
LOOKS_AT_LOSS = {"cpu": 1, "cuda": 32}
"""Steps between reads of the loss. On a GPU each read waits for all queued steps, so reads are rare."""
FACTS = ("epoch", "steps", "best_epoch", "best_value")


@dataclass(frozen=True)
class Epoch:
    """What a progress callback receives after each epoch.

    Attributes:
        epoch: Finished epochs, from 1.
        epochs: Largest number of epochs.
        loss: Mean over the triples of this epoch.
        validation: NDCG@10 on the validation part; None without validation.
        best_epoch: The epoch whose vectors would be kept if training ended now.
        seconds_left: Estimated time until the last epoch; early stopping may end it sooner.
    """

    epoch: int
    epochs: int
    loss: float
    validation: float | None
    best_epoch: int
    seconds_left: float


Progress: TypeAlias = Callable[[Epoch], None]


@dataclass(frozen=True, eq=False)
class Task:
    """What to train.

    Attributes:
        steps: Yields for each batch the summed loss, the number of its terms and the gradient, given the parameters.
        judge: Validation value of parameters, higher is better; None trains all epochs and keeps the last.
        epochs: Largest number of epochs.
        patience: Epochs without a better validation value after which training stops.
        learning_rate: Learning rate of Adam.
        weight_decay: L2 penalty, added to the gradient.
        identity: Settings and data that must be the same to resume from a checkpoint.
        whose: Names the vector that a parameter belongs to, for error messages.
    """

    steps: Callable[[Tensor, torch.Generator], Iterable[tuple[Tensor, int, Tensor]]]
    judge: Callable[[Tensor], float] | None
    epochs: int
    patience: int
    learning_rate: float
    weight_decay: float
    identity: Facts
    whose: Whose


class Training:
    """The state of a training run."""

    def __init__(self, task: Task, start: Tensor, generator: torch.Generator) -> None:
        self.task = task
        self.parameters = start
        self.generator = generator
        self.adam = Adam(start, task.learning_rate, task.weight_decay)
        self.epoch = 0
        self.best = start.clone()
        self.best_epoch = 0
        self.best_value: float | None = None

    def run(self, progress: Progress | None, checkpoint: CheckpointSink | None) -> None:
        """Train until the last epoch, or until validation has not improved for ``patience`` epochs."""
        began, first = time.perf_counter(), self.epoch
        while not self.finished:
            loss = self._train_epoch()
            value = self._note_value()
            if checkpoint is not None:
                checkpoint(*self.checkpoint())
            if progress is not None:
                pace = (time.perf_counter() - began) / (self.epoch - first)
                left = 0.0 if self.finished else pace * (self.task.epochs - self.epoch)
                progress(Epoch(self.epoch, self.task.epochs, loss, value, self.best_epoch, left))

    @property
    def finished(self) -> bool:
        waited = self.epoch - self.best_epoch
        out_of_patience = self.task.judge is not None and waited >= self.task.patience
        return self.epoch >= self.task.epochs or out_of_patience

    def _train_epoch(self) -> float:
        losses: list[Tensor] = []
        known: list[float] = []
        terms, together = 0, LOOKS_AT_LOSS[self.parameters.device.type]
        for loss, n_terms, gradient in self.task.steps(self.parameters, self.generator):
            losses.append(loss)
            terms += n_terms
            if len(losses) == together:
                self._read(losses, known)  # before the step, so that an error names the vectors behind this loss
            self.adam.step(gradient)
        self._read(losses, known)
        # The last step can make a vector non-finite without affecting any later loss.
        if not bool(torch.isfinite(self.parameters).all()):
            raise self._breakdown(len(known), known[-1])
        self.epoch += 1
        return math.fsum(known) / terms

    def _read(self, waiting: list[Tensor], known: list[float]) -> None:
        """Move losses from the device to ``known`` in one transfer; raise at the first one that is not finite."""
        if not waiting:
            return
        for loss in [float(waiting[0])] if len(waiting) == 1 else torch.stack(waiting).tolist():
            known.append(loss)
            if not math.isfinite(loss):
                raise self._breakdown(len(known), loss)
        waiting.clear()

    def _breakdown(self, step: int, loss: float) -> RecprismError:
        where, advice = (
            f"epoch {self.epoch + 1}, step {step}",
            f"a lower learning_rate (now {self.task.learning_rate:g})",
        )
        return breakdown(where, loss, self.parameters, self.task.whose, advice)

    def _note_value(self) -> float | None:
        """Keep the vectors if they are the best so far; without validation the last ones are the best."""
        value = None if self.task.judge is None else self.task.judge(self.parameters)
        if value is None or self.best_value is None or value > self.best_value:
            self.best.copy_(self.parameters)
            self.best_epoch, self.best_value = self.epoch, value
        return value

    def checkpoint(self) -> Checkpoint:
        """Return everything that the rest of the training depends on."""
        tensors = {
            "parameters": self.parameters,
            "best": self.best,
            "first_moment": self.adam.first_moment,
            "second_moment": self.adam.second_moment,
            "random_state": self.generator.get_state(),
        }
        arrays = {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}
        facts = {
            "identity": dict(self.task.identity),
            "epoch": self.epoch,
            "steps": self.adam.steps,
            "best_epoch": self.best_epoch,
            "best_value": self.best_value,
        }
        return arrays, facts

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint of the same training."""
        require_same(self.task.identity, ARRAYS, FACTS, checkpoint)
        arrays, facts = checkpoint
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        self.parameters.copy_(tensors["parameters"])
        self.best.copy_(tensors["best"])
        self.adam.first_moment.copy_(tensors["first_moment"])
        self.adam.second_moment.copy_(tensors["second_moment"])
        self.adam.steps = facts["steps"]
        self.generator.set_state(tensors["random_state"])
        self.epoch, self.best_epoch, self.best_value = facts["epoch"], facts["best_epoch"], facts["best_value"]


def require_same(
    identity: Facts, arrays_needed: Iterable[str], facts_needed: Iterable[str], checkpoint: Checkpoint
) -> None:
    """Raise an error if a checkpoint is incomplete or belongs to another training."""
    arrays, facts = checkpoint
    missing = {*arrays_needed} - set(arrays) | {"identity", *facts_needed} - set(facts)
    if missing:
        raise InputError(f"the checkpoint lacks {', '.join(sorted(missing))}; start the training again without it")
    for name, now in identity.items():
        then = facts["identity"].get(name)
        if then != now:
            raise InputError(
                f"the checkpoint was written with {name} = {then!r} and now it is {now!r}; "
                "resume with the same data and settings, or start again without it"
            )
