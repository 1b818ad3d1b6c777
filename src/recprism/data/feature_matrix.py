"""Named features of users or items as a numpy array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import show
from recprism.errors import InputError


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """Features with one row per user or item.

    Attributes:
        ids: ``(n,)`` distinct ids of the rows, int64 or str objects.
        names: Names of the d features.
        values: ``(n, d)`` float32.

    Stability: provisional.
    """

    ids: NDArray[Any]
    names: tuple[str, ...]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.ids), len(self.names)):
            raise InputError(
                f"features have shape {self.values.shape} for {len(self.ids)} ids and {len(self.names)} names; "
                "one row per id and one column per name are needed"
            )

    def aligned(self, ids: NDArray[Any]) -> FeatureMatrix:
        """Return rows for the given ids, in their order; an id without features gets zeros."""
        row_of = {value: row for row, value in enumerate(self.ids.tolist())}
        rows = np.array([row_of.get(value, -1) for value in ids.tolist()])
        if len(ids) and (rows < 0).all():
            raise InputError(
                f"none of the {len(ids)} ids (such as {show(ids[0])}) has features (such as "
                f"{show(self.ids[0]) if len(self.ids) else 'nothing'}); both must use the same ids"
            )
        values = self.values[rows]
        values[rows < 0] = 0
        return FeatureMatrix(ids, self.names, values)
