"""What all tests share: where real data is, and a little world."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

# One thread for each worker, before numpy and torch are imported: workers already use every processor, and idle threads
# of OpenMP would spin on them. Processes that a test starts inherit this.
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "POLARS_MAX_THREADS": "1",
}

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import settings

from recprism.cli import main
from recprism.cmb import CMB
from recprism.data import Dataset, Interactions, load_dataset
from recprism.forms.rule_file import RuleFile
from recprism.models import BPRMF
from recprism.result.front import make_path
from recprism.result.result import Result
from recprism.runs.config import DiversifyConfig, RunConfig
from recprism.runs.run import Run

sys.path.insert(0, str(Path(__file__).parent / "helpers"))
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when haystack is imported; tests send nothing anywhere

# The garbage collector would walk through all modules and tests again and again. It begins after the collection of
# tests, and leaves out what is there by then.
gc.disable()

# No deadlines: tests never judge wall-clock time. The same cases every time: a red test can be run again.
settings.register_profile("recprism", deadline=None, derandomize=True)
settings.load_profile("recprism")

WALKED = ((2, 8), (3, 16))
"""Epochs and dimensions of the trained runs that most tests use."""
MARKED_FOLDERS = ("browser", "faults")
"""Every test in these folders has the marker of that name; CONTRIBUTING.md says what markers mean."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and those that take the real data as ``ml1m``."""
    for item in items:
        if item.path.parent.name in MARKED_FOLDERS:
            item.add_marker(item.path.parent.name)
        if {"real_data", "ml1m"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("ml1m")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``needs`` where one of its packages is not installed, before any of its fixtures is made."""
    for package in (name for mark in item.iter_markers("needs") for name in mark.args):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


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


@pytest.fixture(scope="session")
def trained_run(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """(epochs=2, dim=8) -> a run on the embedded data, made once for all workers: everybody may change their copy.

    Usual ones have the path to subtopic coverage, so that a budget takes a second.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def run(epochs: int = 2, dim: int = 8) -> Run:
        first, part = shared / f"trained-{epochs}-{dim}", shared / f"part-{epochs}-{dim}"
        with FileLock(f"{first}.lock"):
            if not first.exists():
                split = small.split(seed=0)
                made = Run.create(part, RunConfig())
                made.save_data(small, split)
                made.save_factors(BPRMF(epochs=epochs, dim=dim).fit(split, seed=0, device="cpu"))
                if (epochs, dim) in WALKED:
                    make_path(made.problem(), "subtopic_coverage")  # asks no question, as the studio would
                part.rename(first)
        path = tmp_path_factory.mktemp("runs") / "run"
        shutil.copytree(first, path)
        return Run.open(path)

    return run


@pytest.fixture(scope="session")
def searched_run(trained_run: Callable[..., Run]) -> Callable[..., Run]:
    """(epochs, dim, settings of CMB) -> the same with a perturbation that players found."""

    def run(epochs: int = 2, dim: int = 8, **settings: object) -> Run:
        found = trained_run(epochs, dim)
        search = CMB(device="cpu", **settings).fit(found.factors(), found.split(), found.categories())
        result = Result.of_vectors(found.problem(), search.changed())
        found.set_diversify(DiversifyConfig(settings=settings))
        found.save_result(result)
        return found

    return run


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Words of a command line -> its exit code, in this process."""

    def run(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["recprism", *(str(word) for word in words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return int(stopped.value.code or 0)

    return run


@pytest.fixture
def small_rule() -> RuleFile:
    """An exported rule over 40 items with one of ten categories each."""
    return RuleFile(
        goals={"subtopic_coverage": 1.0},
        units={"subtopic_coverage": 0.1},
        trade_off=0.3,
        history_weight=0.0,
        k=5,
        candidates=20,
        constraints={},
        item_ids=np.arange(40),
        names=tuple(f"c{n}" for n in range(10)),
        indptr=np.arange(41),
        indices=(np.arange(40) % 10).astype(np.int32),
        shares=np.ones(40),
        unit=np.zeros((1, 1)),
        known=np.zeros(1, np.bool_),
    )
