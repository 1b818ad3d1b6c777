"""A query adapter: p -> p + f(p), learned from some users, good for anybody's vector: no list and no label needed.

f(p) = |p| * g(p / |p|), so that, as with a dot product, only the direction of a vector decides on the lists; g is a
linear map and, where ``hidden`` is above 0, one hidden layer beside it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import softplus

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
AVERAGED = 0.25  # the last share of the steps, whose mean is the answer: one batch more or less shows no longer


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """How an adapter is learned."""

    hidden: int = 0
    """Units of the hidden layer; 0 is a linear map."""
    ridge: float = 1e-2
    """What size costs: this times the mean of |f(p)|^2 / |p|^2 stands beside the loss (with ``fit`` of a linear map, as
    usual, this times the sum of squares of the map's entries, over the number of users)."""
    strength: float = 1.0
    """The adapter answers p + strength * f(p)."""
    steps: int = 1000
    """Steps of Adam; a linear map fitted to changes is found in closed form and takes none."""
    batch: int = 256
    learning_rate: float = 0.01
    temperature: float = 0.1
    """``fit_lists``: how soft the cut between list and outsiders is, in standard deviations of a user's scores."""
    rivals: int = 150
    """``fit_lists``: outsiders looked at per list, the best of the base model."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("hidden", 0), ("steps", 1), ("batch", 1), ("rivals", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}; pass a whole number of at least {least}")
        for name, above in (("ridge", False), ("strength", False), ("learning_rate", True), ("temperature", True)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < np.inf or (above and value == 0):
                raise InputError(f"{name} is {value!r}; pass a number {'above 0' if above else 'of at least 0'}")


@dataclass(frozen=True, eq=False)
class Adapter:
    """Settings, and after ``fit`` or ``fit_lists`` (which return a new one) the map.

    weights: name -> float32 array: linear (d, d), offset (d,), and with a hidden layer into (d, h), shift (h,), out
        (h, d): g(x) = x @ linear + offset + tanh(x @ into + shift) @ out
    """

    settings: AdapterSettings = AdapterSettings()
    weights: dict[str, FloatArray] | None = None

    def __call__(self, vectors: ArrayLike) -> FloatArray:
        """(n, d) vectors, or one (d,), to adapted ones of the same shape; a vector of no length stays as it is."""
        if self.weights is None:
            raise InputError("this adapter has learned nothing yet; call fit or fit_lists and use what it returns")
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
        """The same recommender with every user vector adapted."""
        return factors.with_vectors(user=self(factors.user))

    def with_strength(self, strength: float) -> Adapter:
        """The same map, used more or less of."""
        return Adapter(replace(self.settings, strength=strength), self.weights)

    def fit(self, user_vectors: ArrayLike, changes: ArrayLike) -> Adapter:
        """Least squares on changes known for some users, such as the user side of ``bake``; both (n, d)."""
        vectors, wanted = _matrix(user_vectors, "user vectors"), _matrix(changes, "changes")
        if vectors.ndim != 2 or vectors.shape != wanted.shape or not len(vectors):
            raise InputError(
                f"user vectors have shape {vectors.shape} and changes {wanted.shape}; give one change per vector"
            )
        length = np.linalg.norm(vectors, axis=1)
        some = length > 0  # a vector of no length has no direction to learn from
        unit, relative = vectors[some] / length[some, None], wanted[some] / length[some, None]
        if not self.settings.hidden:
            return Adapter(self.settings, _ridge(unit, relative, self.settings.ridge))
        x, y = torch.from_numpy(unit), torch.from_numpy(relative)

        def loss(rows: Tensor, change: Tensor) -> Tensor:
            return (change - y[rows]).square().sum(1).mean()

        return Adapter(self.settings, _descend(self.settings, x, loss))

    def fit_lists(
        self, base: Factors, lists: ArrayLike, *, users: ArrayLike | None = None, exclude: Incidence | Any | None = None
    ) -> Adapter:
        """Learn the map whose vectors give ``lists`` back: every list item against the outsiders, listwise.

        lists, users, exclude: as for ``bake``; a user may have several rows, one per scenario

        What is minimised is -log(e^s / (e^s + sum over outsiders of e^s')) for the scores s of list items, in units of
        the temperature: smooth, and all about the cut.
        """
        wanted = Wanted.of(base, lists, users=users, exclude=exclude, margin=1.0)
        some = np.flatnonzero((wanted.lengths > 0) & (np.linalg.norm(base.user, axis=1)[wanted.users] > 0))
        if not len(some):
            raise InputError("there is no list of a user whose vector has a length; nothing can be learned")
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

        return Adapter(self.settings, _descend(self.settings, x, loss))

    def save(self, path: str | Path) -> None:
        """One safetensors file, settings included."""
        from safetensors.numpy import save_file

        if self.weights is None:
            raise InputError("this adapter has learned nothing yet; there is nothing to save")
        about = {"format": FORMAT, "settings": json.dumps(asdict(self.settings))}
        with atomic_path(path) as temporary:
            save_file({name: np.ascontiguousarray(array) for name, array in self.weights.items()}, temporary, about)

    @classmethod
    def load(cls, path: str | Path) -> Adapter:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                about = file.metadata() or {}
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            if about.get("format") != FORMAT or not {"linear", "offset"} <= set(weights):
                raise InputError(f"{path}: a safetensors file, but no adapter written by recprism; fit it again")
            return cls(AdapterSettings(**json.loads(about["settings"])), weights)
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
    """x @ linear + offset in closed form; the offset costs nothing."""
    x, y = unit.astype(np.float64), wanted.astype(np.float64)
    mean_x, mean_y = x.mean(0), y.mean(0)
    x = x - mean_x
    # lstsq and not solve: without a price, directions that no user has are left alone
    system = x.T @ x / len(x) + ridge * np.eye(x.shape[1])
    linear = np.linalg.lstsq(system, x.T @ (y - mean_y) / len(x), rcond=None)[0]
    return {"linear": linear.astype(np.float32), "offset": (mean_y - mean_x @ linear).astype(np.float32)}


def _contest(base: Factors, wanted: Wanted, rows: NDArray[np.int64], n_rivals: int) -> tuple[Tensor, Tensor]:
    """Lists (n, k), and the best outsiders (n, n_rivals) of the base model, -1 in empty places."""
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


def _descend(settings: AdapterSettings, x: Tensor, loss: Any) -> dict[str, FloatArray]:
    """Adam from f = 0, the rate falling to 0; loss: (row numbers, their changes) -> a number."""
    generator = torch.Generator().manual_seed(settings.seed)
    shapes = _shapes(x.shape[1], settings.hidden)
    flat = torch.zeros(sum(shape.numel() for shape in shapes.values()))
    start = _views(flat, shapes)
    if settings.hidden:  # of which nothing is seen before ``out``, which starts at 0, has moved
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
