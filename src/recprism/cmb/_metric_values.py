"""Values of a metric for the lists of a search; an error names the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.ids import show
from recprism.common.threads import one_thread
from recprism.errors import InputError
from recprism.metrics import Context, Lists, Metric

OwnMetric = Callable[[Lists, Context], Any]


class InfiniteValueError(InputError):
    """A metric returned infinity.

    The arguments of the exception hold all its data, so that it can be sent from another process.

    Args:
        metric: Name of the metric.
        row: The row of the user; None for a metric of all lists together.
        user: The id of the user, if known.
    """

    def __init__(self, metric: str, row: int | None, user: str | None = None) -> None:
        super().__init__(metric, row, user)
        self.metric, self.row, self.user = metric, row, user

    def __str__(self) -> str:
        row = "" if self.row is None else f" for user row {self.row}"
        where = row if self.user is None else f" for user {self.user} (row {self.row})"
        return f"{self.metric} gave infinity{where}; a metric gives finite numbers, and NaN for a user it cannot judge"


@contextmanager
def rows_among_all(rows: NDArray[Any] | None) -> Iterator[None]:
    """Replace a row among some users by the row among all users, in an error raised inside.

    Args:
        rows: (n,) row of each of these users among all; None if these are all users.
    """
    try:
        yield
    except InfiniteValueError as bad:
        if rows is None or bad.row is None:
            raise
        raise InfiniteValueError(bad.metric, int(rows[bad.row])) from None


@contextmanager
def users_named(ids: NDArray[Any]) -> Iterator[None]:
    """Add the id of the user, out of ``ids`` (n_users,), to an error raised inside."""
    try:
        yield
    except InfiniteValueError as bad:
        if bad.row is None:
            raise
        raise InfiniteValueError(bad.metric, bad.row, show(ids[bad.row])) from None


@dataclass(frozen=True)
class AtCut:
    """A metric of the first k places."""

    metric: Metric
    k: int

    def __call__(self, lists: Lists, context: Context) -> Tensor:
        return self.metric(lists.at(self.k), context)


def mean_of(metric: OwnMetric, lists: Lists) -> Tensor:
    """() float64: the mean of the users' values, without NaN; a single number for all lists is returned as it is."""
    values = torch.as_tensor(metric(lists, lists.context), dtype=torch.float64)
    require_no_infinity(metric, values)
    if values.ndim == 0:
        return values
    with one_thread():  # the sum has the same bits for any number of threads
        return values.nansum() / (~values.isnan()).sum()


def values_of(metric: OwnMetric, lists: Lists) -> Tensor:
    """The value of each user, (n,) float64, NaN where it is not defined."""
    values = torch.as_tensor(metric(lists, lists.context), dtype=torch.float64)
    if values.ndim == 0:
        raise InputError(f"{_name(metric)} gives one number for all lists; a sample of users needs one per user")
    require_no_infinity(metric, values)
    return values


def require_no_infinity(metric: OwnMetric, values: Tensor) -> None:
    """Raise an error if a value is infinite.

    Reading values from a GPU waits for it. Therefore metrics of this package are not checked on a GPU, only psi is,
    when it is read. Your own functions are checked here.

    Args:
        metric: The metric that gave the values.
        values: (n_users, ...), or () for all lists together.

    Raises:
        InfiniteValueError: A value is infinite.
    """
    if (values.device.type != "cpu" and _comes_with_recprism(metric)) or not bool(values.isinf().any()):
        return
    row = int(values.isinf().nonzero()[0, 0]) if values.ndim else None
    raise InfiniteValueError(_name(metric), row)


def _name(metric: OwnMetric) -> str:
    if isinstance(metric, AtCut):
        return f"{metric.metric.name}@{metric.k}"
    return str(getattr(metric, "name", None) or getattr(metric, "__name__", "the metric"))


def _comes_with_recprism(metric: OwnMetric) -> bool:
    return str(getattr(_function(metric), "__module__", "")).startswith("recprism.metrics.")


def _function(metric: OwnMetric) -> Callable[..., Any]:
    known = metric.metric if isinstance(metric, AtCut) else metric
    return known.function if isinstance(known, Metric) else known
