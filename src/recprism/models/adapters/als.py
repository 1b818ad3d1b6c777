"""Alternating least squares, fitted by the ``implicit`` library (extra ``[adapters]``)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from recprism.common.checks import AMOUNT, COUNT, POSITIVE, Check
from recprism.common.memory import require_room
from recprism.common.version import __version__
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models._breakdown import breakdown, vector_of
from recprism.models.adapters.implicit import from_implicit, require_implicit
from recprism.models.factors import Factors
from recprism.models.settings import NamedSettings, seed_number, training_data
from recprism.models.training import Checkpoint, CheckpointSink, Epoch, Progress, require_same


@dataclass(frozen=True, kw_only=True)
class ImplicitALS(NamedSettings):
    """Weighted least squares on all pairs of user and item (Hu, Koren and Volinsky, 2008).

    Attributes:
        dim: Length of the vectors.
        epochs: Sweeps over users and items.
        regularization: L2 penalty.
        alpha: Weight of a positive; all other pairs have weight 1.
    """

    dim: int = 50
    epochs: int = 15
    regularization: float = 20.0
    alpha: float = 5.0

    name: ClassVar[str] = "als"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}

    rules: ClassVar[Mapping[str, Check]] = {"dim": COUNT, "epochs": COUNT, "regularization": AMOUNT, "alpha": POSITIVE}

    def require_fit(self, split: Split, *, device: str | torch.device = "auto") -> None:
        """Raise an error if ``fit`` cannot work on this split, before anything is computed.

        Args:
            split: Training interactions.
            device: "auto" or "cpu".

        Raises:
            InputError: The device is not the CPU.
            MissingDependencyError: ``implicit`` is not installed.
            TooLargeError: The vectors do not fit into memory.
        """
        require_implicit()
        if str(device) not in ("auto", "cpu"):
            raise InputError(f"als is fitted on the cpu, not on {str(device)!r}; use device='auto'")
        rows = split.n_users + split.n_items
        require_room(
            3 * 4 * rows * self.dim,  # the vectors, a copy for the checkpoint, and what is solved
            f"training {rows:,} vectors of {self.dim:,} factors",
            lambda free: f"at most dim={free // (12 * rows):,} fits",
        )

    def fit(
        self,
        split: Split,
        *,
        seed: int | np.random.Generator | None = 0,
        device: str | torch.device = "auto",
        progress: Progress | None = None,
        checkpoint: CheckpointSink | None = None,
        resume: Checkpoint | None = None,
    ) -> Factors:
        """Train on ``split.train`` for a fixed number of epochs on the CPU.

        Args:
            split: Training interactions.
            seed: The same seed gives the same bits.
            device: "auto" or "cpu".
            progress: Called with an ``Epoch`` after each epoch.
            checkpoint: Called after each epoch with arrays and facts that ``resume`` accepts.
            resume: A checkpoint of the same training.

        Returns:
            The trained vectors.

        Raises:
            InputError: The device is not the CPU, or the checkpoint is of another training.
            MissingDependencyError: ``implicit`` is not installed.
        """
        self.require_fit(split, device=device)
        import implicit.cpu.als
        from scipy.sparse import csr_matrix
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        number = seed_number(seed, resume)
        identity = {"model": self.name, **asdict(self), "training data": training_data(split), "seed": number}
        del identity["epochs"]
        done = 0
        # implicit uses threads itself and warns if BLAS does so, too
        with threadpool_limits(1, "blas"):
            model = implicit.cpu.als.AlternatingLeastSquares(
                self.dim, self.regularization, self.alpha, calculate_training_loss=True, random_state=number % 2**32
            )
            if resume is not None:
                arrays, facts = resume
                require_same(identity, ("user", "item"), ("epoch",), resume)
                model.user_factors, model.item_factors = arrays["user"].copy(), arrays["item"].copy()
                done = facts["epoch"]
            model.iterations = self.epochs - done
            began = time.perf_counter()

            def after(iteration: int, _: float, loss: float) -> None:
                epoch = done + iteration + 1
                if not math.isfinite(loss):
                    both = torch.from_numpy(np.concatenate([model.user_factors, model.item_factors]))
                    advice = f"a lower alpha (now {self.alpha:g}) or more regularization (now {self.regularization:g})"
                    raise breakdown(f"epoch {epoch}", loss, both, lambda at: vector_of(split, at // self.dim), advice)
                if checkpoint is not None:
                    arrays = {"user": model.user_factors.copy(), "item": model.item_factors.copy()}
                    checkpoint(arrays, {"identity": identity, "epoch": epoch})
                if progress is not None:
                    left = (time.perf_counter() - began) / (iteration + 1) * (self.epochs - epoch)
                    progress(Epoch(epoch, self.epochs, loss, None, epoch, left))

            model.fit(csr_matrix(split.train.to_scipy()), show_progress=False, callback=after)
        fitted = from_implicit(model, user_ids=split.user_ids, item_ids=split.item_ids)
        settings = {"model": self.name, **asdict(self), "epochs_trained": self.epochs, "seed": number}
        return replace(fitted, settings={**settings, "device": "cpu", "version": __version__})
