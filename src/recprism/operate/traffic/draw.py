"""What a random draw of a price says about a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Draw:
    """The draw of a price.

    Attributes:
        place: Place of the price among those of a governor; None without one.
        held: Whether the price is that of the holdout, or the first one of a governor.
        probability: With which it was drawn; None without a draw.
        name: The name of the draw; None if it is for one request.
    """

    place: int | None = None
    held: bool = False
    probability: float | None = None
    name: str | None = None
