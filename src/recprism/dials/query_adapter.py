"""A query adapter p -> p + f(p): learned from some users, it applies to any user vector, without lists or labels.

f(p) = |p| * g(p / |p|), so that only the direction of a vector affects the lists, as with a dot product. g is a linear
map, plus one hidden layer if ``hidden`` is above 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import softplus

from recprism.data._checks import AMOUNT, COUNT, POSITIVE, SEED, Rule, Whole, check_settings
from recprism.data._files import atomic_path
from recprism.data.incidence import Incidence
from recprism.dials._wanted import Wanted
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models._adam import Adam
from recprism.ranking import topk
from recprism.ranking._threads import one_thread

FloatArray = NDArray[np.float32]
FORMAT = "recprism adapter 1"
AVERAGED = 0.25  # the result is the mean over this last share of the steps, which smooths out single batches


@dataclass(frozen=True, kw_only=True)
class QueryAdapterSettings:
    """Settings of a query adapter.

    Attributes:
        hidden: Units of the hidden layer; 0 gives a linear map.
        ridge: Penalty on the size of the change: this times the mean of ``|f(p)|^2 / |p|^2`` is added to the loss. For
            ``fit`` of a linear map it is the usual ridge penalty on the entries of the map.
        strength: The adapter returns p + strength * f(p).
        steps: Steps of Adam. A linear map fitted to changes has a closed form and uses none.
        batch: Rows per step.
        learning_rate: Learning rate of Adam at the first step; it falls linearly to 0.
        temperature: How soft the boundary between list and other items is, in standard deviations of a user's scores;
            used by ``fit_lists``.
        rivals: Items outside the list that count per list, the best of the base model; used by ``fit_lists``.
        seed: Seed of batches and of the hidden layer.

    Stability: provisional.
    """

    hidden: int = 0
    ridge: float = 1e-2
    strength: float = 1.0
    steps: int = 1000
    batch: int = 256
    learning_rate: float = 0.01
    temperature: float = 0.1
    rivals: int = 150
    seed: int = 0

    rules: ClassVar[Mapping[str, Rule]] = {
        "hidden": Whole(0),
        "ridge": AMOUNT,
        "strength": AMOUNT,
        "steps": COUNT,
        "batch": COUNT,
        "learning_rate": POSITIVE,
        "temperature": POSITIVE,
        "rivals": COUNT,
        "seed": SEED,
    }

    def __post_init__(self) -> None:
        check_settings(self, self.rules)


@dataclass(frozen=True, eq=False)
class QueryAdapter:
    """A map from user vectors to adapted user vectors; ``fit`` and ``fit_lists`` return a fitted one.

    Attributes:
        settings: How the map is learned and applied.
        weights: float32 arrays by name: linear (d, d), offset (d,), and with a hidden layer into (d, h), shift (h,)
            and out (h, d). The map is g(x) = x @ linear + offset + tanh(x @ into + shift) @ out. None before a fit.

    Stability: provisional.
    """

    settings: QueryAdapterSettings = QueryAdapterSettings()
    weights: dict[str, FloatArray] | None = None

    def __call__(self, vectors: ArrayLike) -> FloatArray:
        """Adapt vectors, (n, d) or (d,); the result has the same shape, and a zero vector does not change."""
        if self.weights is None:
            raise InputError("this adapter is not fitted yet; call fit or fit_lists and use what they return")
        given = _matrix(vectors, "vectors")
        if given.shape[-1] != len(self.weights["offset"]):
            raise InputError(
                f"vectors have {given.shape[-1]} columns; this adapter takes {len(self.weights['offset'])}"
            )
        length = np.linalg.norm(given, axis=-1, keepdims=True)
        unit = given / np.where(length > 0, length, 1)
        change = unit @ self.weights["linear"] + self.weights["offset"]
        if "out" in self.weights:
            change += np.tanh(unit @ self.weights["into"] + self.weights["shift"]) @ self.weights["out"]
        return np.asarray(given + np.float32(self.settings.strength) * length * change, np.float32)

    def applied_to(self, factors: Factors) -> Factors:
        """Return the recommender with all user vectors adapted."""
        return factors.with_vectors(user=self(factors.user))

    def with_strength(self, strength: float) -> QueryAdapter:
        """Return the same map with another strength."""
        return QueryAdapter(replace(self.settings, strength=strength), self.weights)

    def fit(self, user_vectors: ArrayLike, changes: ArrayLike) -> QueryAdapter:
        """Fit the map to known changes by least squares.

        Args:
            user_vectors: User vectors, (n, d).
            changes: The change of each vector, (n, d), such as the user side of :func:`lists_to_vectors`.

        Returns:
            A fitted adapter.

        Raises:
            InputError: The arrays do not have the same shape, or are empty.
        """
        vectors, wanted = _matrix(user_vectors, "user vectors"), _matrix(changes, "changes")
        if vectors.ndim != 2 or vectors.shape != wanted.shape or not len(vectors):
            raise InputError(
                f"user vectors have shape {vectors.shape} and changes {wanted.shape}; give one change per vector"
            )
        length = np.linalg.norm(vectors, axis=1)
        some = length > 0  # a zero vector has no direction to learn from
        unit, relative = vectors[some] / length[some, None], wanted[some] / length[some, None]
        if not self.settings.hidden:
            return QueryAdapter(self.settings, _ridge(unit, relative, self.settings.ridge))
        x, y = torch.from_numpy(unit), torch.from_numpy(relative)

        def loss(rows: Tensor, change: Tensor) -> Tensor:
            return (change - y[rows]).square().sum(1).mean()

        return QueryAdapter(self.settings, _descend(self.settings, x, loss))

    def fit_lists(
        self, base: Factors, lists: ArrayLike, *, users: ArrayLike | None = None, exclude: Incidence | Any | None = None
    ) -> QueryAdapter:
        """Fit the map so that the adapted vectors return ``lists``.

        The loss of a list item with score s is -log(e^s / (e^s + sum of e^s' over items outside the list)). Scores are
        in units of the temperature.

        Args:
            base: The recommender whose user vectors are adapted.
            lists: Item numbers, (n_rows, k), as in :func:`lists_to_vectors`.
            users: The user of each list, (n_rows,).
            exclude: Items that cannot be recommended, (n_rows, n_items).

        Returns:
            A fitted adapter.

        Raises:
            InputError: No list belongs to a user with a non-zero vector.
        """
        wanted = Wanted.of(base, lists, users=users, exclude=exclude, margin=1.0)
        some = np.flatnonzero((wanted.lengths > 0) & (np.linalg.norm(base.user, axis=1)[wanted.users] > 0))
        if not len(some):
            raise InputError("no list belongs to a user with a non-zero vector; give lists of other users")
        listed, rivals = _contest(base, wanted, some, self.settings.rivals)
        length = np.linalg.norm(base.user[wanted.users[some]], axis=1, keepdims=True)
        x = torch.from_numpy(base.user[wanted.users[some]] / length)
        item = torch.from_numpy(base.item)
        bias = torch.zeros(len(item)) if base.item_bias is None else torch.from_numpy(base.item_bias)
        unit = torch.from_numpy(
            (wanted.spread[wanted.users[some], None] * self.settings.temperature).astype(np.float32)
        )
        size = torch.from_numpy(length)

        def scores(rows: Tensor, vectors: Tensor, items: Tensor) -> Tensor:
            raw = torch.bmm(item[items.clamp(min=0)], vectors.unsqueeze(2)).squeeze(2) + bias[items.clamp(min=0)]
            return raw / unit[rows]

        def loss(rows: Tensor, change: Tensor) -> Tensor:
            vectors = size[rows] * (x[rows] + change)
            above = scores(rows, vectors, listed[rows])
            others = scores(rows, vectors, rivals[rows]).masked_fill(rivals[rows] < 0, -torch.inf)
            missed = softplus(others.logsumexp(1, keepdim=True) - above)
            real = listed[rows] >= 0
            return (missed * real).sum() / real.sum() * self.settings.temperature

        return QueryAdapter(self.settings, _descend(self.settings, x, loss))

    def save(self, path: str | Path) -> None:
        """Write weights and settings to one safetensors file."""
        from safetensors.numpy import save_file

        if self.weights is None:
            raise InputError("this adapter is not fitted yet; there is nothing to save")
        about = {"format": FORMAT, "settings": json.dumps(asdict(self.settings))}
        with atomic_path(path) as temporary:
            save_file({name: np.ascontiguousarray(array) for name, array in self.weights.items()}, temporary, about)

    @classmethod
    def load(cls, path: str | Path) -> QueryAdapter:
        """Read a file that ``save`` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                about = file.metadata() or {}
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            if about.get("format") != FORMAT or not {"linear", "offset"} <= set(weights):
                raise InputError(f"{path}: a safetensors file, but no adapter written by recprism; fit it again")
            return cls(QueryAdapterSettings(**json.loads(about["settings"])), weights)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file; an adapter is one .safetensors file") from None
        except (SafetensorError, json.JSONDecodeError, KeyError, TypeError) as broken:
            raise InputError(f"{path}: not an adapter written by recprism ({broken}); fit it again") from None


def _matrix(values: ArrayLike, what: str) -> FloatArray:
    array = np.asarray(values)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiu":
        raise InputError(f"{what} have shape {array.shape} and type {array.dtype}; a matrix of numbers is needed")
    matrix = array.astype(np.float32)
    if not np.isfinite(matrix).all():
        raise InputError(f"{what} hold NaN or infinity; check where they come from")
    return matrix


def _ridge(unit: FloatArray, wanted: FloatArray, ridge: float) -> dict[str, FloatArray]:
    """Solve for x @ linear + offset in closed form, without a penalty on the offset."""
    x, y = unit.astype(np.float64), wanted.astype(np.float64)
    mean_x, mean_y = x.mean(0), y.mean(0)
    x = x - mean_x
    # lstsq instead of solve: with ridge 0, directions that no user has stay at 0
    system = x.T @ x / len(x) + ridge * np.eye(x.shape[1])
    linear = np.linalg.lstsq(system, x.T @ (y - mean_y) / len(x), rcond=None)[0]
    return {"linear": linear.astype(np.float32), "offset": (mean_y - mean_x @ linear).astype(np.float32)}


def _contest(base: Factors, wanted: Wanted, rows: NDArray[np.int64], n_rivals: int) -> tuple[Tensor, Tensor]:
    """Return the lists, (n, k), and the best other items of the base model, (n, n_rivals); -1 in empty places."""
    user, item = base.search_vectors
    lists = wanted.lists[rows]
    depth = min(n_rivals + wanted.k, base.n_items)
    best, _ = topk(user[wanted.users[rows]], item, depth, exclude=wanted.exclude.take_rows(rows))
    inside = np.zeros(best.shape, bool)
    for place in range(wanted.k):
        inside |= best == lists[:, [place]]
    outsiders = np.where(inside, -1, best)
    outsiders = np.take_along_axis(outsiders, np.argsort(outsiders < 0, axis=1, kind="stable"), 1)[:, :n_rivals]
    return torch.from_numpy(lists), torch.from_numpy(np.ascontiguousarray(outsiders))


def _descend(settings: QueryAdapterSettings, x: Tensor, loss: Any) -> dict[str, FloatArray]:
    """Run Adam from f = 0, with a learning rate that falls to 0; ``loss`` maps row numbers and changes to a number."""
    generator = torch.Generator().manual_seed(settings.seed)
    shapes = _shapes(x.shape[1], settings.hidden)
    flat = torch.zeros(sum(shape.numel() for shape in shapes.values()))
    start = _views(flat, shapes)
    if settings.hidden:  # f is still 0, because ``out`` starts at 0
        start["into"].copy_(torch.randn(shapes["into"], generator=generator))
        start["shift"].copy_(0.5 * torch.randn(shapes["shift"], generator=generator))
    adam, mean, averaged = Adam(flat, settings.learning_rate), torch.zeros_like(flat), 0
    with one_thread():
        for step in range(settings.steps):
            rows = torch.randint(len(x), (min(settings.batch, len(x)),), generator=generator)
            parameters = flat.detach().requires_grad_()
            change = _g(_views(parameters, shapes), x[rows])
            total = loss(rows, change) + settings.ridge * change.square().sum(1).mean()
            (slope,) = torch.autograd.grad(total, parameters)
            adam.learning_rate = settings.learning_rate * (1 - step / settings.steps)
            with torch.no_grad():
                adam.step(slope)
                if step >= settings.steps * (1 - AVERAGED):
                    mean, averaged = mean + flat, averaged + 1
    return {name: part.numpy().copy() for name, part in _views(mean / averaged, shapes).items()}


def _shapes(d: int, hidden: int) -> dict[str, torch.Size]:
    shapes = {"linear": (d, d), "offset": (d,)}
    if hidden:
        shapes |= {"into": (d, hidden), "shift": (hidden,), "out": (hidden, d)}
    return {name: torch.Size(shape) for name, shape in shapes.items()}


def _views(flat: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    parts = torch.split(flat, [shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _g(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    change = x @ weights["linear"] + weights["offset"]
    if "out" in weights:
        change = change + torch.tanh(x @ weights["into"] + weights["shift"]) @ weights["out"]
    return change
