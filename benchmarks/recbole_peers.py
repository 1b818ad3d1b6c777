"""Train RecBole's models on an exported split, as peers of our base models.

    python benchmarks/recbole_peers.py SPLITS/ml-1m.npz user-temporal.0 OUT [MODEL ...]

MODEL is BPR, LightGCN, EASE or SASRec; all by default. The python is that of an environment with RecBole 1.2.1 (see
tools/export_recbole.py), or one with torch, numpy and scipy and RECBOLE set to the folder of the package recbole. Model
and loss are RecBole's; batches, negatives (uniform, none of the user's training items) and early stopping (NDCG@10 of
the validation part) are of this script. The best of a small grid on validation is kept: OUT/MODEL.npz has the 20 best
items of each user, training and validation items excluded, and OUT/MODEL.json the settings and the grid.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import scipy.sparse as sp
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PATIENCE, MOST_EPOCHS, SHOWN = 10, 300, 20
COMMON = {"USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id", "NEG_PREFIX": "neg_", "LIST_SUFFIX": "_list"}
COMMON |= {"ITEM_LIST_LENGTH_FIELD": "item_length", "device": DEVICE, "embedding_size": 64, "require_pow": False}
SASREC = {"n_layers": 2, "n_heads": 2, "hidden_size": 64, "inner_size": 256, "hidden_act": "gelu"}
SASREC |= {"layer_norm_eps": 1e-12, "initializer_range": 0.02, "loss_type": "CE"}
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "BPR": {"learning_rate": (0.001, 0.003), "weight_decay": (0.0, 1e-6, 1e-5), "batch": (2048,)},
    "LightGCN": {"n_layers": (2, 3), "learning_rate": (0.001, 0.003), "reg_weight": (1e-5,), "batch": (4096,)},
    "EASE": {"reg_weight": (100.0, 250.0, 500.0, 1000.0)},
    "SASRec": {"dropout": (0.2, 0.5), "length": (50, 200), "learning_rate": (0.001,), "batch": (2048,)},
}


class Config(dict[str, Any]):
    """Settings by key, and the device by name as well."""

    device = DEVICE


class Data:
    """The parts of a split, in the form RecBole's models ask for; item 0 is padding for SASRec only."""

    def __init__(self, path: Path, key: str, shift: int = 0) -> None:
        with np.load(path) as stored:
            indptr, indices, parts = stored["indptr"], stored["indices"].astype(np.int64), stored[f"{key}.parts"]
            self.n_users, self.n_items = len(indptr) - 1, int(stored["n_items"])
            order = stored[f"{key}.order"] if f"{key}.order" in stored.files else np.arange((parts == 0).sum())
        user = np.repeat(np.arange(self.n_users), np.diff(indptr))
        self.user, self.item = user[parts == 0], indices[parts == 0]
        self.shift = shift
        self.seen = torch.from_numpy(self._matrix(user[parts < 1], indices[parts < 1]).toarray()).bool().to(DEVICE)
        self.seen_later = (
            torch.from_numpy(self._matrix(user[parts < 2], indices[parts < 2]).toarray()).bool().to(DEVICE)
        )
        self.wanted = torch.from_numpy(self._matrix(user[parts == 1], indices[parts == 1]).toarray()).to(DEVICE)
        in_time = np.lexsort((order, self.user))
        self.histories = np.split(self.item[in_time], np.cumsum(np.bincount(self.user, minlength=self.n_users))[:-1])

    def _matrix(self, user: np.ndarray, item: np.ndarray) -> sp.csr_matrix:
        return sp.csr_matrix((np.ones(len(user), np.float32), (user, item)), shape=(self.n_users, self.n_items))

    def num(self, field: str) -> int:
        return self.n_users if field == "user_id" else self.n_items + self.shift

    def inter_matrix(self, form: str) -> Any:
        return self._matrix(self.user, self.item).asformat(form)

    def ndcg(self, scores: torch.Tensor) -> float:
        """Mean NDCG@10 of the validation part over the users who have one."""
        best = scores.masked_fill(self.seen, -torch.inf).topk(10).indices
        discount = 1 / torch.log2(torch.arange(2.0, 12.0, device=DEVICE))
        found = (self.wanted.gather(1, best) * discount).sum(1)
        counts = self.wanted.sum(1).long()
        ideal = torch.cat([torch.zeros(1, device=DEVICE), discount.cumsum(0)])[counts.clamp(max=10)]
        return float((found / ideal)[counts > 0].mean())

    def lists(self, scores: torch.Tensor) -> np.ndarray:
        return scores.masked_fill(self.seen_later, -torch.inf).topk(SHOWN).indices.cpu().numpy().astype(np.int32)


def pairs(data: Data, batch: int) -> Iterator[dict[str, torch.Tensor]]:
    """One epoch of users, positives and negatives."""
    order = torch.randperm(len(data.user), device=DEVICE)
    user, item = (torch.from_numpy(array).to(DEVICE) for array in (data.user, data.item))
    for chosen in order.split(batch):
        negative = torch.randint(data.n_items, (len(chosen),), device=DEVICE)
        while (known := data.seen[user[chosen], negative]).any():
            negative[known] = torch.randint(data.n_items, (int(known.sum()),), device=DEVICE)
        yield {"user_id": user[chosen], "item_id": item[chosen], "neg_item_id": negative}


def prefixes(data: Data, batch: int, length: int) -> Iterator[dict[str, torch.Tensor]]:
    """One epoch of (the last items before, the next item), for every place of every history."""
    ends = np.concatenate(
        [
            np.stack([np.full(len(h) - 1, u), np.arange(1, len(h))], 1)
            for u, h in enumerate(data.histories)
            if len(h) > 1
        ]
    )
    for chosen in np.array_split(ends[torch.randperm(len(ends)).numpy()], max(len(ends) // batch, 1)):
        before = [data.histories[user][max(0, end - length) : end] for user, end in chosen]
        following = np.array([data.histories[user][end] for user, end in chosen])
        yield {**padded(before, length), "item_id": torch.from_numpy(following + 1).to(DEVICE)}


def padded(histories: list[np.ndarray], length: int) -> dict[str, torch.Tensor]:
    sizes = np.array([len(history) for history in histories])
    items = np.zeros((len(histories), length), np.int64)
    items[np.arange(length) < sizes[:, None]] = np.concatenate(histories) + 1
    return {"item_id_list": torch.from_numpy(items).to(DEVICE), "item_length": torch.from_numpy(sizes).to(DEVICE)}


@torch.no_grad()
def all_scores(model: Any, name: str, data: Data, length: int) -> torch.Tensor:
    model.eval()
    if name == "EASE":
        similar = torch.as_tensor(np.asarray(model.item_similarity), dtype=torch.float32, device=DEVICE)
        return data.seen.float() @ similar
    if name == "SASRec":
        kept = [history[-length:] for history in data.histories]
        rows = [padded(kept[first : first + 512], length) for first in range(0, len(kept), 512)]
        user = torch.cat([model(row["item_id_list"], row["item_length"]) for row in rows])
        return user @ model.item_embedding.weight[1:].T
    user, item = model() if name == "LightGCN" else (model.user_embedding.weight, model.item_embedding.weight)
    return user @ item.T


def fit(make: Callable[..., Any], name: str, data: Data, settings: dict[str, Any]) -> tuple[float, np.ndarray, int]:
    """Train until validation stops rising; the best value, the lists of that epoch, and the epoch."""
    torch.manual_seed(0)
    length = settings.get("length", 0)
    config = {**COMMON, **(SASREC if name == "SASRec" else {}), "MAX_ITEM_LIST_LENGTH": length, **settings}
    config |= {"hidden_dropout_prob": settings.get("dropout"), "attn_dropout_prob": settings.get("dropout")}
    model = make(Config(config), data).to(DEVICE)
    if name == "EASE":
        scores = all_scores(model, name, data, 0)
        return data.ndcg(scores), data.lists(scores), 1
    decay = settings.get("weight_decay", 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"], weight_decay=decay)
    best: tuple[float, np.ndarray, int] = (-1.0, np.empty(0), 0)
    for epoch in range(1, MOST_EPOCHS + 1):
        model.train()
        batch = settings["batch"]
        for interaction in prefixes(data, batch, length) if name == "SASRec" else pairs(data, batch):
            optimizer.zero_grad()
            model.calculate_loss(interaction).backward()
            optimizer.step()
        scores = all_scores(model, name, data, length)
        value = data.ndcg(scores)
        if value > best[0]:
            best = value, data.lists(scores), epoch
        if epoch - best[2] >= PATIENCE:
            break
    return best


def recbole_class(name: str) -> Callable[..., Any]:
    """The class of a model alone, without the packages that RecBole's other parts import."""
    folder = Path(os.environ["RECBOLE"]) if "RECBOLE" in os.environ else None
    if folder is not None:
        sys.path.insert(0, str(folder.parent))
        for missing in ("pandas", "texttable", "colorlog", "colorama", "torch.utils.tensorboard"):
            try:
                importlib.import_module(missing)
            except ImportError:
                sys.modules[missing] = MagicMock()
    recbole = importlib.import_module("recbole")
    kind = "sequential_recommender" if name == "SASRec" else "general_recommender"
    package = ModuleType(f"recbole.model.{kind}")
    package.__path__ = [str(Path(str(recbole.__file__)).parent / "model" / kind)]
    sys.modules[package.__name__] = package
    if not hasattr(sp.dok_matrix, "_update"):  # RecBole's LightGCN needs a method that scipy 1.13 removed
        sp.dok_matrix._update = lambda self, entries: self._dict.update(entries)
    found: Callable[..., Any] = getattr(importlib.import_module(f"recbole.model.{kind}.{name.lower()}"), name)
    return found


def record(output: Path, name: str, split: str, tried: list[dict[str, Any]], lists: list[np.ndarray]) -> None:
    """Write the best trial so far, and all trials."""
    output.mkdir(parents=True, exist_ok=True)
    chosen = int(np.argmax([entry["validation_ndcg@10"] for entry in tried]))
    np.savez_compressed(output / f"{name}.npz", lists=lists[chosen])
    about = {**tried[chosen], "split": split, "tried": tried, "device": DEVICE}
    (output / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")


def main(path: Path, key: str, output: Path, names: list[str]) -> None:
    for name in names or list(GRIDS):
        data = Data(path, key, shift=int(name == "SASRec"))
        tried = []
        lists: list[np.ndarray] = []
        for values in itertools.product(*GRIDS[name].values()):
            settings = dict(zip(GRIDS[name], values, strict=True))
            began = time.perf_counter()
            value, found, epoch = fit(recbole_class(name), name, data, settings)
            tried.append({"settings": settings, "validation_ndcg@10": round(value, 5), "best_epoch": epoch})
            lists.append(found)
            print(f"{name} {settings}: {value:.4f}, epoch {epoch}, {time.perf_counter() - began:.0f} s", flush=True)
            record(output, name, f"{path.name} {key}", tried, lists)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
