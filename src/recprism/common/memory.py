"""Checks that something fits into memory before it is allocated, so that an error can say what would fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from recprism.errors import TooLargeError

SMALL = 1 << 26  # bytes; smaller requests are not checked
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
RECLAIMED = ("inactive_file", "active_file", "slab_reclaimable")


def require_room(
    needed: int, what: str, advice: str | Callable[[int], str], *, free: int | None = None, device: str = "cpu"
) -> None:
    """Raise an error if something does not fit into the free memory.

    Args:
        needed: Number of bytes.
        what: What needs them, such as "the averages of 5,000,000 players x 61 arms".
        advice: What would fit, or a function of the free bytes that says it.
        free: Number of free bytes; by default the system is asked.
        device: Device of the memory.

    Raises:
        TooLargeError: It does not fit.
    """
    if needed < SMALL and free is None:
        return
    found = free_bytes(device) if free is None else free
    if found is None or needed <= found:
        return
    said = advice if isinstance(advice, str) else advice(found)
    raise TooLargeError(f"{what} need {shown(needed)} of memory and {shown(found)} are free; {said}")


def free_bytes(device: str = "cpu") -> int | None:
    """Return the bytes that this process can still allocate, or None if the system does not say (not Linux).

    On a processor this is the least of what the machine, the container and the limit of the process leave.
    """
    if device.startswith("cuda"):
        import torch

        own = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # reserved by torch, and free
        return int(torch.cuda.mem_get_info(device)[0] + own)
    limits = [limit for limit in (_machine(), _container(), _own_limit()) if limit is not None]
    return max(0, min(limits)) if limits else None


def shown(size: int) -> str:
    """Format a number of bytes.

    >>> shown(3 * 2**30), shown(5_000_000)
    ('3.0 GiB', '4.8 MiB')
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def _machine() -> int | None:
    """Return MemAvailable, as free(1) shows it."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def _container() -> int | None:
    """Return the limit of the cgroup (version 2, then 1) less the memory that cannot be reclaimed."""
    for limit, used, stat in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        try:
            most = int((CGROUP / limit).read_text(encoding="ascii"))
            taken = int((CGROUP / used).read_text(encoding="ascii"))
            return most - taken + _given_back(CGROUP / stat)
        except (OSError, ValueError):  # not there, or "max"
            continue
    return None


def _given_back(stat: Path) -> int:
    """Return the bytes of files and caches, which the kernel reclaims before an allocation fails."""
    words = [line.split() for line in stat.read_text(encoding="ascii").splitlines()]
    return sum(int(value) for name, value in words if name in RECLAIMED)


def _own_limit() -> int | None:
    """Return the limit of the address space (ulimit -v) less what is mapped."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ModuleNotFoundError, OSError):
        return None
    return most - pages * os.sysconf("SC_PAGE_SIZE")
