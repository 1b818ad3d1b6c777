"""Models: known answers on data of two blocks, settings, presets, cold users, names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import BPRMF, Factors, LightGCN
from recprism.models.adapters import ImplicitALS
from recprism.models.registry import MODELS, make_model

NEEDS_IMPLICIT = pytest.mark.needs("implicit")
WORLDS: list[Any] = [
    BPRMF(dim=8, batch_size=200),
    BPRMF(dim=8, batch_size=200, start="normal", start_scale=0.1, learning_rate=0.02, weight_decay=0.0, patience=15),
    BPRMF(dim=8, batch_size=200, start="xavier", learning_rate=0.02, weight_decay=0.0, patience=15),
    LightGCN(dim=8, batch_size=200),
    LightGCN(dim=8, batch_size=200, layers=1, start="normal"),
    pytest.param(ImplicitALS(dim=4), marks=NEEDS_IMPLICIT),
]


@pytest.mark.parametrize("model", WORLDS, ids=lambda m: f"{m.name}-{getattr(m, 'start', '')}")
def test_users_get_items_of_their_own_block(model: Any, blocks: Split) -> None:
    factors = model.fit(blocks, device="cpu")
    items, _ = factors.rank(10, exclude=blocks.seen_before_test)
    own_block = (np.arange(60) >= 30)[:, None] == (items >= 25)
    assert own_block.mean() > 0.95
    assert not any(set(items[user]) & set(blocks.seen_before_test.row(user)) for user in range(60))


def test_factors_carry_ids_and_settings(blocks: Split) -> None:
    factors = BPRMF(dim=8, epochs=3).fit(blocks, seed=11, device="cpu")
    assert factors.user_ids.tolist() == blocks.user_ids.tolist()
    assert factors.item_ids.tolist() == blocks.item_ids.tolist()
    expected = {"model": "bprmf", "dim": 8, "epochs": 3, "seed": 11, "device": "cpu"}
    assert expected.items() <= factors.settings.items()
    assert {"version", "best_epoch", "epochs_trained", "validation_ndcg@10"} <= set(factors.settings)
    ids, scores = factors.recommend("u03", 5, exclude=blocks.train)
    assert ids.shape == scores.shape == (5,) and set(ids) <= set(range(100, 125))


@pytest.mark.parametrize("model", [BPRMF(dim=3, epochs=2), LightGCN(dim=3, epochs=2)])
def test_trained_factors_survive_a_file(model: Any, blocks: Split, tmp_path: Path) -> None:
    factors = model.fit(blocks, device="cpu")
    factors.save(tmp_path / "f.safetensors")
    back = Factors.load(tmp_path / "f.safetensors")
    assert back.user.tobytes() == factors.user.tobytes() and back.item.tobytes() == factors.item.tobytes()
    assert back.user_ids.tolist() == factors.user_ids.tolist() and back.settings == factors.settings


def test_users_without_history_get_the_mean_vector(blocks: Split) -> None:
    keep = blocks.train.row_of_entry != 7
    train = SparseRows.from_pairs(blocks.train.row_of_entry[keep], blocks.train.indices[keep], blocks.train.shape)
    split = Split(train, blocks.validation, blocks.test, blocks.user_ids, blocks.item_ids)
    factors = BPRMF(dim=4, epochs=3).fit(split, device="cpu")
    np.testing.assert_allclose(factors.user[7], np.delete(factors.user, 7, axis=0).mean(0), rtol=1e-5, atol=1e-7)


def test_a_user_with_all_items_is_allowed(random_matrix: SparseRows) -> None:
    empty = SparseRows.empty(random_matrix.shape)
    split = Split(random_matrix, empty, empty, np.arange(40), np.arange(30))
    for model in (BPRMF(dim=4, epochs=3, patience=None), LightGCN(dim=4, epochs=3, patience=None)):
        factors = model.fit(split, device="cpu")
        items, _ = factors.rank(5, exclude=random_matrix)
        assert (items[0] == -1).all()


def test_more_factors_than_items_can_be_trained(blocks: Split) -> None:
    assert BPRMF(dim=80, epochs=2).fit(blocks, device="cpu").user.shape == (60, 80)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 2.5}, "dim is 2.5"),
        ({"epochs": -1}, "epochs is -1"),
        ({"patience": 0}, "patience is 0"),
        ({"batch_size": True}, "batch_size is True"),
        ({"negatives": 0}, "negatives is 0"),
        ({"learning_rate": 0}, "learning_rate is 0; pass a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"weight_decay": -1e-3}, "weight_decay is -0.001; pass a number of at least 0"),
        ({"start": "zeros"}, "choose one of spectral, normal, xavier"),
        ({"loss": "median"}, "choose one of mean, sum"),
        ({"negatives_avoid": "none"}, "choose one of train, all"),
    ],
)
def test_invalid_settings_raise_an_error(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        BPRMF(**wrong)


def test_layers_are_checked() -> None:
    with pytest.raises(InputError, match="layers is -1"):
        LightGCN(layers=-1)
    LightGCN(layers=0)


def test_models_by_name() -> None:
    assert make_model("bprmf", dim=16) == BPRMF(dim=16)
    assert make_model("lightgcn", layers=2) == LightGCN(layers=2)
    assert isinstance(make_model("als"), ImplicitALS)
    with pytest.raises(InputError, match="choose one of bprmf, lightgcn, als"):
        make_model("svd")
    with pytest.raises(InputError, match="has no setting 'factors'; it has dim"):
        make_model("bprmf", factors=3)
    with pytest.raises(InputError, match="no preset 'best'; choose one of default, paper"):
        make_model("bprmf", "best")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_default_preset(name: str) -> None:
    assert make_model(name) == make_model(name, "default")


def test_the_paper_preset() -> None:
    paper = BPRMF.preset("paper")
    assert (paper.dim, paper.learning_rate, paper.weight_decay, paper.loss) == (50, 0.005, 1e-3, "sum")
    assert (paper.batch_size, paper.negatives, paper.fixed_negatives) == (10_240, 3, True)
    assert (paper.start, paper.epochs, paper.patience) == ("xavier", 5, None)
    assert BPRMF.preset("paper", epochs=6).epochs == 6
    graph = LightGCN.preset("paper")
    assert (graph.layers, graph.dim, graph.learning_rate, graph.negatives, graph.loss) == (3, 50, 0.005, 3, "sum")


@pytest.mark.parametrize(
    ("device", "words"), [("gpu", "not known"), ("meta", "cpu or cuda"), ("cuda:99", "there is no device")]
)
def test_unusable_devices_raise_an_error(device: str, words: str, blocks: Split) -> None:
    with pytest.raises(InputError, match=words):
        BPRMF(epochs=1).fit(blocks, device=device)


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_IMPLICIT if name == "als" else ()) for name in MODELS])
def test_nothing_is_printed(
    name: str, blocks: Split, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        make_model(name, dim=4, epochs=2).fit(blocks)
    assert capfd.readouterr() == ("", "") and not caplog.records
