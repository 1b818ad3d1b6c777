"""Train LensKit's implicit-feedback ALS on an exported split, as the peer of our als.

    python benchmarks/lenskit_peer.py SPLITS/ml-1m.npz user-temporal.0 OUT

The python is that of an environment with LensKit 2025 (see tools/record_lenskit.py), torch, numpy and scipy. The best
of a small grid on the validation part is kept, in OUT/ALS.npz and OUT/ALS.json as recbole_peers.py writes them.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from lenskit.als import ImplicitMFScorer
from lenskit.data import from_interactions_df
from lenskit.training import TrainingOptions

from recbole_peers import Data, record

GRID = {"regularization": (20.0, 50.0, 100.0), "weight": (0.25, 1.0)}


def main(path: Path, key: str, output: Path) -> None:
    data = Data(path, key)
    table = from_interactions_df(pd.DataFrame({"user_id": data.user, "item_id": data.item}))
    tried, lists = [], []
    for values in itertools.product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        began = time.perf_counter()
        scorer = ImplicitMFScorer(embedding_size=64, epochs=15, use_ratings=False, **settings)
        scorer.train(table, TrainingOptions(rng=0))
        scores = torch.full((data.n_users, data.n_items), -1e9)
        users, items = scorer.users.ids(), scorer.items.ids()
        scores[np.ix_(users, items)] = torch.as_tensor(scorer.user_embeddings @ scorer.item_embeddings.T).float()
        value = data.ndcg(scores)
        tried.append({"settings": settings, "validation_ndcg@10": round(value, 5)})
        lists.append(data.lists(scores))
        print(f"ALS {settings}: {value:.4f}, {time.perf_counter() - began:.0f} s", flush=True)
        record(output, "ALS", f"{path.name} {key}", tried, lists)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
