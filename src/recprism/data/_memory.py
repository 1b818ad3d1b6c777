"""Whether something fits into memory, asked before it is made: a machine that swaps or kills tells nobody why."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from recprism.errors import TooLargeError

SMALL = 1 << 26  # bytes; less is not worth a look at the system
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
RECLAIMED = ("inactive_file", "active_file", "slab_reclaimable")


def require_room(
    needed: int, what: str, advice: str | Callable[[int], str], *, free: int | None = None, device: str = "cpu"
) -> None:
    """Refuse, before anything is allocated, what would not fit.

    needed: bytes
    what: "the averages of 5,000,000 players x 61 arms"
    advice: what would fit, or a function that says it from the bytes that are free
    free: bytes that are free, if not to be asked of the system
    """
    if needed < SMALL and free is None:
        return
    found = free_bytes(device) if free is None else free
    if found is None or needed <= found:
        return
    said = advice if isinstance(advice, str) else advice(found)
    raise TooLargeError(f"{what} need {shown(needed)} of memory and {shown(found)} are free; {said}")


def free_bytes(device: str = "cpu") -> int | None:
    """What this process may still take: of the machine, of its container and of its own limit, the least of them.

    None where the system does not tell (no Linux): then nothing is refused.
    """
    if device.startswith("cuda"):
        import torch

        own = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # kept by torch for its next use
        return int(torch.cuda.mem_get_info(device)[0] + own)
    limits = [limit for limit in (_machine(), _container(), _own_limit()) if limit is not None]
    return max(0, min(limits)) if limits else None


def shown(size: int) -> str:
    """
    >>> shown(3 * 2**30), shown(5_000_000)
    ('3.0 GiB', '4.8 MiB')
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def _machine() -> int | None:
    """MemAvailable, as free(1) shows it."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def _container() -> int | None:
    """Of the cgroup (version 2, then 1): its limit less what is used and could not be given back at once."""
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
    """Pages of files and caches, which the kernel takes back before it refuses or kills anything."""
    words = [line.split() for line in stat.read_text(encoding="ascii").splitlines()]
    return sum(int(value) for name, value in words if name in RECLAIMED)


def _own_limit() -> int | None:
    """Of the address space (ulimit -v), less what is mapped already."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ModuleNotFoundError, OSError):
        return None
    return most - pages * os.sysconf("SC_PAGE_SIZE")
