"""SASRec: causal self-attention over a user's history (Kang and McAuley, 2018), trained with full cross-entropy."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recprism.common.checks import AMOUNT, COUNT, POSITIVE, Check, Real
from recprism.common.version import __version__
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.factors import Factors
from recprism.models.settings import NamedSettings, choose_device, seed_number
from recprism.models.validation import DEPTH, ValidationNdcg

log = logging.getLogger(__name__)
ENCODED_AT_ONCE = 512
Histories = list[NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class SASRec(NamedSettings):
    """A sequential model: a user's vector is the last hidden state over the training items in their order.

    The item vectors are the input embeddings, so that score(u, v) = user[u] . item[v].

    Attributes:
        dim: Length of the vectors.
        layers: Blocks of attention and feed-forward layers.
        heads: Heads of attention; they divide ``dim``.
        dropout: Share of hidden values dropped in training.
        max_length: Items of a history that are read. In training, a longer history gives a random window per epoch.
        epochs: Largest number of passes over the users.
        patience: Stop when NDCG@10 on the validation part has not improved for so many epochs, and keep the best.
        learning_rate: Learning rate of AdamW.
        weight_decay: Weight decay of AdamW.
        batch_size: Users per step.
    """

    dim: int = 64
    layers: int = 2
    heads: int = 2
    dropout: float = 0.2
    max_length: int = 200
    epochs: int = 300
    patience: int = 20
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 128

    name: ClassVar[str] = "sasrec"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    rules: ClassVar[Mapping[str, Check]] = {
        **dict.fromkeys(("dim", "layers", "heads", "max_length", "epochs", "patience", "batch_size"), COUNT),
        "dropout": Real(0.0, 0.9),
        "learning_rate": POSITIVE,
        "weight_decay": AMOUNT,
    }

    def fit(self, split: Split, *, seed: int = 0, device: str | torch.device = "auto") -> Factors:
        """Train on the histories of ``split.train``; ``split.validation`` decides when to stop.

        A user without training items gets the mean vector.

        Args:
            split: A split by time.
            seed: The same seed gives the same bits on a CPU.
            device: "auto" (CUDA if available), "cpu" or "cuda".

        Returns:
            The trained vectors.

        Raises:
            InputError: The split has no order or no validation part, or ``heads`` does not divide ``dim``.
        """
        self._require_fit(split)
        place, number = choose_device(device), seed_number(seed, None)
        histories = histories_of(split)
        ndcg = ValidationNdcg(split, place)
        generator = np.random.default_rng(number)
        with torch.random.fork_rng([place] if place.type == "cuda" else []):
            torch.manual_seed(number)
            network = Network(split.n_items, self).to(place)
            best = _Best()
            optimizer = torch.optim.AdamW(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)
            for epoch in range(1, self.epochs + 1):
                loss = self._train_epoch(network, optimizer, histories, generator)
                user = encode(network, histories)
                best.note(epoch, ndcg(user, network.item_vectors), user, network.item_vectors)
                log.debug("sasrec epoch %d: loss %.4f, best NDCG %.4f at %d", epoch, loss, best.value, best.epoch)
                if epoch - best.epoch >= self.patience:
                    break
        facts = {"seed": number, "device": place.type, "version": __version__}
        return Factors.from_arrays(
            *(best.user.numpy(), best.item.numpy()),
            user_ids=split.user_ids,
            item_ids=split.item_ids,
            settings={"model": self.name, **asdict(self), **best.facts(epoch), **facts},
        )

    def _require_fit(self, split: Split) -> None:
        if split.train_order is None:
            raise InputError("sasrec needs the order of interactions and this split has none; split by time")
        if not len(split.train) or not len(split.validation):
            raise InputError("sasrec needs a training and a validation part; hold out another share")
        if self.dim % self.heads:
            raise InputError(f"{self.heads} heads do not divide dim={self.dim}; change one of them")

    def _train_epoch(
        self, network: Network, optimizer: torch.optim.Optimizer, histories: Histories, generator: np.random.Generator
    ) -> float:
        network.train()
        losses = []
        for batch in self._batches(histories, generator):
            items, lengths = _padded(batch, network.device)
            shown = torch.arange(items.shape[1] - 1, device=items.device) < (lengths - 1)[:, None]
            hidden = network(items[:, :-1])[shown]
            loss = cross_entropy(hidden @ network.item.weight.T, items[:, 1:][shown])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.detach())
        value = float(torch.stack(losses).mean())
        if not math.isfinite(value):
            raise InputError(f"sasrec's loss became {value}; use a lower learning_rate (now {self.learning_rate:g})")
        return value

    def _batches(self, histories: Histories, generator: np.random.Generator) -> Iterator[Histories]:
        """Yield users in random order, each with at most ``max_length`` items to read and one more to predict."""
        trainable = [history for history in histories if len(history) > 1]
        if not trainable:
            raise InputError("no user has two training interactions in a row; sasrec has nothing to predict")
        order = generator.permutation(len(trainable))
        for first in range(0, len(order), self.batch_size):
            chosen = (trainable[number] for number in order[first : first + self.batch_size])
            yield [self._window(history, generator) for history in chosen]

    def _window(self, history: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        spare = len(history) - (self.max_length + 1)
        first = int(generator.integers(spare + 1)) if spare > 0 else 0
        return history[first : first + self.max_length + 1]


class Network(nn.Module):
    """Item and place embeddings, blocks of causal attention, and a last normalisation."""

    def __init__(self, n_items: int, settings: SASRec) -> None:
        super().__init__()
        self.max_length = settings.max_length
        self.item = nn.Embedding(n_items, settings.dim)
        self.place = nn.Embedding(settings.max_length, settings.dim)
        self.dropout = nn.Dropout(settings.dropout)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(settings.dim)
        for embedding in (self.item, self.place):
            nn.init.normal_(embedding.weight, std=0.02)

    @property
    def device(self) -> torch.device:
        return self.item.weight.device

    @property
    def item_vectors(self) -> Tensor:
        return self.item.weight.detach()

    def forward(self, items: Tensor) -> Tensor:
        """Return the hidden states, (n, length, dim), of histories (n, length); each state sees no later item."""
        places = torch.arange(items.shape[1], device=items.device)
        hidden = self.dropout(self.item(items) + self.place(places))
        for block in self.blocks:
            hidden = block(hidden)
        return self.norm(hidden)  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer: attention and a feed-forward network, each normalised before and added to what it reads."""

    def __init__(self, settings: SASRec) -> None:
        super().__init__()
        dim = settings.dim
        self.heads = settings.heads
        self.before_attention, self.before_feed = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.project, self.join = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.dropout(self._attend(self.before_attention(hidden)))
        return hidden + self.dropout(self.feed(self.before_feed(hidden)))  # type: ignore[no-any-return]

    def _attend(self, hidden: Tensor) -> Tensor:
        n, length, dim = hidden.shape
        query, key, value = self.project(hidden).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) / math.sqrt(dim // self.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=hidden.device).triu(1)
        weights = self.dropout(scores.masked_fill(later, -torch.inf).softmax(-1))
        return self.join((weights @ value).transpose(1, 2).reshape(n, length, dim))  # type: ignore[no-any-return]


def histories_of(split: Split) -> Histories:
    """Return the training items of every user in their order."""
    assert split.train_order is not None
    train = split.train
    order = np.lexsort((split.train_order, train.row_of_entry))
    return np.split(train.indices[order].astype(np.int64), train.indptr[1:-1])


@torch.no_grad()
def encode(network: Network, histories: Histories) -> Tensor:
    """Return the last hidden state of every history, (n, dim); an empty one gets the mean of the others."""
    network.eval()
    found = torch.zeros((len(histories), network.norm.normalized_shape[0]), device=network.device)
    lengths = np.array([len(history) for history in histories])
    by_length = np.argsort(lengths, kind="stable")[(lengths == 0).sum() :]
    for first in range(0, len(by_length), ENCODED_AT_ONCE):
        users = by_length[first : first + ENCODED_AT_ONCE]
        items, sizes = _padded([histories[user][-network.max_length :] for user in users], network.device)
        last = network(items)[torch.arange(len(users), device=items.device), sizes - 1]
        found[torch.from_numpy(users).to(items.device)] = last
    empty = torch.from_numpy(lengths == 0).to(network.device)
    found[empty] = found[~empty].mean(0)
    return found


def _padded(histories: Histories, device: torch.device) -> tuple[Tensor, Tensor]:
    """Histories as ``(n, longest)`` item numbers with zeros behind their end, and their lengths ``(n,)``.

    The zeros change no state that is used: attention is causal.
    """
    lengths = np.array([len(history) for history in histories])
    items = np.zeros((len(histories), lengths.max()), np.int64)
    items[np.arange(items.shape[1]) < lengths[:, None]] = np.concatenate(histories)
    return torch.from_numpy(items).to(device), torch.from_numpy(lengths).to(device)


class _Best:
    """The vectors of the epoch with the highest validation value."""

    def __init__(self) -> None:
        self.epoch, self.value = 0, -math.inf
        self.user = self.item = torch.empty(0)

    def note(self, epoch: int, value: float, user: Tensor, item: Tensor) -> None:
        if value > self.value:
            self.epoch, self.value = epoch, value
            self.user, self.item = user.cpu().clone(), item.cpu().clone()

    def facts(self, epochs: int) -> dict[str, float]:
        return {"epochs_trained": epochs, "best_epoch": self.epoch, f"validation_ndcg@{DEPTH}": self.value}
