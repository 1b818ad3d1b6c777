"""What a contest leaves for the documentation, in plain values."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from os import cpu_count
from pathlib import Path
from typing import Any

from contest.cases import World
from contest.contest import CEILINGS, CERTIFICATES, read_rows, seconds_by_world
from contest.verdict import CellVerdict
from recprism.common.version import __version__
from recprism.contest.tuning import TRIALS, USERS


def contest_record(
    folder: Path, worlds: Sequence[World], cells: Sequence[CellVerdict], *, seeds: int
) -> dict[str, Any]:
    """Return cells, ceilings, certificates, and what they took.

    Args:
        folder: Folder of the contest.
        worlds: The worlds.
        cells: The verdicts.
        seeds: Number of seeds.
    """
    certificates = [
        {"world": world.slug, "seed": seed, **row}
        for world in worlds
        for seed in range(seeds)
        for row in read_rows(folder, world, seed, CERTIFICATES)
    ]
    best = [{"world": world.slug, **row} for world in worlds for row in read_rows(folder, world, 0, CEILINGS)]
    took = seconds_by_world(folder)
    return {
        "version": __version__,
        "machine": f"{platform.machine()}, {cpu_count()} cores",
        "trials": TRIALS,
        "tuning_users": USERS,
        "seeds": seeds,
        "seconds": {world.slug: took.get(world.slug, 0.0) for world in worlds},
        "cells": [cell.to_dict() for cell in cells],
        "ceilings": best,
        "certificates": certificates,
    }
