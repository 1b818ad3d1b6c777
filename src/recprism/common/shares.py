"""Shares: 0.05 and "5%" are the same; 5 is refused, because it can mean 5 % or 500 %."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeVar

from recprism.errors import InputError

Share = float | str
"""A share as a caller may write it: a number, or text such as "0.05", "5%" or "5 %"."""


class ReadShare(float):
    """A share that :func:`share` returned. Read again, 5.0 is 500 % and not a forgotten percent sign."""


CONFIDENCE = (0.5, 0.9999)
"""The range of a confidence."""

Name = TypeVar("Name", int, str)


def share(value: Share, name: str = "", low: float = 0.0, high: float = 1.0, *, ends: bool = True) -> float:
    """Read a share.

    Args:
        value: A number, or text; a percentage ends with the sign.
        name: What the share is of, as the caller wrote it. The error message begins with it.
        low: The least share allowed.
        high: The largest share allowed. Above 1 it can only be written as a percentage.
        ends: Whether ``low`` and ``high`` themselves are allowed.

    Returns:
        The share, 0.05 for 5 %.

    Raises:
        InputError: The value is not a finite number, or it is out of range.

    >>> share("5 %", "--budget"), share(0.05, "budget")
    (0.05, 0.05)
    """
    if type(value) is float and low < value < high and value <= 1:  # most are: a request has no time for decimals
        return ReadShare(value)
    text = str(value).strip()
    in_percent = text.endswith("%")
    number = math.nan if isinstance(value, bool) else _number(text.removesuffix("%"), 100 if in_percent else 1)
    written_as_share = in_percent or number <= 1 or isinstance(value, ReadShare)
    if written_as_share and math.isfinite(number) and (low <= number <= high if ends else low < number < high):
        return ReadShare(number)
    problem = _problem(text or repr(text), number, in_percent, low, high, ends)
    raise InputError(f"{name}: {problem}" if name else problem)


def shares(
    values: Mapping[Name, Share], name: str, low: float = 0.0, high: float = 1.0, *, ends: bool = True
) -> dict[Name, float]:
    """Read the shares of a mapping; an error message also names the key."""
    return {key: share(value, f"{name} of {key}", low, high, ends=ends) for key, value in values.items()}


def percent(share: float | None, form: str = ".3g", unit: str = " %") -> str:
    """Write a share in percent.

    Args:
        share: 0.05 for 5 %; None gives an empty text.
        form: Format of the number. A ``z`` in it drops the sign of a rounded zero, as in ``"+z.1f"``.
        unit: What follows the number.

    >>> percent(0.05), percent(0.0512, "+.1f", "%"), percent(-0.0001, "+z.1f")
    ('5 %', '+5.1%', '+0.0 %')
    """
    return "" if share is None else f"{100 * share:{form}}{unit}"


def percent_interval(low: float | None, high: float | None) -> str:
    """Write the ends of an interval of shares in percent; an empty text if there is none.

    >>> percent_interval(-0.05, 0.012)
    '-5.0 .. +1.2'
    """
    return "" if low is None or high is None else f"{percent(low, '+z.1f', '')} .. {percent(high, '+z.1f', '')}"


def _number(text: str, unit: int) -> float:
    """Divide as a decimal, so that 0.1 % is exactly the number 0.001."""
    try:
        return float(Decimal(text) / unit)
    except ArithmeticError:
        return math.nan


def _problem(text: str, number: float, in_percent: bool, low: float, high: float, ends: bool) -> str:
    limits = f"from {low:g} to {high:g}" if ends else f"above {low:g} and below {high:g}"
    if math.isinf(high):
        limits = f"of at least {low:g}" if ends else f"above {low:g}"
    if not in_percent and 1 <= number < math.inf and low <= number / 100 <= high:
        return f"{text} is not a share {limits}; did you mean {text}%?"
    usual = next((it for it in (0.05, 0.95) if low <= it <= high), low)
    return f"{text} is not a share {limits}; write one such as {usual:g} or {100 * usual:g}%"
