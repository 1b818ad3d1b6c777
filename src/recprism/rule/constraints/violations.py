"""Violations of constraints: what lists cannot keep, in how many of them, and one example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import ConstraintError


@dataclass(frozen=True, kw_only=True)
class Violation:
    """How far the lists violate one constraint.

    Attributes:
        constraint: The constraint in words.
        lists: Number of lists that violate it.
        places: Number of places too many or too few, over all lists.
        worst: The same in the worst list; for the floor of the tail, over all lists.
        example: The user of the first list that violates it: an id, or a row number if ids are unknown. None if it
            holds, and for the floor of the tail.
    """

    constraint: str
    lists: int
    places: float
    worst: float
    example: int | str | None = None

    def sentence(self) -> str:
        """Describe the violation in words."""
        if self.places == 0:
            return f"{self.constraint}: holds everywhere."
        return f"{self.constraint}: broken in {self.lists} lists, by {self.places:g} places, {self.worst:g} at most."


@dataclass(frozen=True)
class Unmet:
    """A constraint that the list of a request misses.

    Attributes:
        constraint: The constraint in words.
        places: How many places too few or too many.
    """

    constraint: str
    places: int


@dataclass(frozen=True)
class Violations:
    """The violations of all constraints.

    Attributes:
        n_lists: Number of lists.
        rows: One entry per constraint, also for those that hold.
    """

    n_lists: int
    rows: tuple[Violation, ...]

    @property
    def none(self) -> bool:
        """Whether all constraints hold."""
        return all(row.places == 0 for row in self.rows)

    def sentence(self) -> str:
        """Describe the violations in words."""
        if not self.rows:
            return "There are no constraints."
        if self.none:
            whole = "The constraint holds" if len(self.rows) == 1 else f"All {len(self.rows)} constraints hold"
            return f"{whole} in all {self.n_lists} lists."
        return " ".join(row.sentence() for row in self.rows if row.places)

    def require_none(self) -> None:
        """Refuse violated constraints.

        Raises:
            ConstraintError: It names the first violated constraint, the number of lists and one of them.
        """
        broken = next((row for row in self.rows if row.places), None)
        if broken is not None:
            example = "" if broken.example is None else f", such as that of user {broken.example}"
            raise ConstraintError(
                f"{broken.constraint} cannot be kept in {broken.lists:,} of {self.n_lists:,} lists{example}; relax the "
                "constraint, or accept such lists with --allow-violations"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the violations for JSON."""
        return {"n_lists": self.n_lists, "constraints": [asdict(row) for row in self.rows]}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Violations:
        """Read what :meth:`to_dict` wrote."""
        return cls(facts["n_lists"], tuple(Violation(**row) for row in facts["constraints"]))


def violation_of(constraint: str, places: NDArray[Any], ids: NDArray[Any] | None) -> Violation:
    """Count the places of each list that violate a constraint.

    Args:
        constraint: The constraint in words.
        places: (n_lists,) places too many or too few.
        ids: (n_lists,) ids of the users; None for row numbers.
    """
    broken = np.flatnonzero(places)
    first = None if not len(broken) else int(broken[0])
    return Violation(
        constraint=constraint,
        lists=len(broken),
        places=float(places.sum()),
        worst=float(places.max(initial=0)),
        example=first if first is None or ids is None else ids[first : first + 1].tolist()[0],
    )
