"""The lists of paths, kept in a run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Lists
from recprism.errors import BusyError, StorageError
from recprism.runs.lock import held
from recprism.runs.parts.audits import RunAudits

FORMAT = 5


class RunPaths:
    """The lists of paths in ``path.GOAL.safetensors``; lists of other vectors or data are not read.

    Args:
        run: A trained run.
    """

    def __init__(self, run: RunAudits) -> None:
        self.run = run
        self._made_from = run.fingerprint()  # before anything is read for a path

    def read(self, goal: str, kind: str) -> dict[float, Lists]:
        """Return trade-off -> ``(n_users, k)`` lists."""
        lists = self._stored(goal)
        start = f"{kind}."
        return {
            float(name.removeprefix(start)): array.astype(np.int64)
            for name, array in lists.items()
            if name.startswith(start)
        }

    def write(self, goal: str, lists: Mapping[str, Mapping[float, Lists]]) -> None:
        """Add lists to the file of a goal, in one step. A run that is read-only stays as it is."""
        stored = self._stored(goal)
        new = {
            f"{kind}.{trade_off!r}": array.astype(np.int32)
            for kind, of_kind in lists.items()
            for trade_off, array in of_kind.items()
        }
        if not new.keys() <= stored.keys():
            with suppress(BusyError, StorageError), held(self.run.path):
                self.run.save_path(goal, {**stored, **new}, {"format": FORMAT}, self._made_from)

    def _stored(self, goal: str) -> dict[str, NDArray[np.int32]]:
        found = self.run.load_path(goal)
        return found[0] if found is not None and found[1].get("format") == FORMAT else {}
