"""Query adapters: invariants, recovery of known maps, and lists of users that they were not fitted to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.data import Incidence
from recprism.dials.query_adapter import QueryAdapter, QueryAdapterSettings
from recprism.errors import InputError
from recprism.models import Factors

LINEAR = QueryAdapterSettings(ridge=0.0)
NETWORK = QueryAdapterSettings(hidden=8, steps=50)

pytestmark = pytest.mark.slow


def vectors_of(seed: int, n: int = 40, d: int = 5) -> Any:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@given(st.integers(0, 10_000), st.sampled_from([LINEAR, replace(LINEAR, ridge=0.1), NETWORK]))
def test_an_adapter_fitted_to_no_change_is_the_identity(seed: int, settings: QueryAdapterSettings) -> None:
    vectors = vectors_of(seed)
    adapter = QueryAdapter(settings).fit(vectors, np.zeros_like(vectors))
    assert (adapter(vectors_of(seed + 1)) == vectors_of(seed + 1)).all()


@given(st.integers(0, 10_000))
def test_a_linear_map_is_recovered(seed: int) -> None:
    vectors, generator = vectors_of(seed), np.random.default_rng(seed)
    linear, offset = generator.normal(size=(5, 5)), generator.normal(size=5)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    adapter = QueryAdapter(LINEAR).fit(vectors, vectors @ linear + length * offset)
    new = vectors_of(seed + 1)
    size = np.linalg.norm(new, axis=1, keepdims=True)
    assert adapter(new) == pytest.approx(new + new @ linear + size * offset, abs=1e-3)
    assert adapter.with_strength(0.5)(new) == pytest.approx(new + (new @ linear + size * offset) / 2, abs=1e-3)


@given(st.integers(0, 10_000), st.sampled_from([LINEAR, NETWORK]), st.floats(0.01, 100))
def test_length_does_not_matter(seed: int, settings: QueryAdapterSettings, factor: float) -> None:
    vectors = vectors_of(seed)
    adapter = QueryAdapter(settings).fit(vectors, vectors_of(seed + 1))
    assert adapter(factor * vectors) == pytest.approx(factor * adapter(vectors), rel=1e-4, abs=1e-4 * factor)
    assert (adapter(np.zeros((2, 5))) == 0).all()


def test_a_network_fits_a_map_that_is_not_linear() -> None:
    vectors = vectors_of(0, n=400, d=2)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    changes = np.abs(unit) * np.linalg.norm(vectors, axis=1, keepdims=True)

    def error(settings: QueryAdapterSettings) -> float:
        return float(np.square(QueryAdapter(settings).fit(vectors, changes)(vectors) - vectors - changes).mean())

    assert error(QueryAdapterSettings(hidden=16, steps=400, ridge=0.0)) < 0.2 * error(LINEAR)


@pytest.mark.parametrize("settings", [LINEAR, NETWORK])
def test_same_seed_same_bits_also_after_saving(settings: QueryAdapterSettings, tmp_path: Path) -> None:
    vectors, changes = vectors_of(0), vectors_of(1)
    adapter = QueryAdapter(settings).fit(vectors, changes).with_strength(0.7)
    adapter.save(tmp_path / "adapter.safetensors")
    loaded = QueryAdapter.load(tmp_path / "adapter.safetensors")
    assert loaded.settings == adapter.settings
    assert (loaded(vectors) == adapter(vectors)).all()
    assert (QueryAdapter(adapter.settings).fit(vectors, changes)(vectors) == adapter(vectors)).all()
    assert (adapter(vectors)[3] == adapter(vectors[3])).all()


def wishes(n_users: int = 200, bias: bool = False) -> tuple[Factors, Any, Incidence]:
    """Users, and the lists that they would get if their vectors were rotated by a fixed angle."""
    generator = np.random.default_rng(0)
    user, item = generator.normal(size=(n_users, 4)), generator.normal(size=(60, 4))
    turned = user.copy()
    turned[:, 0], turned[:, 1] = 0.8 * user[:, 0] - 0.6 * user[:, 1], 0.6 * user[:, 0] + 0.8 * user[:, 1]
    extra = generator.normal(size=60) if bias else None
    exclude = Incidence.coerce(generator.random((n_users, 60)) < 0.1)
    factors = Factors.from_arrays(user, item, item_bias=extra)
    lists, _ = Factors.from_arrays(turned, item, item_bias=extra).rank(5, exclude=exclude)
    return factors, lists, exclude


def overlap(factors: Factors, lists: Any, exclude: Incidence) -> float:
    given_back, _ = factors.rank(lists.shape[1], exclude=exclude)
    return float((given_back[:, :, None] == lists[:, None, :]).any(2).mean())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("hidden", [0, 16])
def test_the_adapter_works_for_users_without_lists(hidden: int, bias: bool) -> None:
    factors, lists, exclude = wishes(bias=bias)
    some, others = np.arange(150), np.arange(150, 200)
    settings = QueryAdapterSettings(hidden=hidden, steps=300, ridge=0.0)
    adapter = QueryAdapter(settings).fit_lists(factors, lists[some], users=some, exclude=exclude.take_rows(some))
    away = factors.with_vectors(user=factors.user[others])
    before = overlap(away, lists[others], exclude.take_rows(others))
    after = overlap(adapter.applied_to(away), lists[others], exclude.take_rows(others))
    assert before < 0.75
    assert after > 0.85
    again = QueryAdapter(settings).fit_lists(factors, lists[some], users=some, exclude=exclude.take_rows(some))
    assert (again(factors.user) == adapter(factors.user)).all()


def test_short_lists_several_lists_and_zero_vectors() -> None:
    factors, lists, _ = wishes()
    user = factors.user.copy()
    user[1] = 0
    rows = lists[[0, 0, 1, 2]].copy()
    rows[1, 3:], rows[3] = -1, -1
    adapter = QueryAdapter(QueryAdapterSettings(steps=5)).fit_lists(
        factors.with_vectors(user=user), rows, users=[0, 0, 1, 2]
    )
    assert np.isfinite(adapter(user)).all()
    with pytest.raises(InputError, match="no list belongs to a user with a non-zero vector"):
        QueryAdapter().fit_lists(factors, np.full((1, 3), -1), users=[0])


def test_bad_input_raises_an_error(tmp_path: Path) -> None:
    vectors = vectors_of(0)
    with pytest.raises(InputError, match="not fitted yet; call fit or fit_lists"):
        QueryAdapter()(vectors)
    with pytest.raises(InputError, match="nothing to save"):
        QueryAdapter().save(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"shape \(40, 5\) and changes \(3, 5\)"):
        QueryAdapter().fit(vectors, vectors[:3])
    with pytest.raises(InputError, match="changes hold NaN"):
        QueryAdapter().fit(vectors, np.full_like(vectors, np.nan))
    with pytest.raises(InputError, match="3 columns; this adapter takes 5"):
        QueryAdapter().fit(vectors, vectors)(vectors[:, :3])
    with pytest.raises(InputError, match="hidden is -1"):
        QueryAdapterSettings(hidden=-1)
    with pytest.raises(InputError, match="temperature is 0"):
        QueryAdapterSettings(temperature=0)
    with pytest.raises(InputError, match="no such file"):
        QueryAdapter.load(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not an adapter"):
        QueryAdapter.load(tmp_path / "bad.safetensors")
    Factors.from_arrays(vectors, vectors).save(tmp_path / "factors.safetensors")
    with pytest.raises(InputError, match="no adapter written by recprism"):
        QueryAdapter.load(tmp_path / "factors.safetensors")
