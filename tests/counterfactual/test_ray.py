"""Users on the workers of a Ray cluster: the same bits as in one process with the same shards, whatever dies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from recprism.counterfactual import CMB
from recprism.data import Incidence, Split, Subtopics
from recprism.models import Factors

ray = pytest.importorskip("ray", reason="needs the extra [ray]")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One local cluster for all tests of the module: to start one takes seconds."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def world(n_users: int = 67, n_items: int = 40, d: int = 4) -> tuple[Factors, Split, Subtopics]:
    """Random factors, interactions and subtopics; some users have nothing to be judged by."""
    generator = np.random.default_rng(5)
    factors = Factors.from_arrays(generator.normal(size=(n_users, d)), generator.normal(size=(n_items, d)))
    parts = generator.choice(4, size=(n_users, n_items), p=[0.91, 0.03, 0.03, 0.03])
    train, validation, test = (Incidence.coerce(parts == part) for part in (1, 2, 3))
    topics = Incidence.coerce(generator.random((n_items, 6)) < 0.3)
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


def test_two_workers_find_what_one_process_with_two_shards_finds() -> None:
    local, remote = (shared(engine=engine, shards=2).fit(*world()) for engine in ("local", "ray"))
    assert same_bits(local, remote)
    assert remote.delta_.item is not None
    assert remote.delta_.item.any(), "something was found"
