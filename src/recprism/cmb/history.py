"""The steps of a search; on a GPU they stay there until they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb.objective import Number, Objective


@dataclass(frozen=True)
class Step:
    """One iteration of a search.

    Attributes:
        iteration: Its number, from 0.
        psi: The objective's value of the lists.
        size: Sum of magnitudes of the perturbation.
        reward: What the players were paid.
        error: Standard error of psi; None if all users were ranked.
        users: How many users were ranked; None for all.
    """

    iteration: int
    psi: float
    size: float
    reward: float
    error: float | None = None
    users: int | None = None


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a search: everything that is needed to resume it to the same bits.

    Attributes:
        steps: Every iteration so far.
        arrays: The state of an optimiser. Empty under shared credit, where choices depend only on the seed and the
            rewards.
        checkpoint_key: Settings and data, in JSON values. Resuming with different ones raises an error.
    """

    steps: tuple[Step, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    checkpoint_key: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> list[dict[str, Any]]:
        """The steps in JSON values."""
        rows = [asdict(step) for step in self.steps]
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    @classmethod
    def from_json(
        cls,
        rows: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, NDArray[Any]] | None = None,
        checkpoint_key: Mapping[str, Any] | None = None,
    ) -> Progress:
        """Read what :meth:`to_json` gave, with the arrays and the key stored separately."""
        return cls(tuple(Step(**row) for row in rows), arrays or {}, checkpoint_key or {})


Follow = Callable[[Progress], None]


class Outcome(NamedTuple):
    """The outcome of one perturbation: floats, or numbers that are still on a GPU.

    Attributes:
        psi: The objective's value of the lists.
        size: Sum of magnitudes of the perturbation.
        reward: What the players are paid.
        error: Standard error of psi.
        users: How many users were ranked; 0 for all.
    """

    psi: Number
    size: Number
    reward: Number
    error: Number = 0.0
    users: int = 0


def either(first: bool | Tensor, one: Tensor, other: Tensor) -> Tensor:
    """``one`` if ``first`` is true, else ``other``; without waiting if the condition is on a GPU."""
    if isinstance(first, Tensor):
        return torch.where(first, one, other)
    return one if first else other


class Best:
    """The highest reward so far; it stays on a GPU if rewards do."""

    def __init__(self, highest: Number = -float("inf")) -> None:
        self._highest = highest

    def rises_to(self, reward: Number) -> bool | Tensor:
        """Whether ``reward`` is above all earlier ones, on the device of the reward."""
        higher: bool | Tensor = reward > self._highest
        if isinstance(reward, Tensor):
            self._highest = torch.maximum(reward, torch.as_tensor(self._highest, dtype=torch.float64))
        elif higher:
            self._highest = reward
        return higher


class History:
    """The outcomes of a search, in order; nothing is read from a GPU before ``steps`` is called."""

    def __init__(self, objective: Objective, known: Sequence[Step] = ()) -> None:
        self._objective = objective
        self._steps = list(known)
        self._waiting: list[Outcome] = []
        self._best = Best(max((step.reward for step in known), default=-float("inf")))

    def __len__(self) -> int:
        return len(self._steps) + len(self._waiting)

    def add(self, outcome: Outcome) -> bool | Tensor:
        """Append an outcome; returns whether its reward is above all earlier ones, on the device of the reward."""
        self._waiting.append(outcome)
        return self._best.rises_to(outcome.reward)

    def steps(self) -> tuple[Step, ...]:
        """All steps so far."""
        for psi, size, reward, error, users in self._read():
            sample = (error, int(users)) if users else ()
            self._steps.append(Step(len(self._steps), self._objective.checked(psi), size, reward, *sample))
        self._waiting = []
        return tuple(self._steps)

    def _read(self) -> list[list[float]]:
        """All waiting numbers, in one transfer."""
        if any(isinstance(number, Tensor) for outcome in self._waiting for number in outcome):
            device = next(number.device for it in self._waiting for number in it if isinstance(number, Tensor))
            rows = [
                torch.stack([torch.as_tensor(it, dtype=torch.float64, device=device) for it in outcome])
                for outcome in self._waiting
            ]
            numbers: list[list[float]] = torch.stack(rows).tolist()
            return numbers
        return [[float(number) for number in outcome] for outcome in self._waiting]
