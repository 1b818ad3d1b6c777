"""Users on the workers of a Ray cluster: the same bits as in one process with the same shards, also if a worker dies.

Workers take seconds to start, so there are few tests, and most of them also kill a worker.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from recprism.cmb import CMB
from recprism.cmb.history import Progress
from recprism.data import SparseRows, Split, Subtopics
from recprism.errors import InputError, RecprismError
from recprism.metrics import Context, Lists
from recprism.models import Factors
from recprism.parallel import RayExecutor, _ray_workers

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One local cluster for all tests of the module, because starting one takes seconds."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def world(n_users: int = 67, n_items: int = 40, d: int = 4) -> tuple[Factors, Split, Subtopics]:
    """Random factors, interactions and subtopics; some users have no validation items."""
    generator = np.random.default_rng(5)
    factors = Factors.from_arrays(generator.normal(size=(n_users, d)), generator.normal(size=(n_items, d)))
    parts = generator.choice(4, size=(n_users, n_items), p=[0.91, 0.03, 0.03, 0.03])
    train, validation, test = (SparseRows.coerce(parts == part) for part in (1, 2, 3))
    topics = SparseRows.coerce(generator.random((n_items, 6)) < 0.3)
    return (
        factors,
        Split(train, validation, test, factors.user_ids, factors.item_ids),
        Subtopics(tuple("abcdef"), topics),
    )


def same_bits(one: CMB, other: CMB) -> bool:
    sides = [(getattr(one.delta_, name), getattr(other.delta_, name)) for name in ("item", "user")]
    equal = [(a is None and b is None) or bool(torch.equal(a, b)) for a, b in sides]
    return one.history_ == other.history_ and all(equal)


def shared(**settings: object) -> CMB:
    return CMB.preset("shared", **{"accuracy": "recall", "k": 5, "iterations": 12, "epsilon": 0.3, **settings})


def learner(**settings: object) -> CMB:
    return CMB(**{"side": "both", "k": 5, "candidates": 10, "iterations": 6, "keep": "best", **settings})


def test_shared_credit_gives_the_same_bits_if_a_worker_is_killed() -> None:
    killed: list[int] = []

    def follow(progress: Progress) -> None:
        if len(progress.steps) == 4:
            killed.append(kill_a_worker())

    local = shared(shards=2).fit(*world())
    remote = shared(shards=2).fit(*world(), follow=follow, executor=RayExecutor())
    assert killed
    assert same_bits(local, remote)
    assert bool(remote.delta_.item.any()), "something was found"


def test_marginal_credit_gives_the_same_bits_if_a_worker_dies_in_a_call(tmp_path: Path) -> None:
    """Players of both sides; one goal depends on what all users are shown, the other is a local function."""
    armed, died = tmp_path / "armed", tmp_path / "died"

    def deadly(lists: Lists, context: Context) -> Tensor:
        if len(context.user_subtopics) == 33 and armed.exists() and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return (lists.items % 3 == 0).sum(1).double()

    def follow(progress: Progress) -> None:
        if len(progress.steps) == 3:
            armed.touch()

    goals = {deadly: 1.0, "catalogue_coverage": 0.5}
    local = learner(diversity=goals, shards=2).fit(*world())
    remote = learner(diversity=goals, shards=2).fit(*world(), follow=follow, executor=RayExecutor())
    assert died.exists()
    assert same_bits(local, remote)
    assert bool(remote.delta_.item.any())
    assert bool(remote.delta_.user.any())


def test_waiting_for_cpus_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task holds both CPUs until the warning is logged; then the search runs as usual."""
    taken, given_back, logged = tmp_path / "taken", tmp_path / "given back", []

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())
            given_back.touch()

    @ray.remote(num_cpus=2)
    def hold() -> None:
        taken.touch()
        while not given_back.exists():
            time.sleep(0.02)

    monkeypatch.setattr(_ray_workers, "WARN_AFTER", 0.5)
    held, hearing = hold.remote(), Hearing()
    while not taken.exists() or ray.available_resources().get("CPU", 0) > 0:
        time.sleep(0.02)
    logging.getLogger(_ray_workers.__name__).addHandler(hearing)
    try:
        remote = shared(shards=2, iterations=2).fit(*world(), executor=RayExecutor())
    finally:
        logging.getLogger(_ray_workers.__name__).removeHandler(hearing)
        given_back.touch()
        ray.get(held)
    address = ray.get_runtime_context().gcs_address
    assert [text.partition(";")[0] for text in logged] == [
        f"the Ray executor waits for 2 CPUs of the cluster at {address}, of which 0 are free"
    ]
    assert same_bits(shared(shards=2, iterations=2).fit(*world()), remote)


def test_a_worker_that_always_dies_ends_in_an_error(tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.touch()

    def deadly(lists: Lists, context: Context) -> Tensor:
        if len(context.user_subtopics) == 33 and deaths.stat().st_size < 6:
            with deaths.open("a", encoding="utf-8") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return lists.lengths.double()

    with pytest.raises(RecprismError, match="a Ray worker died, and 3 restarts did not help") as given_up:
        learner(diversity=deadly, shards=2).fit(*world(), executor=RayExecutor())
    assert "\n" not in str(given_up.value)
    assert deaths.read_text(encoding="utf-8") == "xxxx"


def kill_a_worker() -> int:
    """Send SIGKILL to the first worker process of this cluster, whose processes descend from this one."""
    titles = {int(entry.name): _title(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    workers = [
        pid for pid, title in titles.items() if title.startswith("ray::RayWorker") and _is_below(pid, os.getpid())
    ]
    os.kill(min(workers), signal.SIGKILL)
    return min(workers)


def _title(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # the process has ended


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        pid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    return pid == ancestor


def test_wrong_input_is_one_sentence() -> None:
    def one_number(lists: Lists, context: Context) -> Tensor:
        return lists.lengths.mean()

    with pytest.raises(InputError, match="one_number gives one number for all lists"):
        shared(diversity=one_number, shards=2).fit(*world(), executor=RayExecutor())
    with pytest.raises(InputError, match="68 shards for 67 users"):
        shared(shards=68).fit(*world(), executor=RayExecutor())
    with pytest.raises(InputError, match="rank on CPUs; drop device='cuda'"):
        shared(device="cuda").fit(*world(), executor=RayExecutor())


def test_an_executor_can_be_entered_several_times() -> None:
    """The inner block leaves the connection of the outer one open, and neither ends a session of the caller."""
    with RayExecutor() as executor:
        with executor:
            assert list(executor.map(pow, 2, [1, 2, 3])) == [2, 4, 8]
        assert executor.default_shards() == 2
    assert ray.is_initialized()
