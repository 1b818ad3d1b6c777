"""Record what Cornac ranks, for the tests of its adapter: python tools/record_cornac.py tests/golden/cornac

Cornac has no wheel for ARM, so the tests do not install it. An environment to record in:

    python -m venv cornac-venv && cornac-venv/bin/pip install '.[full]' 'cornac==3.0.1'

For each model it writes the factors as the adapter reads them, and Cornac's own lists: user id -> item ids.

The recording in tests/golden/cornac was made on ARM64 from a partial build of the 3.0.1 source: only extensions that
these models need were compiled, and ``cornac/models/__init__.py`` was cut to import these models. The code of the
models was not changed.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from cornac import models
from cornac.data import Dataset

from recprism.models.adapters.cornac import from_cornac

USERS, ITEMS, PAIRS, K, SEED = 40, 80, 800, 10, 3
EPOCHS = {"MF": 5, "SVD": 5, "BPR": 5, "WBPR": 5, "MMMF": 3, "PMF": 3}


def little_world() -> Dataset:
    """Random stars: the lists need to be Cornac's, not good. User ids are text, item ids are numbers."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(USERS * ITEMS, PAIRS, replace=False)
    stars = rng.integers(1, 6, PAIRS)
    rows = zip((pairs // ITEMS).tolist(), (1000 + pairs % ITEMS).tolist(), stars.tolist(), strict=True)
    return Dataset.from_uir([(f"u{user}", item, float(star)) for user, item, star in rows], seed=SEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    data = little_world()
    for kind, epochs in EPOCHS.items():
        model = getattr(models, kind)(k=8, max_iter=epochs, seed=SEED).fit(data)
        factors = from_cornac(model)
        factors.save(folder / f"{kind}.safetensors")
        lists = {user: [int(item) for item in model.recommend(user, k=K)] for user in factors.user_ids}
        (folder / f"{kind}.lists.json").write_text(json.dumps(lists) + "\n", encoding="utf-8")
    made_by = {"script": "tools/record_cornac.py", "machine": platform.machine()}
    made_by |= {package: version(package) for package in ("cornac", "numpy")}
    (folder / "made_by.json").write_text(json.dumps(made_by) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
