"""What a search has seen so far: its steps, kept on a GPU where they arise there, and read when somebody asks."""

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
    """One iteration: what the lists were worth, how large the perturbation was, and the reward that came of both."""

    iteration: int
    psi: float
    size: float
    reward: float
    error: float | None = None
    """Standard error of psi; None where all users paid."""
    users: int | None = None
    """How many users paid; None for all."""


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a search stands: all that is needed to go on with it later, to the same bits.

    steps: every iteration so far
    arrays: what an optimiser remembers beside them; empty for players, whose choices hang on the seed and the rewards
        alone
    checkpoint_key: settings and data, in values that JSON knows; a search with others is not gone on with
    """

    steps: tuple[Step, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    checkpoint_key: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> list[dict[str, Any]]:
        rows = [asdict(step) for step in self.steps]
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    @classmethod
    def from_json(
        cls,
        rows: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, NDArray[Any]] | None = None,
        checkpoint_key: Mapping[str, Any] | None = None,
    ) -> Progress:
        return cls(tuple(Step(**row) for row in rows), arrays or {}, checkpoint_key or {})


Follow = Callable[[Progress], None]


class Outcome(NamedTuple):
    """What one perturbation came to: floats, or numbers that are still on a GPU."""

    psi: Number
    size: Number
    reward: Number
    error: Number = 0.0
    users: int = 0
    """0 where all users paid."""


def either(first: bool | Tensor, one: Tensor, other: Tensor) -> Tensor:
    """The one or the other, without waiting where a GPU knows which."""
    if isinstance(first, Tensor):
        return torch.where(first, one, other)
    return one if first else other


class Best:
    """The highest reward so far; it stays on a GPU where rewards do."""

    def __init__(self, highest: Number = -float("inf")) -> None:
        self._highest = highest

    def rises_to(self, reward: Number) -> bool | Tensor:
        """Whether ``reward`` is above all earlier ones; the answer stays where the reward is."""
        higher: bool | Tensor = reward > self._highest
        if isinstance(reward, Tensor):
            self._highest = torch.maximum(reward, torch.as_tensor(self._highest, dtype=torch.float64))
        elif higher:
            self._highest = reward
        return higher


class History:
    """The outcomes of a search, in order; nothing is read from a GPU before ``steps`` is asked for."""

    def __init__(self, objective: Objective, known: Sequence[Step] = ()) -> None:
        self._objective = objective
        self._steps = list(known)
        self._waiting: list[Outcome] = []
        self._best = Best(max((step.reward for step in known), default=-float("inf")))

    def __len__(self) -> int:
        return len(self._steps) + len(self._waiting)

    def add(self, outcome: Outcome) -> bool | Tensor:
        """Whether its reward is above all earlier ones; the answer stays where the reward is."""
        self._waiting.append(outcome)
        return self._best.rises_to(outcome.reward)

    def steps(self) -> tuple[Step, ...]:
        for psi, size, reward, error, users in self._read():
            sample = (error, int(users)) if users else ()
            self._steps.append(Step(len(self._steps), self._objective.checked(psi), size, reward, *sample))
        self._waiting = []
        return tuple(self._steps)

    def _read(self) -> list[list[float]]:
        """All numbers that wait, in one transfer."""
        if any(isinstance(number, Tensor) for outcome in self._waiting for number in outcome):
            device = next(number.device for it in self._waiting for number in it if isinstance(number, Tensor))
            rows = [
                torch.stack([torch.as_tensor(it, dtype=torch.float64, device=device) for it in outcome])
                for outcome in self._waiting
            ]
            numbers: list[list[float]] = torch.stack(rows).tolist()
            return numbers
        return [[float(number) for number in outcome] for outcome in self._waiting]
