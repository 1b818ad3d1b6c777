"""The five base models by name, their chosen settings, and the files that carry them between machines."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contest.base_models.exchange import model_key, read_model
from contest.base_models.tuned import CLASSES, choices, make_base_model, train, tuned_settings
from contest_files import LARGEST_FILE, read_splits, write_models, write_splits
from recprism.data import Dataset, Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters import ScoredCandidates

BENCHMARKS = str(Path(__file__).parents[3] / "benchmarks")


@pytest.mark.parametrize(
    "name", ["bprmf", pytest.param("als", marks=pytest.mark.needs("implicit")), "ease", "sasrec", "lightgcn"]
)
def test_every_model_ranks_the_users_of_a_split(name: str, cycle: Split) -> None:
    model = train(name, cycle, dataset="no such data", seed=0, device="cpu")
    assert isinstance(model, ScoredCandidates if name == "ease" else Factors)
    items, scores = model.rank(3, exclude=cycle.seen_before("test"))
    assert items.shape == (cycle.n_users, 3)
    assert np.isfinite(scores).all()


def test_unknown_models_and_settings_are_refused(cycle: Split) -> None:
    with pytest.raises(
        InputError, match="base model 'knn' is not known; choose one of bprmf, lightgcn, als, ease, sas"
    ):
        train("knn", cycle, dataset="ml-1m", seed=0)
    with pytest.raises(InputError, match="sasrec has no setting 'depth'"):
        make_base_model("sasrec", depth=3)


def test_every_choice_is_the_best_of_its_grid_and_makes_a_model() -> None:
    for key, choice in choices().items():
        name = key.split(".")[1]
        assert name in CLASSES
        make_base_model(name, **choice["settings"])
        best = max(entry["validation_ndcg@10"] for entry in choice["tried"])
        assert choice["validation_ndcg@10"] == best
        assert {"settings": choice["settings"], "validation_ndcg@10": best} in choice["tried"]


def test_a_choice_belongs_to_a_data_set_and_a_method() -> None:
    for key in choices():
        dataset, name, method = key.split(".")
        assert tuned_settings(name, dataset, method)
        assert tuned_settings(name, dataset, "paper") == {}
        assert tuned_settings(name, "other", method) == {}


def test_splits_travel_whole(small: Dataset, tmp_path: Path) -> None:
    splits = [small.split("random", seed=100), small.split("user-temporal"), small.split("temporal")]
    write_splits(tmp_path / "small.npz", splits)
    found = read_splits(tmp_path / "small.npz")
    assert list(found) == ["random.100", "user-temporal.0", "temporal.0"]
    for split, read in zip(splits, found.values(), strict=True):
        for part in ("train", "validation", "test"):
            assert np.array_equal(split.part(part).keys, read.part(part).keys)  # type: ignore[arg-type]
        assert (split.train_order is None) == (read.train_order is None)
        if split.train_order is not None:
            assert np.array_equal(split.train_order, read.train_order)


def test_models_travel_and_know_their_data(small: Dataset, tmp_path: Path) -> None:
    split = small.split("random", seed=100)
    factors = make_base_model("bprmf", dim=8, epochs=1).fit(split, seed=100, device="cpu")
    assert isinstance(factors, Factors)
    write_models(tmp_path / "a", {model_key("small", "bprmf", split, 100): (factors, split)})
    read = read_model(tmp_path, "small", "bprmf", split, 100)
    assert read is not None
    np.testing.assert_allclose(read.user, factors.user, rtol=1e-3, atol=1e-4)
    assert np.array_equal(read.item_ids, split.item_ids)
    assert read.settings["best_epoch"] == factors.settings["best_epoch"]
    assert read_model(tmp_path, "small", "bprmf", split, 101) is None
    other = replace(small.split("random", seed=7), settings=split.settings)
    with pytest.raises(InputError, match="was trained on other data"):
        read_model(tmp_path, "small", "bprmf", other, 100)


def test_files_of_models_stay_small(small: Dataset, tmp_path: Path) -> None:
    split = small.split("random", seed=100)
    wide = Factors.from_arrays(np.random.default_rng(0).random((split.n_users, 2000)), np.ones((split.n_items, 2000)))
    entries = {model_key("small", "bprmf", split, seed): (wide, split) for seed in range(4)}
    paths = write_models(tmp_path, entries)
    assert len(paths) == 4
    assert all(path.stat().st_size <= LARGEST_FILE for path in paths)
    biased = replace(wide, item_bias=np.ones(split.n_items, np.float32))
    with pytest.raises(InputError, match="has an item bias"):
        write_models(tmp_path, {"x": (biased, split)})


@pytest.mark.slow
def test_training_needs_torch_numpy_and_numba_only() -> None:
    code = """
import sys
sys.path.insert(0, sys.argv[1])
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("polars", "pydantic", "scipy", "safetensors", "implicit", "typer"):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import numpy as np
from recprism.data.interactions import Interactions
from recprism.data.split import split_interactions
from contest.base_models.tuned import train
user, item = (axis.ravel() for axis in np.mgrid[:30, :6])
rows = Interactions(user, (user + item) % 12, np.arange(30), np.arange(12), None, item)
split = split_interactions(rows, "leave-last")
for name in ("bprmf", "lightgcn", "ease", "sasrec"):
    train(name, split, dataset="x", seed=0, device="cpu").rank(2, exclude=split.train)
"""
    done = subprocess.run([sys.executable, "-c", code, BENCHMARKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
