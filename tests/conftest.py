"""What all tests share: where real data is, and a little world."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from recprism.data import Dataset, Interactions, load_dataset

# No deadlines: tests never judge wall-clock time. The same cases every time: a red test can be run again.
settings.register_profile("recprism", deadline=None, derandomize=True)
settings.load_profile("recprism")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need one are skipped aloud where it is missing."""
    root = os.environ.get("RECPRISM_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("RECPRISM_DATA names no folder of data sets: tests on real data are skipped")
    return Path(root)


@pytest.fixture(scope="session")
def ml1m(real_data: Path) -> Dataset:
    """MovieLens-1M as the paper prepares it."""
    if not (real_data / "ml-1m.zip").exists() and not (real_data / "ml-1m").exists():
        pytest.skip(f"no ml-1m.zip under {real_data}: tests on MovieLens-1M are skipped")
    return load_dataset("ml-1m", preset="paper", data_root=real_data)


@pytest.fixture(scope="session")
def small() -> Dataset:
    """The embedded data set, default preparation."""
    return load_dataset("ml-latest-small")


@pytest.fixture
def toy_interactions() -> Interactions:
    """Six users with 1, 2, 3, 5, 10 and 20 interactions over 20 items, rated and timed."""
    sizes = [1, 2, 3, 5, 10, 20]
    user = np.repeat(np.arange(6), sizes)
    item = np.concatenate([np.arange(size) for size in sizes])
    generator = np.random.default_rng(0)
    return Interactions(
        user,
        item,
        np.array([f"u{number}" for number in range(6)], dtype=object),
        np.arange(100, 120),
        generator.integers(1, 6, len(user)).astype(np.float32),
        generator.permutation(len(user)).astype(np.int64),
    )
