"""The criterion of early stopping: mean NDCG@10 on the validation part."""

from __future__ import annotations

import torch
from torch import Tensor

from recprism.data.split import Split
from recprism.metrics import Context, evaluate
from recprism.ranking import topk

DEPTH = 10


class ValidationNdcg:
    """Mean NDCG@10; lists exclude training items, and users without validation items do not count."""

    def __init__(self, split: Split, device: torch.device) -> None:
        self._seen = split.train
        self._context = Context(relevant=split.validation, device=device)

    def __call__(self, user: Tensor, item: Tensor) -> float:
        """Evaluate user vectors, (n_users, d), and item vectors, (n_items, d), on the device."""
        items, _ = topk(user, item, DEPTH, exclude=self._seen)
        return evaluate(items, self._context, [f"ndcg@{DEPTH}"], bootstrap=0).scores[0].mean
