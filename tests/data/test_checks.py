"""Values that are wrong are refused where they enter, in one sentence and without a warning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb import CMB, noise, permuted
from recprism.cmb.settings import RULES
from recprism.common.checks import OneOf, Real, Several, Whole, random_generator, require_seed
from recprism.data.interactions import Interactions
from recprism.data.labels import split_labels
from recprism.data.split import split_interactions
from recprism.errors import InputError
from recprism.metrics import Context, compare, evaluate
from recprism.models import BPRMF, LightGCN
from recprism.models.adapters.als import ImplicitALS
from recprism.models.factors import Factors
from recprism.rivals import RERANKERS
from recprism.rule import Reranker
from recprism.testing import make_planted, make_world

CLASSES = {name: kind for name, kind in RERANKERS.items() if isinstance(kind, type) and issubclass(kind, Reranker)}
NOT_SEEDS = [-1, 10**20, 2**32, 1.5, math.nan, "7", True, [1]]
PAIRS = Interactions(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2]), np.arange(2), np.arange(3))
VECTORS = Factors.from_arrays([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
LISTS = [[0, 1], [1, 2]]
RELEVANT = Context(relevant=[[1, 0, 1], [0, 1, 0]])

SEEDED: dict[str, Callable[[Any], Any]] = {
    "split": lambda seed: split_interactions(PAIRS, seed=seed),
    "carve": lambda seed: split_interactions(PAIRS, "paper").carve_validation(0.5, seed=seed),
    "labels": lambda seed: split_labels(PAIRS, set_aside=0.4, seed=seed),
    "bootstrap": lambda seed: evaluate(LISTS, RELEVANT, ["ndcg@2"], seed=seed),
    "comparison": lambda seed: compare(*(evaluate(LISTS, RELEVANT, ["ndcg@2"], bootstrap=0),) * 2, seed=seed),
    "training": lambda seed: BPRMF(dim=2, epochs=1).fit(split_interactions(PAIRS), seed=seed, device="cpu"),
    "CMB": lambda seed: CMB(seed=seed),
    "shuffled": lambda seed: permuted(torch.zeros(2, 2), seed),
    "noise": lambda seed: noise((2, 2), 0.1, seed),
    "world": lambda seed: make_world(50, 40, 4, takes=5, seed=seed),
    "planted": lambda seed: make_planted(50, 40, takes=5, seed=seed),
}


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("what", SEEDED)
def test_seeds_that_are_none(what: str) -> None:
    for seed in NOT_SEEDS:
        with pytest.raises(InputError, match=r"^seed is .+; pass a whole number from 0 to 4,294,967,295$"):
            SEEDED[what](seed)


@pytest.mark.parametrize("name", sorted(name for name, kind in CLASSES.items() if "seed" in kind.rules))
@pytest.mark.parametrize("seed", NOT_SEEDS, ids=repr)
def test_seeds_of_rerankers(name: str, seed: Any) -> None:
    with pytest.raises(InputError, match=r"^seed is .+, or None for the order of the rows$"):
        CLASSES[name](seed=seed)


def test_seeds_in_range() -> None:
    assert [require_seed(seed) for seed in (0, np.int64(7), np.uint32(2**32 - 1))] == [0, 7, 2**32 - 1]
    generator = np.random.default_rng(3)
    assert random_generator(generator) is generator
    assert random_generator(5).integers(99) == np.random.default_rng(5).integers(99)
    assert random_generator(5, 2).integers(99) == np.random.default_rng([5, 2]).integers(99)


def test_the_seed_that_a_generator_draws_can_be_given_again() -> None:
    split = split_interactions(PAIRS)
    model = BPRMF(dim=2, epochs=1)
    drawn = model.fit(split, seed=np.random.default_rng(1), device="cpu")
    again = model.fit(split, seed=drawn.settings["seed"], device="cpu")
    np.testing.assert_array_equal(drawn.item, again.item)


# -- settings ---------------------------------------------------------------------------------------------------------

SETTINGS: dict[str, tuple[Callable[..., Any], Any]] = {
    "bprmf": (BPRMF, BPRMF.rules),
    "lightgcn": (LightGCN, LightGCN.rules),
    "als": (ImplicitALS, ImplicitALS.rules),
    "CMB": (CMB, RULES),
    **{name: (kind, kind.rules) for name, kind in CLASSES.items()},
}
CASES = [(kind, setting) for kind, (_, rules) in SETTINGS.items() for setting in rules]
ODD = [math.nan, math.inf, -math.inf, -1, -0.5, 1e300, 10**40, "abc", "1", [None], {}, 1j, b"1", np.float64("nan")]


@pytest.mark.parametrize(("kind", "setting"), CASES)
def test_settings_that_are_wrong(kind: str, setting: str) -> None:
    make, _ = SETTINGS[kind]
    for value in ODD:
        with pytest.raises(InputError, match=rf"^{setting}(\[\d\])? is .+; (pass|choose) "):
            make(**{setting: value})


@pytest.mark.parametrize(("kind", "setting"), CASES)
def test_none_only_where_it_means_something(kind: str, setting: str) -> None:
    make, rules = SETTINGS[kind]
    if getattr(rules[setting], "none", ""):
        make(**{setting: None})
        return
    with pytest.raises(InputError, match=rf"^{setting} is None; "):
        make(**{setting: None})


@pytest.mark.parametrize(("kind", "setting"), CASES)
def test_true_is_no_number(kind: str, setting: str) -> None:
    make, rules = SETTINGS[kind]
    if not isinstance(rules[setting], OneOf):
        with pytest.raises(InputError, match=rf"^{setting} is True; "):
            make(**{setting: True})


def test_every_setting_has_a_rule() -> None:
    # Metrics and devices have other checks.
    own = {"goals", "units", "diversity", "accuracy", "device", "users_per_step"}
    for kind, (make, rules) in SETTINGS.items():
        names = {entry.name for entry in fields(make)}  # type: ignore[arg-type]
        assert names - own == set(rules), kind


def test_numpy_numbers_become_plain_ones() -> None:
    model = BPRMF(dim=np.int32(8), learning_rate=np.float32(0.5))  # type: ignore[arg-type]
    assert (type(model.dim), type(model.learning_rate)) == (int, float)
    assert type(CMB(rate=np.float64(0.5)).rate) is float


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1, "much", None])
def test_weights_of_goals(weight: Any) -> None:
    with pytest.raises(InputError, match=r"^the weight of sc is .+; pass a number of at least 0"):
        CMB(diversity={"sc": weight})
    with pytest.raises(InputError, match=r"^the weight of goal 'sc' is "):
        RERANKERS["optimal"](goals={"sc": weight})


def test_goals_that_are_no_metrics() -> None:
    with pytest.raises(InputError, match=r"^diversity is 5; name a metric"):
        CMB(diversity=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("users", [1, True, 2.5, "all", math.nan, 10**20])
def test_users_per_step(users: Any) -> None:
    with pytest.raises(InputError, match=r"^users_per_step is .+; pass a whole number .+ for all users, or 'auto'$"):
        CMB(users_per_step=users)


@pytest.mark.parametrize(("rule", "end"), [(Real(0, 1, above=True), 0), (Real(0, 1, below=True), 1)])
def test_an_end_that_is_not_allowed(rule: Real, end: float) -> None:
    assert Real(0, 1).read("it", end) == end
    with pytest.raises(InputError, match=f"^it is {end}; pass a number "):
        rule.read("it", end)


@given(st.one_of(st.floats(), st.integers(), st.text(max_size=3), st.none(), st.booleans(), st.complex_numbers()))
def test_a_rule_returns_what_it_allows_or_raises(value: Any) -> None:
    for rule in (Whole(2, 9), Real(0, 1), Real(0, 1, above=True, below=True), OneOf(("a", 1)), Several(Whole())):
        try:
            found = rule.read("it", value)
        except InputError as problem:
            assert str(problem).startswith("it is ")
            continue
        assert found == value
        assert type(found) is type(value)
