"""What would not fit is refused before it is made, and the sentence says what would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from recprism.cmb.players._memory import Players
from recprism.common import memory as room
from recprism.common.memory import free_bytes, require_room
from recprism.errors import TooLargeError
from recprism.models import BPRMF, Factors
from recprism.rule.pool import Pool

GIB = 2**30


def test_what_fits_passes_and_what_does_not_says_what_would() -> None:
    require_room(GIB, "it", "nothing", free=GIB)
    with pytest.raises(TooLargeError, match=r"^it need 3\.0 GiB of memory and 1\.0 GiB are free; at most 1 fits$"):
        require_room(3 * GIB, "it", lambda free: f"at most {free // GIB} fits", free=GIB)


def test_the_least_of_machine_container_and_own_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo, group = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable: 8000 kB\n", encoding="ascii")
    monkeypatch.setattr(room, "MEMINFO", meminfo)
    monkeypatch.setattr(room, "CGROUP", group)
    assert free_bytes() == 8000 * 1024
    group.mkdir()
    files = {
        "memory.max": "max\n",
        "memory.current": "1000000\n",
        "memory.stat": "anon 5\ninactive_file 100000\nactive_file 200000\n",
    }
    for name, text in files.items():
        (group / name).write_text(text, encoding="ascii")
    assert free_bytes() == 8000 * 1024, "no limit"
    (group / "memory.max").write_text("2000000\n", encoding="ascii")
    assert free_bytes() == 1_300_000
    (group / "memory.max").unlink()
    (group / "memory").mkdir()
    for name, text in (("limit_in_bytes", "500000"), ("usage_in_bytes", "600000"), ("stat", "cache 4\n")):
        (group / "memory" / f"memory.{name}").write_text(text, encoding="ascii")
    assert free_bytes() == 0, "version 1; nothing is left"
    meminfo.unlink()
    (group / "memory" / "memory.limit_in_bytes").unlink()
    assert free_bytes() is None, "no Linux"


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with 70 MB left."""
    (tmp_path / "meminfo").write_text("MemAvailable: 70000 kB\n", encoding="ascii")
    monkeypatch.setattr(room, "MEMINFO", tmp_path / "meminfo")


@pytest.mark.usefixtures("little")
def test_the_large_ones_ask_first() -> None:
    with pytest.raises(TooLargeError, match=r"100,000 players x 2,001 arms need 954\.\d MiB .* at most n_arms=143 or"):
        Players(100_000, 2001, 100, ties="first", zero=0)
    vectors = Factors.from_arrays(np.zeros((30_000, 2), np.float32), np.ones((2, 2), np.float32))
    with pytest.raises(
        TooLargeError, match=r"lists of 200 items for 30,000 users .* at most k=85 fits, or 12,800 user"
    ):
        vectors.rank(200)
    with pytest.raises(TooLargeError, match=r"20,000 users x 500 items .* at most block=17,920 users at a time fit"):
        from recprism.ranking import topk

        topk(np.zeros((20_000, 2)), np.ones((500, 2)), 1, engine="torch", block=20_000)
    with pytest.raises(TooLargeError, match=r"at most 179 candidates each fit"):
        Pool.of(torch.zeros((10_000, 200), dtype=torch.int64), torch.zeros(10_000, 200), torch.device("cpu"), 1)


@pytest.mark.usefixtures("little")
def test_training_asks_first(small: object) -> None:
    with pytest.raises(TooLargeError, match=r"vectors of 2,000 factors need 136\.5 MiB .* at most dim=1,001 fits"):
        BPRMF(dim=2000).fit(small.split(seed=0))  # type: ignore[attr-defined]


def test_a_limit_of_the_process_is_seen() -> None:
    code = """
import resource
from recprism.cmb.players._memory import Players
from recprism.errors import TooLargeError
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + 2**29
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    Players(1_000_000, 200, 100, ties="first", zero=0)
except TooLargeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "1,000,000 players x 200 arms need 953.7 MiB" in done.stdout
    assert "at most n_arms=1" in done.stdout
