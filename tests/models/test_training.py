"""Seeds, checkpoints, early stopping and breakdowns of the models on small data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError, RecprismError
from recprism.models import BPRMF, Factors, LightGCN
from recprism.models.adapters import ImplicitALS
from recprism.models.training import Checkpoint, Epoch, Task, Training

SMALL: dict[str, Any] = {"dim": 6, "epochs": 5, "patience": None, "batch_size": 100}
NEEDS_IMPLICIT = pytest.mark.needs("implicit")
MODELS = [
    BPRMF(**SMALL),
    BPRMF(**SMALL, start="xavier", loss="sum", weight_decay=1e-3, fixed_negatives=True),
    LightGCN(**SMALL, layers=2),
    LightGCN(**{**SMALL, "patience": 2, "epochs": 12}, learning_rate=0.3),
    pytest.param(ImplicitALS(dim=6, epochs=5), marks=NEEDS_IMPLICIT),
]


def same_bits(one: Factors, other: Factors) -> bool:
    vectors = one.user.tobytes() == other.user.tobytes() and one.item.tobytes() == other.item.tobytes()
    return vectors and one.settings == other.settings


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.name}-{m.epochs}")
def test_same_seed_same_bits_and_another_seed_other_bits(model: Any, blocks: Split) -> None:
    first = model.fit(blocks, seed=3, device="cpu")
    assert same_bits(first, model.fit(blocks, seed=3, device="cpu"))
    assert not same_bits(first, model.fit(blocks, seed=4, device="cpu"))


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    arrays, facts = checkpoint
    assert all(array.dtype.kind in "fu" for array in arrays.values())
    return arrays, json.loads(json.dumps(facts))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.name}-{m.epochs}")
def test_a_training_stopped_after_any_epoch_ends_with_the_same_bits(model: Any, blocks: Split) -> None:
    checkpoints: list[Checkpoint] = []
    undisturbed = model.fit(blocks, seed=1, device="cpu", checkpoint=lambda *state: checkpoints.append(state))
    assert len(checkpoints) == undisturbed.settings["epochs_trained"]
    for checkpoint in checkpoints:
        epochs_seen: list[Epoch] = []
        resumed = model.fit(blocks, seed=1, device="cpu", resume=through_json(checkpoint), progress=epochs_seen.append)
        assert same_bits(undisturbed, resumed)
        assert [epoch.epoch for epoch in epochs_seen] == list(range(checkpoint[1]["epoch"] + 1, len(checkpoints) + 1))


def test_an_interrupted_training_resumes_from_its_last_checkpoint(blocks: Split) -> None:
    model, kept = BPRMF(**SMALL), []

    def stop_after_two(arrays: Any, facts: Any) -> None:
        kept[:] = [(arrays, facts)]
        if facts["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(blocks, device="cpu", checkpoint=stop_after_two)
    assert same_bits(model.fit(blocks, device="cpu", resume=kept[0]), model.fit(blocks, device="cpu"))


def test_a_resumed_training_needs_no_seed_of_its_own(blocks: Split) -> None:
    kept: list[Checkpoint] = []
    model = BPRMF(**SMALL)
    whole = model.fit(blocks, seed=None, device="cpu", checkpoint=lambda *state: kept.append(state))
    assert same_bits(whole, model.fit(blocks, seed=None, device="cpu", resume=kept[1]))


def test_a_checkpoint_of_another_training_raises_an_error(blocks: Split) -> None:
    kept: list[Checkpoint] = []
    model = BPRMF(**SMALL)
    model.fit(blocks, seed=1, device="cpu", checkpoint=lambda *state: kept.append(state))
    with pytest.raises(InputError, match="seed = 1 and now it is 2"):
        model.fit(blocks, seed=2, device="cpu", resume=kept[0])
    with pytest.raises(InputError, match="learning_rate"):
        replace(model, learning_rate=0.5).fit(blocks, seed=1, device="cpu", resume=kept[0])
    with pytest.raises(InputError, match="model = 'bprmf' and now it is 'lightgcn'"):
        LightGCN(**SMALL).fit(blocks, seed=1, device="cpu", resume=kept[0])
    with pytest.raises(InputError, match="training data"):
        model.fit(replace(blocks, train=blocks.test), seed=1, device="cpu", resume=kept[0])
    arrays, facts = kept[0]
    del facts["steps"]
    with pytest.raises(InputError, match="lacks steps"):
        model.fit(blocks, seed=1, device="cpu", resume=(arrays, facts))


def test_a_resumed_training_may_have_more_epochs(blocks: Split) -> None:
    kept: list[Checkpoint] = []
    BPRMF(**SMALL).fit(blocks, device="cpu", checkpoint=lambda *state: kept.append(state))
    longer = BPRMF(**{**SMALL, "epochs": 8})
    assert same_bits(longer.fit(blocks, device="cpu"), longer.fit(blocks, device="cpu", resume=kept[-1]))


def test_early_stopping_keeps_the_best_epoch(blocks: Split) -> None:
    epochs_seen: list[Epoch] = []
    model = BPRMF(dim=4, epochs=60, patience=4, learning_rate=0.2, batch_size=100, start="normal")
    factors = model.fit(blocks, device="cpu", progress=epochs_seen.append)
    values = [epoch.validation for epoch in epochs_seen]
    best = int(np.argmax(values)) + 1
    assert factors.settings["best_epoch"] == epochs_seen[-1].best_epoch == best
    assert factors.settings["validation_ndcg@10"] == max(values)  # type: ignore[type-var]
    assert len(epochs_seen) == factors.settings["epochs_trained"] == best + 4 < 60
    until_best = replace(model, epochs=best, patience=None).fit(blocks, device="cpu")
    assert factors.user.tobytes() == until_best.user.tobytes()


def test_progress_reports_loss_validation_and_time_left(blocks: Split) -> None:
    epochs_seen: list[Epoch] = []
    BPRMF(dim=4, epochs=6, patience=50, batch_size=100).fit(blocks, device="cpu", progress=epochs_seen.append)
    assert [epoch.epoch for epoch in epochs_seen] == [1, 2, 3, 4, 5, 6]
    assert all(epoch.epochs == 6 and 0 <= epoch.validation <= 1 for epoch in epochs_seen)  # type: ignore[operator]
    assert epochs_seen[0].loss > epochs_seen[-1].loss > 0
    assert epochs_seen[0].seconds_left > 0 == epochs_seen[-1].seconds_left


def test_without_validation_the_last_epoch_counts(blocks: Split) -> None:
    epochs_seen: list[Epoch] = []
    factors = BPRMF(**SMALL).fit(blocks.refit(), device="cpu", progress=epochs_seen.append)
    assert [epoch.validation for epoch in epochs_seen] == [None] * 5
    assert factors.settings["best_epoch"] == 5 and factors.settings["validation_ndcg@10"] is None


def test_early_stopping_without_validation_is_an_error(blocks: Split) -> None:
    with pytest.raises(InputError, match="needs a validation part"):
        BPRMF().fit(blocks.refit(), device="cpu")


@pytest.mark.parametrize("model", [BPRMF, LightGCN])
def test_a_breakdown_says_where(model: Any, blocks: Split) -> None:
    exploding = model(dim=4, epochs=50, patience=None, learning_rate=1e30, batch_size=200)
    with pytest.raises(
        RecprismError,
        match=r"epoch 1, step 2: the loss is nan, and scores grew too large, with all vectors finite; the largest "
        r"number, -?1e\+30, is in the vector of (user 'u\d\d'|item 1\d\d); train again with a lower learning_rate "
        r"\(now 1e\+30\)",
    ):
        exploding.fit(blocks, device="cpu")


@NEEDS_IMPLICIT
def test_a_breakdown_of_least_squares_says_where(blocks: Split) -> None:
    kept: list[Checkpoint] = []
    with pytest.raises(RecprismError, match=r"epoch 1: the loss is nan, and the vector of user .* a lower alpha \(now"):
        ImplicitALS(dim=6, alpha=1e25, regularization=0).fit(blocks, checkpoint=lambda *state: kept.append(state))
    assert not kept


def test_a_breakdown_names_the_first_vector_that_is_not_finite(blocks: Split) -> None:
    model, kept = BPRMF(**SMALL), []
    model.fit(blocks, seed=1, device="cpu", checkpoint=lambda *state: kept.append(state))
    for row, name in ((7, "user 'u07'"), (blocks.n_users + 3, "item 103")):
        arrays = {**kept[1][0], "parameters": kept[1][0]["parameters"].copy()}
        arrays["parameters"][row, 2] = np.inf
        with pytest.raises(
            RecprismError, match=rf"epoch 3, step \d+: .* the vector of {name} is the first that is not"
        ):
            model.fit(blocks, seed=1, device="cpu", resume=(arrays, kept[1][1]))


def test_a_breakdown_ends_the_training_at_once() -> None:
    """The second loss is not finite: the error shows the vectors behind it, and no third batch is drawn."""
    drawn: list[int] = []

    def steps(parameters: Tensor, _: torch.Generator) -> Iterator[tuple[Tensor, int, Tensor]]:
        for number, loss in enumerate((1.0, math.inf, 1.0)):
            drawn.append(number)
            yield torch.tensor(loss), 1, torch.ones_like(parameters)

    task = Task(steps, None, 5, 5, 0.1, 0.0, {}, lambda place: f"number {place}")
    training = Training(task, torch.zeros(2, 2), torch.Generator())
    with pytest.raises(RecprismError, match="epoch 1, step 2: the loss is inf"):
        training.run(None, None)
    assert drawn == [0, 1] and training.adam.steps == 1


def test_a_vector_that_the_last_step_breaks_is_never_kept() -> None:
    def steps(parameters: Tensor, _: torch.Generator) -> Iterator[tuple[Tensor, int, Tensor]]:
        gradient = torch.zeros_like(parameters)
        gradient[1, 1] = math.nan
        yield torch.tensor(1.0), 1, gradient

    kept: list[Checkpoint] = []
    training = Training(
        Task(steps, None, 5, 5, 0.1, 0.0, {}, lambda place: f"number {place}"), torch.zeros(2, 2), torch.Generator()
    )
    with pytest.raises(
        RecprismError, match=r"step 1: the loss is 1, and number 3 is the first that is not finite \(1 of"
    ):
        training.run(None, lambda *state: kept.append(state))
    assert not kept


def test_a_generator_can_be_the_seed(blocks: Split) -> None:
    model = BPRMF(**SMALL)
    one, other = (model.fit(blocks, seed=np.random.default_rng(8), device="cpu") for _ in range(2))
    assert same_bits(one, other)
    assert same_bits(one, model.fit(blocks, seed=one.settings["seed"], device="cpu"))


def test_no_training_users_raise_an_error() -> None:
    empty = SparseRows.empty((3, 4))
    split = Split(empty, empty, empty, np.arange(3), np.arange(4))
    with pytest.raises(InputError, match="the training part has no interactions"):
        BPRMF(patience=None).fit(split, device="cpu")
