"""Memory-mapped vectors rank as vectors in memory, and the file does not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recprism.data import id_files as module
from recprism.errors import InputError
from recprism.models import Factors
from recprism.ranking import topk_blocks


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    user, item, bias = (rng.standard_normal(shape, np.float32) for shape in ((40, 5), (30, 5), (30,)))
    names = [f"u{number}" for number in range(40)]
    Factors.from_arrays(user, item, user_ids=names, item_bias=bias).save(tmp_path / "factors.safetensors")
    return tmp_path / "factors.safetensors"


def test_mapped_factors_equal_loaded_factors(saved: Path) -> None:
    read, mapped = Factors.load(saved), Factors.load(saved, mapped=True)
    assert isinstance(mapped.user, np.memmap)
    for name in ("user", "item", "item_bias", "user_ids", "item_ids"):
        np.testing.assert_array_equal(getattr(mapped, name), getattr(read, name))
    np.testing.assert_array_equal(mapped.recommend("u7", 5)[0], read.recommend("u7", 5)[0])
    lists = np.concatenate([items for _, items, _ in topk_blocks(*mapped.search_vectors, 5, users_at_a_time=16)])
    np.testing.assert_array_equal(lists, read.rank(5)[0])


def test_nothing_is_written_back(saved: Path) -> None:
    before = saved.read_bytes()
    mapped = Factors.load(saved, mapped=True)
    mapped.item[:] = 0
    assert saved.read_bytes() == before


def test_many_consecutive_ids_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDS_WRITTEN", 10)
    path = tmp_path / "factors.safetensors"
    Factors.from_arrays(np.ones((20, 2)), np.ones((15, 2)), item_ids=np.arange(15) + 1).save(path)
    assert len(path.with_suffix(".json").read_text()) < 200
    for mapped in (False, True):
        loaded = Factors.load(path, mapped=mapped)
        assert loaded.user_ids.tolist() == list(range(20))
        assert loaded.item_ids.tolist() == list(range(1, 16))


def test_a_truncated_file_raises_an_error(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:300])
    with pytest.raises(InputError, match="not factors written by recprism"):
        Factors.load(saved, mapped=True)
