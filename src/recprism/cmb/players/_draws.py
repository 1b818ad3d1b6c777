"""Random draws without state: the draw of player p in iteration t is a function of (seed, t, p).

A search can therefore stop anywhere and resume with the same draws, on any number of threads and on any device. The
function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), here on torch integers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recprism.cmb._kernels.players import FIRST, GOLDEN, SECOND

_WORD = 1 << 64


def stream(seed: int, iteration: int) -> int:
    """The key of one iteration: 64 bits, as a signed integer for torch and numba."""
    key = _mix_int((seed * GOLDEN + 1) % _WORD)
    return _signed(_mix_int((key + (iteration + 1) * GOLDEN) % _WORD))


def draws(key: int, n: int, device: torch.device | str = "cpu") -> Tensor:
    """(n,) int64, uniform over all 64-bit words."""
    word = torch.arange(1, n + 1, dtype=torch.int64, device=device) * _signed(GOLDEN) + key
    word = (word ^ _shifted(word, 30)) * _signed(FIRST)
    word = (word ^ _shifted(word, 27)) * _signed(SECOND)
    return word ^ _shifted(word, 31)


def share(word: Tensor) -> Tensor:
    """(n,) int64 in 0 .. 2**32 - 1 from the upper half of each word: compare with ``threshold``."""
    return _shifted(word, 32)


def threshold(probability: float) -> int:
    """``share(word) < threshold(p)`` is true with probability p."""
    return round(probability * 2**32)


def choice(word: Tensor, n: int | Tensor) -> Tensor:
    """Integers in 0 .. n - 1 from the lower half of each word, by multiplication instead of remainder."""
    return ((word & 0xFFFFFFFF) * n) >> 32


def _shifted(word: Tensor, bits: int) -> Tensor:
    """A shift to the right that fills with zeros; torch's own repeats the sign."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _mix_int(word: int) -> int:
    word = ((word ^ (word >> 30)) * FIRST) % _WORD
    word = ((word ^ (word >> 27)) * SECOND) % _WORD
    return word ^ (word >> 31)


def _signed(word: int) -> int:
    return word - _WORD if word >= 1 << 63 else word
