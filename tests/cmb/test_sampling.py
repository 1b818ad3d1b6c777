"""Rewards from a sample of users: unbiased, and with a correct standard error."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from recprism.cmb import CMB
from recprism.cmb import _sampling as sample
from recprism.cmb._sampling import Sampling, mean_and_error
from recprism.cmb.history import Progress
from recprism.cmb.objective import Objective
from recprism.data import Categories, SparseRows, Split
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.models import Factors

N_USERS, N_ITEMS = 60, 40


@pytest.fixture(scope="module")
def world() -> tuple[Factors, Split, Categories]:
    rng = np.random.default_rng(0)
    factors = Factors.from_arrays(rng.normal(size=(N_USERS, 5)), rng.normal(size=(N_ITEMS, 5)))
    parts = rng.choice(4, size=(N_USERS, N_ITEMS), p=[0.7, 0.1, 0.1, 0.1])
    train, validation, test = (SparseRows.coerce(parts == part) for part in (1, 2, 3))
    categories = Categories(tuple("abcdef"), SparseRows.coerce(rng.random((N_ITEMS, 6)) < 0.3))
    return factors, Split(train, validation, test, factors.user_ids, factors.item_ids), categories


def test_every_sample_of_a_size_gives_psi_its_variance_and_the_reward_on_average() -> None:
    rng = np.random.default_rng(1)
    accuracy, diversity = (torch.from_numpy(rng.random(8)) for _ in range(2))
    objective, n_players = Objective("subtopic_coverage", "ndcg", lambda1=0.3, lambda2=0.6), 10
    psi = float(0.6 * accuracy.mean() + 0.4 * diversity.mean())
    drawn = [list(rows) for rows in itertools.combinations(range(8), 3)]
    found = [objective.psi_of_sample([accuracy[rows], diversity[rows]], 8) for rows in drawn]
    estimates, errors = (np.array(part, float) for part in zip(*found, strict=True))
    assert estimates.mean() == pytest.approx(psi)
    assert (errors**2).mean() == pytest.approx(estimates.var())
    rewards = [objective.reward(estimate, 2.0, n_players, error) for estimate, error in found]
    assert np.mean(rewards) == pytest.approx(objective.reward(psi, 2.0, n_players))
    assert np.mean(estimates**2) > psi**2, "without the error the reward would be too high"


def test_users_without_a_value_add_no_bias() -> None:
    values = torch.tensor([0.1, float("nan"), 0.9, 0.4, float("nan"), 0.6], dtype=torch.float64)
    drawn = [list(rows) for rows in itertools.combinations(range(6), 3)]
    counts = np.array([int((~values[rows].isnan()).sum()) for rows in drawn])
    estimates = np.array([float(mean_and_error([1.0], [values[rows]], 6)[0]) for rows in drawn])
    for count in np.unique(counts):
        assert estimates[counts == count].mean() == pytest.approx(float(values.nanmean()))


def test_samples_grow_and_all_users_are_equally_likely() -> None:
    sampling = Sampling(n_users=50, size=20, iterations=4000, seed=3)
    sizes = [sampling.size_at(iteration) for iteration in range(4000)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[2000], sizes[-1]) == (5, 20, 20)
    rows = [sampling.rows(iteration) for iteration in range(4000)]
    assert [len(set(drawn)) for drawn in rows] == sizes
    often = np.bincount(np.concatenate(rows), minlength=50)
    expected = sum(sizes) / 50
    assert np.abs(often - expected).max() < 5 * np.sqrt(expected)
    np.testing.assert_array_equal(rows[7], Sampling(50, 20, 4000, seed=3).rows(7))
    assert not np.array_equal(rows[3000], Sampling(50, 20, 4000, seed=4).rows(3000))


def test_a_context_of_some_users_judges_as_that_of_all(world: tuple[Factors, Split, Categories]) -> None:
    factors, split, categories = world
    context = Context.from_split(split, "validation", categories=categories, vectors=factors.item)
    items = torch.from_numpy(factors.rank(10, exclude=split.train)[0])
    rows = np.array([3, 7, 8, 41, 59])
    for name in ("ndcg", "subtopic_coverage", "alpha_ndcg", "ilad"):
        ((_, metric),) = Objective(name).metrics
        everybody = torch.as_tensor(metric(Lists(items, context), context))
        some = context.of_users(rows)
        torch.testing.assert_close(metric(Lists(items[rows], some), some), everybody[rows], equal_nan=True)


SETTINGS = {
    "marginal": {"iterations": 6},
    "shared": {"credit": "shared", "accuracy": "ndcg", "iterations": 12, "max_step": 0.3, "n_arms": 11, "keep": "best"},
}


@pytest.mark.parametrize("credit", SETTINGS)
def test_steps_have_error_and_users_and_resume_to_the_same_bits(
    world: tuple[Factors, Split, Categories], credit: str, tmp_path: Path
) -> None:
    model = CMB(**SETTINGS[credit], users_per_step=20, device="cpu")
    seen: list[Progress] = []
    model.fit(*world, follow=seen.append)
    assert (model.history_[0].users, model.history_[-1].users) == (5, 20)
    assert all(step.error is not None and 0 < step.error < 0.2 for step in model.history_)
    part = seen[2]
    stored = Progress.from_json(part.to_json(), part.arrays, json.loads(json.dumps(part.checkpoint_key)))
    again = CMB(**SETTINGS[credit], users_per_step=20, device="cpu").fit(*world, resume=stored)
    assert again.history_ == model.history_
    assert torch.equal(again.delta_.item, model.delta_.item)
    model.save(tmp_path)
    assert CMB.load(tmp_path).history_ == model.history_


@pytest.mark.parametrize("credit", SETTINGS)
def test_a_sample_of_all_users_is_no_sample(world: tuple[Factors, Split, Categories], credit: str) -> None:
    everybody, auto, many = (
        CMB(**SETTINGS[credit], users_per_step=users, device="cpu").fit(*world) for users in (None, "auto", N_USERS)
    )
    assert everybody.history_ == auto.history_ == many.history_
    assert everybody.history_[0].users is None
    assert torch.equal(everybody.delta_.item, many.delta_.item)


def test_large_data_is_sampled_by_default(
    world: tuple[Factors, Split, Categories], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sample, "ALL_UP_TO", 50)
    monkeypatch.setattr(sample, "AUTO_SAMPLE", 10)
    with caplog.at_level(logging.WARNING):
        model = CMB(iterations=4, device="cpu").fit(*world)
    assert model.history_[-1].users == 10
    assert "60 users: each step looks at up to 10 of them; users_per_step=None takes all" in caplog.text
    assert CMB(iterations=4, device="cpu", users_per_step=None).fit(*world).history_[-1].users is None
    # One value for all lists cannot be estimated from a sample, and a function of your own may return one. The preset
    # of the paper never samples.
    for diversity in ("catalogue_coverage", lambda lists, _: lists.lengths.double().mean()):
        whole = CMB.preset("shared", iterations=4, device="cpu", diversity=diversity).fit(*world)
        assert whole.history_[-1].users is None
    assert CMB.preset("paper", iterations=4, device="cpu").fit(*world).history_[-1].users is None


@pytest.mark.parametrize(
    "settings",
    [{"side": "user"}, {"diversity": "catalogue_coverage"}, {"diversity": {"subtopic_coverage": 1.0, "gini": 1.0}}],
)
def test_a_sample_is_refused_where_it_is_not_possible(
    world: tuple[Factors, Split, Categories], settings: dict[str, object]
) -> None:
    with pytest.raises(InputError, match="a sample can stand for all users under side='item'"):
        CMB(**settings, users_per_step=20, device="cpu").fit(*world)


@pytest.mark.parametrize("users", [1, -3, "many", 2.5])
def test_wrong_settings_are_refused(users: object) -> None:
    with pytest.raises(InputError, match=r"users_per_step is .+; pass a whole number of at least 2"):
        CMB(users_per_step=users)


@pytest.mark.parametrize("credit", SETTINGS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"users_per_step": 30}, "users_per_step = 20 and now it is 30"),
        ({"users_per_step": None}, "users_per_step = 20 and now it is None"),
        ({"seed": 1}, "seed = 0 and now it is 1"),
        ({"iterations": 14}, r"iterations = \d+ and now it is 14"),
        ({"diversity": "alpha_ndcg"}, "diversity = 'subtopic_coverage' and now it is 'alpha_ndcg'"),
    ],
)
def test_resuming_with_other_settings_is_refused(
    world: tuple[Factors, Split, Categories], credit: str, change: dict[str, object], said: str
) -> None:
    begun = {**SETTINGS[credit], "diversity": "subtopic_coverage", "users_per_step": 20, "device": "cpu"}
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CMB(**begun).fit(*world, follow=stop)
    with pytest.raises(InputError, match=f"the search was begun with {said}; resume with the same"):
        CMB(**{**begun, **change}).fit(*world, resume=seen[-1])
    with pytest.raises(InputError, match="does not name its settings"):
        CMB(**begun).fit(*world, resume=Progress(seen[-1].steps, seen[-1].arrays))


def test_resuming_on_other_vectors_is_refused(world: tuple[Factors, Split, Categories]) -> None:
    factors, split, categories = world
    seen: list[Progress] = []
    CMB(iterations=2, device="cpu").fit(factors, split, categories, follow=seen.append)
    other = factors.with_vectors(item=factors.item * np.float32(1.1))
    with pytest.raises(InputError, match=r"begun with vectors = '.*checksum \w{8}' and now it is"):
        CMB(iterations=2, device="cpu").fit(other, split, categories, resume=seen[0])


def test_a_resumed_search_with_shared_credit_may_run_longer(
    world: tuple[Factors, Split, Categories],
) -> None:
    settings = {**SETTINGS["shared"], "users_per_step": None, "device": "cpu"}
    seen: list[Progress] = []
    CMB(**{**settings, "iterations": 4}).fit(*world, follow=seen.append)
    longer, undisturbed = (CMB(**settings).fit(*world, resume=stood) for stood in (seen[-1], None))
    assert longer.history_ == undisturbed.history_
    assert torch.equal(longer.delta_.item, undisturbed.delta_.item)  # type: ignore[arg-type]
