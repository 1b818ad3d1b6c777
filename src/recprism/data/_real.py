"""Rejects complex numbers."""

from __future__ import annotations

from typing import Any

from recprism.errors import InputError


def require_real(values: Any, what: str) -> None:
    """Raise an error for an array or tensor of complex numbers: a cast would silently drop the imaginary parts."""
    kind = str(getattr(values, "dtype", "")).removeprefix("torch.")
    if kind.startswith("complex"):
        raise InputError(
            f"{what} are complex numbers ({kind}); pass real numbers, such as real and imaginary parts in columns of "
            "their own"
        )
