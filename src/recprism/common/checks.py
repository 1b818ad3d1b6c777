"""Checks of values where they enter: seeds, settings and arrays. What is wrong is refused in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError

LARGEST_SEED = 2**32 - 1  # what every library here accepts
LARGEST = 1e37  # ten times as much still fits into float32

MOST = 10**12  # of a count; more than any machine holds

# -- settings ---------------------------------------------------------------------------------------------------------


class Check(Protocol):
    """What a setting may be."""

    def read(self, name: str, value: Any) -> Any:
        """Return the value as a plain Python object; raise an error that begins with ``name`` if it is not allowed."""


@dataclass(frozen=True)
class Whole:
    """A whole number.

    Attributes:
        least: The least number allowed.
        most: The largest number allowed.
        none: What None means, as in "for all users"; empty if None is not allowed.
    """

    least: int = 1
    most: int = MOST
    none: str = ""

    def read(self, name: str, value: Any) -> int | None:
        if value is None and self.none:
            return None
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or not self.least <= value <= self.most:
            endless = self.most == MOST and not (whole and value > MOST)
            limits = f"of at least {self.least}" if endless else f"from {self.least} to {self.most:,}"
            raise _refused(name, value, f"pass a whole number {limits}", self.none)
        return int(value)


@dataclass(frozen=True)
class Real:
    """A finite number.

    Attributes:
        low: The least number allowed.
        high: The largest number allowed.
        above: Whether ``low`` itself is not allowed.
        below: Whether ``high`` itself is not allowed.
        none: What None means; empty if None is not allowed.
    """

    low: float = 0.0
    high: float = LARGEST
    above: bool = False
    below: bool = False
    none: str = ""

    def read(self, name: str, value: Any) -> Any:
        if value is None and self.none:
            return None
        if not _is_number(value) or not self._allows(value):
            low = f"above {self.low:g}" if self.above else f"of at least {self.low:g}"
            high = f"below {self.high:g}" if self.below else f"at most {self.high:g}"
            limits = f"{low} and {high}" if self.above or self.below else f"from {self.low:g} to {self.high:g}"
            raise _refused(name, value, f"pass a number {limits}", self.none)
        return value.item() if isinstance(value, np.generic) else value

    def _allows(self, value: float) -> bool:
        inside = self.low <= value <= self.high
        return inside and not (self.above and value == self.low) and not (self.below and value == self.high)


@dataclass(frozen=True)
class OneOf:
    """One of several values."""

    choices: tuple[Any, ...]

    def read(self, name: str, value: Any) -> Any:
        if not any(type(value) is type(it) and value == it for it in self.choices):
            raise _refused(name, value, f"choose one of {', '.join(map(str, self.choices))}")
        return value


@dataclass(frozen=True)
class Several:
    """A sequence whose members all follow one rule.

    Attributes:
        rule: The rule of each member.
        none: What None means; empty if None is not allowed.
    """

    rule: Check
    none: str = ""

    def read(self, name: str, value: Any) -> Any:
        if value is None and self.none:
            return None
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
            raise _refused(name, value, "pass a list", self.none)
        return [self.rule.read(f"{name}[{at}]", it) for at, it in enumerate(value)]


COUNT = Whole(1)
AMOUNT = Real(0, LARGEST, below=True)
POSITIVE = Real(0, LARGEST, above=True, below=True)
WEIGHT = Real(0, 1)
SEED = Whole(0, LARGEST_SEED)


class Checked:
    """Settings that are checked by their rules when they are made."""

    rules: ClassVar[Mapping[str, Check]]
    """What each setting may be."""

    def __post_init__(self) -> None:
        check_settings(self, self.rules)


def check_settings(settings: Any, rules: Mapping[str, Check]) -> None:
    """Check attributes of an object by their rules, and replace numpy numbers by plain ones."""
    for name, rule in rules.items():
        object.__setattr__(settings, name, rule.read(name, getattr(settings, name)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _refused(name: str, value: Any, advice: str, none: str = "") -> InputError:
    shown = repr(value.item() if isinstance(value, np.generic) else value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return InputError(f"{name} is {shown}; {advice}{f', or None {none}' if none else ''}")


# -- seeds ------------------------------------------------------------------------------------------------------------


def require_seed(seed: Any) -> int:
    """Return a seed as a plain number."""
    return int(SEED.read("seed", seed) or 0)


def random_generator(seed: int | np.random.Generator | None, *more: int) -> np.random.Generator:
    """Return the generator of a seed.

    Args:
        seed: A number, a generator, which is returned as it is, or None for a random seed.
        *more: Numbers that make this generator independent of others with the same seed.

    Raises:
        InputError: The seed is out of range, or no number.
    """
    if seed is None or isinstance(seed, np.random.Generator):
        return np.random.default_rng(seed)
    number = require_seed(seed)
    return np.random.default_rng([number, *more] if more else number)


# -- arrays -----------------------------------------------------------------------------------------------------------


def finite_array(values: Any, name: str, *, least: float = -np.inf) -> NDArray[Any]:
    """Return values as an array of finite numbers of at least ``least``; else as :func:`real_array`."""
    array = real_array(values, name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{name} hold NaN or infinity{_first(~np.isfinite(array))}; remove or replace them first")
    if array.size and array.dtype.kind in "if" and array.min() < least:
        raise InputError(f"{name} hold {array.min():g}{_first(array < least)}; none may be below {least:g}")
    return array


def float32_array(values: Any, name: str) -> NDArray[np.float32]:
    """Return values as a contiguous float32 array; numbers beyond its range are refused, NaN and infinity kept."""
    array = real_array(values, name)
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        beyond = np.isfinite(array) & (np.abs(array) > np.finfo(np.float32).max)
        if beyond.any():
            raise InputError(
                f"{name} hold {array[beyond].flat[0]:g}{_first(beyond)}, which does not fit into float32; scale them"
            )
    return np.ascontiguousarray(array, np.float32)


def whole_array(values: Any, name: str) -> NDArray[np.int64]:
    """Return values as int64; bool, fractions, NaN and infinity are refused."""
    array = finite_array(values, name)
    whole = array.dtype.kind in "iu" or not array.size
    if not whole and (array.dtype.kind == "b" or (array != np.floor(array)).any() or (np.abs(array) >= 2**53).any()):
        raise InputError(f"{name} are not all whole numbers (their type is {array.dtype}); pass integers")
    return array.astype(np.int64, copy=False)


def require_unmasked(values: Any, name: str) -> None:
    """Raise an error for a masked array: a cast would silently use the numbers under the mask."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name} are a masked array; fill or remove the masked places and pass a plain array")


def require_real(values: Any, name: str) -> None:
    """Raise an error for an array or tensor of complex numbers: a cast would silently drop the imaginary parts."""
    require_unmasked(values, name)
    kind = str(getattr(values, "dtype", "")).removeprefix("torch.")
    if kind.startswith("complex"):
        raise InputError(
            f"{name} are complex numbers ({kind}); pass real numbers, such as real and imaginary parts in columns of "
            "their own"
        )


def real_array(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array of real numbers or bool, without a copy if possible.

    Args:
        values: An array, a tensor on the CPU, or nested lists.
        name: What the error message calls the values, in the plural.

    Raises:
        InputError: The values are masked, complex, text or objects, or of unequal lengths.
    """
    require_real(values, name)
    if hasattr(values, "detach"):  # a tensor; torch is not imported here
        values = values.detach()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as problem:  # lists of different lengths
        raise InputError(f"{name} cannot be read as an array of numbers ({str(problem).splitlines()[0]})") from None
    require_real(array, name)
    if array.dtype.kind == "O":
        array = _numbers_of(array, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} cannot be read as an array of numbers (their type is {array.dtype})")
    return array


def _numbers_of(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Convert Python objects that are all numbers; anything else, such as None or text, is refused."""
    for one in array.flat:
        if not _is_number(one):
            raise InputError(f"{name} cannot be read as an array of numbers (one is {repr(one)[:60]})")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise InputError(f"{name} hold a number that is too large; pass numbers below {LARGEST:g}") from None


def _first(bad: NDArray[Any]) -> str:
    """Return the place of the first bad value, for an error message."""
    at = np.argwhere(bad)[0].tolist() if bad.ndim else []
    axes = ("place",) if len(at) == 1 else ("row", "column")
    return "" if not at else " (first in " + ", ".join(f"{axis} {it}" for axis, it in zip(axes, at, strict=False)) + ")"
