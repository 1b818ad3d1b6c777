"""Closed-form gradients against autograd, dense matrices and numpy's SVD."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from recprism.data.sparse_rows import SparseRows
from recprism.models._adam import Adam
from recprism.models._pairwise import bpr_slope
from recprism.models._sparse import Graph, weighted_sums
from recprism.models._start import spectral_vectors, starting_vectors
from recprism.models.lightgcn import LightGCN
from recprism.models.sampling import Batch, Triples

CPU = torch.device("cpu")


def some_batch(train: SparseRows, negatives: int = 3) -> Batch:
    return next(Triples(train, negatives, CPU).batches(100, torch.Generator().manual_seed(1)))


def written_out_loss(user: torch.Tensor, item: torch.Tensor, batch: Batch) -> torch.Tensor:
    total = torch.zeros((), dtype=user.dtype)
    for u, i, negatives in zip(*(column.tolist() for column in batch), strict=True):
        for j in negatives:
            total = total - logsigmoid(user[u] @ item[i] - user[u] @ item[j])
    return total


def test_bpr_slope_equals_autograd(random_matrix: SparseRows) -> None:
    generator = torch.Generator().manual_seed(0)
    user = torch.randn(40, 7, generator=generator, requires_grad=True)
    item = torch.randn(30, 7, generator=generator, requires_grad=True)
    batch = some_batch(random_matrix)
    loss = written_out_loss(user, item, batch)
    loss.backward()
    slope = bpr_slope(user.detach(), item.detach(), batch)
    torch.testing.assert_close(slope.loss, loss.detach(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(slope.user, user.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slope.item, item.grad, rtol=1e-4, atol=1e-5)


def test_the_slope_points_downhill_and_stays_finite_for_huge_scores(random_matrix: SparseRows) -> None:
    generator = torch.Generator().manual_seed(0)
    user, item = torch.randn(40, 5, generator=generator), torch.randn(30, 5, generator=generator)
    batch = some_batch(random_matrix)
    here = bpr_slope(user, item, batch)
    there = bpr_slope(user - 1e-3 * here.user, item - 1e-3 * here.item, batch)
    assert there.loss < here.loss
    far = bpr_slope(user * 1e4, item * 1e4, batch)
    assert all(bool(torch.isfinite(part).all()) for part in far)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_equals_torch(weight_decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(5, 3, generator=generator)
    theirs = ours.clone().requires_grad_()
    adam = Adam(ours, 0.05, weight_decay)
    reference = torch.optim.Adam([theirs], lr=0.05, weight_decay=weight_decay)
    for _ in range(30):
        gradient = torch.randn(5, 3, generator=generator)
        theirs.grad = gradient.clone()
        adam.step(gradient)
        reference.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_weighted_sums_are_a_sparse_product() -> None:
    generator = np.random.default_rng(0)
    dense = generator.random((6, 9)) * (generator.random((6, 9)) < 0.4)
    dense[2] = 0
    rows = SparseRows.coerce(dense)
    weights = torch.from_numpy(dense[rows.row_of_entry, rows.indices].astype(np.float32))
    other = torch.from_numpy(generator.random((9, 4)).astype(np.float32))
    got = weighted_sums(torch.from_numpy(rows.indptr), torch.from_numpy(rows.indices.astype(np.int64)), weights, other)
    np.testing.assert_allclose(got, dense @ other.numpy(), rtol=1e-5)


def dense_lightgcn(train: np.ndarray, vectors: np.ndarray, layers: int) -> np.ndarray:
    """Propagate with the full (users + items)^2 adjacency matrix, as in the definition."""
    n_users, n_items = train.shape
    adjacency = np.zeros((n_users + n_items,) * 2)
    adjacency[:n_users, n_users:] = train
    adjacency[n_users:, :n_users] = train.T
    degree = adjacency.sum(1)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    normalised = scale[:, None] * adjacency * scale[None, :]
    powers = [np.linalg.matrix_power(normalised, layer) for layer in range(layers + 1)]
    return np.mean([power @ vectors for power in powers], axis=0)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_propagation_equals_the_dense_definition(random_matrix: SparseRows, layers: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(70, 6)).astype(np.float32)
    got = Graph.of(random_matrix, CPU).smooth(torch.from_numpy(vectors), layers)
    np.testing.assert_allclose(got, dense_lightgcn(random_matrix.dense(), vectors, layers), rtol=1e-4, atol=1e-6)


def test_gradient_through_propagation_equals_autograd_through_the_dense_matrix(random_matrix: SparseRows) -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(70, 5, generator=generator)
    batch = some_batch(random_matrix)
    operator = torch.from_numpy(dense_lightgcn(random_matrix.dense(), np.eye(70), 3)).float()
    parameters = start.clone().requires_grad_()
    vectors = operator @ parameters
    written_out_loss(vectors[:40], vectors[40:], batch).backward()
    smooth = LightGCN(layers=3)._smoothing(Graph.of(random_matrix, CPU))
    ours = smooth(start)
    slope = bpr_slope(ours[:40], ours[40:], batch)
    gradient = smooth(torch.cat([slope.user, slope.item]))
    torch.testing.assert_close(gradient, parameters.grad, rtol=1e-3, atol=1e-4)


def test_spectral_vectors_are_singular_vectors(random_matrix: SparseRows) -> None:
    dense = random_matrix.dense().astype(float)
    users, items = dense.sum(1), dense.sum(0)
    half = np.where(users > 0, users, np.inf)[:, None] ** -0.5 * dense
    normalised = half * np.where(items > 0, items, np.inf) ** -0.5
    left, values, right = np.linalg.svd(normalised, full_matrices=False)
    wanted = (left[:, :20] * values[:20] @ right[:20]) * np.sqrt(items)
    user, item = spectral_vectors(Graph.of(random_matrix, CPU), 20, 1.0, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(user @ item.T, wanted, atol=2e-4)


@pytest.mark.parametrize("start", ["spectral", "normal", "xavier"])
def test_starts_have_the_documented_size_also_for_few_items(random_matrix: SparseRows, start: str) -> None:
    graph = Graph.of(random_matrix, CPU)
    vectors = starting_vectors(graph, 50, torch.Generator().manual_seed(0), start=start, spectral_power=1.0)  # type: ignore[arg-type]
    assert vectors.shape == (70, 50) and bool(torch.isfinite(vectors).all())
    user, item = vectors[:40], vectors[40:]
    if start == "xavier":
        assert user.abs().max() <= (6 / 90) ** 0.5 and item.abs().max() <= (6 / 80) ** 0.5
        assert item.abs().max() > (6 / 90) ** 0.5
    else:
        assert abs(float(user.square().mean()) - 1) < 0.1
        assert not (vectors[:, 30:] == 0).all()
