"""Where training starts: at random, or from the singular vectors of the interactions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from recprism.models._sparse import Graph
from recprism.ranking._threads import one_thread

Start = Literal["spectral", "normal", "xavier"]
STARTS: tuple[Start, ...] = ("spectral", "normal", "xavier")
SWEEPS, OVERSAMPLING = 6, 10
SMALLEST_SHARE = 1e-6


def starting_vectors(
    graph: Graph, dim: int, generator: torch.Generator, *, start: Start, spectral_power: float
) -> Tensor:
    """(n_users + n_items, dim) float32, users above items.

    spectral: see ``spectral_vectors``; the root mean square of the entries is 1 on both sides
    normal: independent, standard deviation 1
    xavier: uniform within sqrt(6 / (rows + dim)) on each side
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
    """Users A S^power and items D_i^1/2 B, from the largest singular triples A S B^T of the normalised interactions.

    With power 1 the scores are a low-rank picture of D_u^-1/2 R: already a good recommender, from which BPR has little
    way to go. Where users or items are fewer than ``dim`` the columns left over are small and random.
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
    """(n_users, rank), (rank,), (n_items, rank): randomised subspace iteration."""
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
    """(columns,) of 1 and -1 that make the largest entry of each column positive.

    Either sign of a singular vector is right, and which one comes out hangs on the last digit of a sum, and so on the
    processor. Fixed, the same training gives nearly the same vectors everywhere (but for a column whose largest entries
    up and down are equal to the last digit, as in a world made symmetric).
    """
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))[0]
    return torch.where(largest < 0, -1.0, 1.0).to(vectors.dtype)


def _orthonormal(basis: Tensor) -> Tensor:
    squares, directions = _principal(basis)
    return basis @ (directions * squares.rsqrt())


def _principal(basis: Tensor) -> tuple[Tensor, Tensor]:
    """Squared singular values, largest first and none quite zero, and right singular vectors of a tall matrix.

    By way of the small Gram matrix: its products are quick where QR and SVD of the tall one wait for threads, and the
    accuracy that squaring costs is not needed. On one thread: a long sum that is cut among threads comes out otherwise
    in its last digit, and the sign of a singular vector may hang on that.
    """
    with one_thread():
        squares, directions = torch.linalg.eigh((basis.T @ basis).double())
    squares = squares.clamp_min(squares[-1] * SMALLEST_SHARE).clamp_min(torch.finfo(basis.dtype).tiny)
    return squares.flip(0).to(basis.dtype), directions.flip(1).to(basis.dtype)


def root_mean_square(vectors: Tensor) -> Tensor:
    with one_thread():
        return vectors.square().mean().sqrt().clamp_min(torch.finfo(vectors.dtype).tiny)
