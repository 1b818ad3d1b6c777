"""Record what LensKit ranks, for the tests of its adapter: python tools/record_lenskit.py tests/golden/lenskit

Runs in an environment of its own, because LensKit asks for pandas 2 and the tests are pinned to pandas 3:

    python -m venv lenskit-venv && lenskit-venv/bin/pip install '.[full]' 'lenskit==2025.8.1'

For each scorer it writes the factors as the adapter reads them, and LensKit's own lists:
user id -> (item ids seen in training, item ids recommended).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from lenskit import recommend
from lenskit.als import BiasedMFScorer, ImplicitMFScorer
from lenskit.data import from_interactions_df
from lenskit.pipeline import topn_pipeline
from lenskit.training import TrainingOptions

from recprism.models.adapters.lenskit import from_lenskit

USERS, ITEMS, PAIRS, K = 60, 120, 1500, 10


def little_world() -> pd.DataFrame:
    """Random stars: the lists need to be LensKit's, not good."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(USERS * ITEMS, PAIRS, replace=False)
    stars = rng.integers(1, 6, PAIRS).astype(float)
    return pd.DataFrame({"user_id": pairs // ITEMS, "item_id": 1000 + pairs % ITEMS, "rating": stars})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    data = from_interactions_df(little_world())
    for kind in (BiasedMFScorer, ImplicitMFScorer):
        pipeline = topn_pipeline(kind(embedding_size=6, epochs=5))
        pipeline.train(data, TrainingOptions(rng=0))
        factors = from_lenskit(pipeline)
        factors.save(folder / f"{kind.__name__}.safetensors")
        lists = {
            int(user): (data.user_row(user).ids().tolist(), recommend(pipeline, user, K).ids().tolist())
            for user in factors.user_ids
        }
        (folder / f"{kind.__name__}.lists.json").write_text(json.dumps(lists) + "\n")


if __name__ == "__main__":
    main()
