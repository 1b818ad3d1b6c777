"""The training loop: Adam on all vectors, early stopping, progress, checkpoints. It knows no model and no file."""

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
"""Every how many steps the losses are read: a GPU has to be waited for, and steps are given to it ahead of time."""
FACTS = ("epoch", "steps", "best_epoch", "best_value")


@dataclass(frozen=True)
class Epoch:
    """What a progress callback is told after every epoch.

    epoch: how many are done, from 1; epochs: how many there will be at most
    loss: mean over the triples of this epoch
    validation: NDCG@10 on the validation part, None where nothing is validated
    best_epoch: the epoch whose vectors would be kept if training ended here
    seconds_left: until the last epoch at the pace so far; early stopping may end it sooner
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
    """What is to be trained.

    steps: given the parameters, yields batch by batch the summed loss, the number of its terms and the gradient
    judge: the validation value of parameters, higher is better; None trains all epochs and keeps the last
    identity: what must be the same for a checkpoint to fit
    whose: what a number among the parameters belongs to, for the sentence that says which went wrong
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
    """The state of a training, and how it goes on."""

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
        """Train until the epochs are through or validation has not risen for ``patience`` epochs."""
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
                self._read(losses, known)  # before the step, so that a loss is told with the vectors that it is of
            self.adam.step(gradient)
        self._read(losses, known)
        # A step can break a vector that no later batch holds; all are looked at once, since it takes reading all.
        if not bool(torch.isfinite(self.parameters).all()):
            raise self._breakdown(len(known), known[-1])
        self.epoch += 1
        return math.fsum(known) / terms

    def _read(self, waiting: list[Tensor], known: list[float]) -> None:
        """Move losses from the device to ``known``, in one transfer; the first that is not finite ends the training."""
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
        """Keep the vectors if they are the best so far; without validation the last are the best."""
        value = None if self.task.judge is None else self.task.judge(self.parameters)
        if value is None or self.best_value is None or value > self.best_value:
            self.best.copy_(self.parameters)
            self.best_epoch, self.best_value = self.epoch, value
        return value

    def checkpoint(self) -> Checkpoint:
        """Everything the rest of the training depends on."""
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
        """Go back to where a checkpoint was written; one of another training is refused."""
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
    """Refuse a checkpoint that is not whole or belongs to another training."""
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
