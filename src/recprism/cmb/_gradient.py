"""The gradient variant: Adam replaces the players where psi is differentiable in the item vectors."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb.history import Follow, History, Progress
from recprism.cmb.search_loop import Judge, SearchResult
from recprism.cmb.settings import CMBSettings
from recprism.cmb.space import FactorSpace
from recprism.common.threads import one_thread
from recprism.errors import InputError
from recprism.metrics import Context

# Metrics that are smooth in the item vectors for fixed lists -> the factor from soft_ilad to the metric.
SMOOTH = {"ilad": 1.0, "ilad_paper": 0.5}
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def gradient_search(
    space: FactorSpace,
    context: Context,
    asked: CMBSettings,
    *,
    follow: Follow | None = None,
    resume: Progress | None = None,
) -> SearchResult:
    """Maximise psi**2 - lambda1 * |delta| on ILAD: rank, then take a step of Adam with the lists fixed.

    Args:
        space: What is perturbed.
        context: What the metrics look at.
        asked: The objective, which is ILAD alone; iterations, list length, learning rate and bounds.
        follow: Called with the progress after every iteration.
        resume: The progress of an earlier search.
    """
    objective = asked.objective
    if objective.accuracy is not None or objective.diversity not in SMOOTH:
        raise InputError(
            f"the gradient variant needs a differentiable objective, {' or '.join(SMOOTH)} alone; got {objective.name}"
        )
    factor = SMOOTH[str(objective.diversity)]
    values = torch.zeros(space.n_players, device=context.device, requires_grad=True)
    optimiser = torch.optim.Adam([values], lr=asked.learning_rate)
    judge = Judge(space, context, objective)
    history = History(objective, resume.steps if resume is not None else ())
    if resume is not None:
        _restore(values, optimiser, resume)
    for _ in range(len(history), asked.iterations):
        history.add(judge.outcome(values.detach(), asked.k))
        lists = space.lists(values.detach(), asked.k)
        with one_thread():  # several threads add up the gradient in any order, which changes bits
            psi = factor * soft_ilad(space.vectors(values), lists)
            size = values.abs().sum()
            loss = objective.lambda1 * (size if objective.penalty == "sum" else size / space.n_players) - psi**2
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            values.clamp_(-asked.max_step, asked.max_step)
        if follow is not None:
            follow(Progress(history.steps(), _state(values, optimiser)))
    return SearchResult(values.detach(), history.steps())


def soft_ilad(vectors: Tensor, lists: Tensor) -> Tensor:
    """Mean cosine distance over the pairs of a list, averaged over users.

    Args:
        vectors: (n_items, d) differentiable item vectors.
        lists: (n_users, k) item numbers, -1 in empty places.
    """
    real = lists >= 0
    unit = torch.nn.functional.normalize(vectors, dim=1)[lists.clamp_min(0)] * real[..., None]
    total = unit.sum(1)
    # The sum over ordered pairs of cosines is |sum|^2 minus the diagonal.
    cosines = (total * total).sum(1) - (unit * unit).sum((1, 2))
    n = real.sum(1).to(unit.dtype)
    pairs = n * (n - 1)
    return ((pairs - cosines) / pairs.clamp_min(1)).mean()


def _state(values: Tensor, optimiser: torch.optim.Adam) -> dict[str, NDArray[Any]]:
    moments: dict[str, Tensor] = optimiser.state[values]
    tensors = {"values": values.detach(), **{name: moments[name] for name in MOMENTS}}
    return {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}


def _restore(values: Tensor, optimiser: torch.optim.Adam, progress: Progress) -> None:
    tensors = {name: torch.as_tensor(array) for name, array in progress.arrays.items()}
    with torch.no_grad():
        values.copy_(tensors["values"])
    # Adam keeps its step count on the CPU and its moments on the device of the values.
    optimiser.state[values] = {
        name: tensors[name].clone().to("cpu" if name == "step" else values.device) for name in MOMENTS
    }
