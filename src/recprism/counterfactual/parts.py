"""What a metric needs of some users' lists, so that its value for all users can be had from such parts alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics import Context, Lists, Metric
from recprism.metrics.together import Sums, Together, added
from recprism.ranking.threads import one_thread

OwnMetric = Callable[[Lists, Context], Any]


@dataclass(frozen=True)
class AtCut:
    """A metric of the first k places."""

    metric: Metric
    k: int

    def __call__(self, lists: Lists, context: Context) -> Tensor:
        return self.metric(lists.at(self.k), context)


def part_of(metric: OwnMetric, lists: Lists) -> Sums:
    """Of a value per user their sum and number, users who cannot be judged (NaN) left out; of one number, itself."""
    together = _together(metric)
    if together is not None:
        lists = lists.at(metric.k) if isinstance(metric, AtCut) else lists
        return together.sums(lists, lists.context)
    values = torch.as_tensor(metric(lists, lists.context), dtype=torch.float64)
    _require_no_infinity(metric, values)
    if values.ndim == 0:
        return (values,)
    with one_thread():  # a sum that comes out the same on any number of threads
        return values.nansum(), (~values.isnan()).sum()


def values_of(metric: OwnMetric, lists: Lists) -> Sums:
    """The value of each user, (n,) float64, NaN for those who cannot be judged."""
    values = torch.as_tensor(metric(lists, lists.context), dtype=torch.float64)
    if values.ndim == 0:
        raise InputError(f"{_name(metric)} gives one number for all lists; a sample of users needs one per user")
    return (values,)


def _require_no_infinity(metric: OwnMetric, values: Tensor) -> None:
    """Of values on the CPU; those on a GPU are looked at when psi is read."""
    if values.device.type != "cpu" or not bool(values.isinf().any()):
        return
    where = f" for user row {int(values.isinf().nonzero()[0])}" if values.ndim else ""
    raise InputError(
        f"{_name(metric)} gave infinity{where}; a metric gives finite numbers, and NaN for a user it cannot judge"
    )


def join(metric: OwnMetric, parts: Sequence[Sums]) -> Sums:
    """The part of all users, from those of several shards in their order."""
    if len(parts) > 1 and len(parts[0]) == 1 and _together(metric) is None:
        raise InputError(
            f"{_name(metric)} gives one number for all lists, which does not follow from those of {len(parts)} shards;"
            " give a value per user, or a metric whose function is a Together, or pass shards=1"
        )
    return added(list(parts))


def value_of(metric: OwnMetric, part: Sums) -> Tensor:
    """() float64, from the part of all users."""
    together = _together(metric)
    if together is not None:
        return together.value(*part)
    return part[0] if len(part) == 1 else part[0] / part[1]


def _name(metric: OwnMetric) -> str:
    return str(getattr(metric, "name", None) or getattr(metric, "__name__", "the metric"))


def _together(metric: OwnMetric) -> Together | None:
    known = metric.metric if isinstance(metric, AtCut) else metric
    function = known.function if isinstance(known, Metric) else known
    return function if isinstance(function, Together) else None
