"""Start of a training: random vectors, or the singular vectors of the interactions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from recprism.common.threads import one_thread
from recprism.models._sparse import Graph

Start = Literal["spectral", "normal", "xavier"]
STARTS: tuple[Start, ...] = ("spectral", "normal", "xavier")
SWEEPS, OVERSAMPLING = 6, 10
SMALLEST_SHARE = 1e-6


def starting_vectors(
    graph: Graph, dim: int, generator: torch.Generator, *, start: Start, spectral_power: float
) -> Tensor:
    """Compute the vectors at the start of a training.

    Args:
        graph: The training interactions.
        dim: Length of the vectors.
        generator: Source of random numbers.
        start: "spectral": see ``spectral_vectors``; the root mean square of the entries is 1 on both sides. "normal":
            independent, standard deviation 1. "xavier": uniform within sqrt(6 / (rows + dim)) on each side.
        spectral_power: Exponent of the singular values on the user side.

    Returns:
        Users first, then items, (n_users + n_items, dim) float32.
    """
    if start == "spectral":
        return torch.cat(
            [side / root_mean_square(side) for side in spectral_vectors(graph, dim, spectral_power, generator)]
        )
    sizes, device = (graph.n_users, graph.n_items), graph.item_degree.device
    if start == "normal":
        return torch.randn(sum(sizes), dim, generator=generator, device=device)
    sides = [torch.rand(size, dim, generator=generator, device=device).mul_(2).sub_(1) for size in sizes]
    return torch.cat([side.mul_((6 / (len(side) + dim)) ** 0.5) for side in sides])


def spectral_vectors(graph: Graph, dim: int, power: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return users A S^power and items D_i^1/2 B, from the singular triples A S B^T of the normalised interactions.

    With power 1 the scores are a low-rank approximation of D_u^-1/2 R, which is already a good recommender. If there
    are fewer users or items than ``dim``, the remaining columns are small and random.
    """
    rank = min(dim, graph.n_users, graph.n_items)
    left, values, right = _largest_singular(graph, rank, generator)
    user, item = left * values**power, right * graph.item_degree.sqrt()[:, None]
    if rank == dim:
        return user, item
    spare = [
        torch.randn(len(side), dim - rank, generator=generator, device=side.device).mul_(0.1 * root_mean_square(side))
        for side in (user, item)
    ]
    return torch.cat([user, spare[0]], 1), torch.cat([item, spare[1]], 1)


def _largest_singular(graph: Graph, rank: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return (n_users, rank), (rank,) and (n_items, rank) by randomised subspace iteration."""
    width = min(rank + OVERSAMPLING, graph.n_users, graph.n_items)
    basis = torch.randn(graph.n_items, width, generator=generator, device=graph.item_degree.device)
    for _ in range(SWEEPS):
        basis = graph.to_items.receive(_orthonormal(graph.to_users.receive(_orthonormal(basis))))
    basis = _orthonormal(basis)
    image = graph.to_users.receive(basis)
    squares, directions = _principal(image)
    directions = directions[:, :rank]
    directions = directions * _signs(basis @ directions)
    return image @ (directions * squares[:rank].rsqrt()), squares[:rank].sqrt(), basis @ directions


def _signs(vectors: Tensor) -> Tensor:
    """Return signs, (columns,), that make the largest entry of each column positive.

    Both signs of a singular vector are valid, and rounding decides which one is found, so it depends on the processor.
    With a fixed sign, the same training gives nearly the same vectors on all processors. The exception is a column
    whose largest positive and negative entries are equal, as in symmetric data.
    """
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))[0]
    return torch.where(largest < 0, -1.0, 1.0).to(vectors.dtype)


def _orthonormal(basis: Tensor) -> Tensor:
    squares, directions = _principal(basis)
    return basis @ (directions * squares.rsqrt())


def _principal(basis: Tensor) -> tuple[Tensor, Tensor]:
    """Return squared singular values, largest first and above zero, and right singular vectors of a tall matrix.

    The small Gram matrix is faster than QR or SVD of the tall one, and the accuracy that squaring costs is not needed.
    It is computed on one thread, because a sum that threads share differs in its last digit, which can flip the sign of
    a singular vector.
    """
    with one_thread():
        squares, directions = torch.linalg.eigh((basis.T @ basis).double())
    squares = squares.clamp_min(squares[-1] * SMALLEST_SHARE).clamp_min(torch.finfo(basis.dtype).tiny)
    return squares.flip(0).to(basis.dtype), directions.flip(1).to(basis.dtype)


def root_mean_square(vectors: Tensor) -> Tensor:
    with one_thread():
        return vectors.square().mean().sqrt().clamp_min(torch.finfo(vectors.dtype).tiny)
