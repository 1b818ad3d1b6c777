"""Raw item features instead of latent factors: what the players move has a name.

python examples/raw_features.py

The model is linear in what is known of an item: its genres, its age and how popular it is. A user's vector holds what
the user's own films tell about each feature (ridge regression on a sample of films the user did not take).
"""

from __future__ import annotations

import numpy as np

from recprism import load
from recprism.cmb import CMB
from recprism.models import Factors

data = load("ml-latest-small")
split = data.split(seed=0)
years = data.attributes["year"].cast(float).fill_null(strategy="mean").to_numpy()
popularity = np.log1p(split.train.col_counts)


def standard(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


names = [*data.categories.names, "year", "popularity"]
features = np.column_stack([data.categories.dense(), standard(years), standard(popularity)]).astype(np.float32)
taken = split.train.dense().astype(np.float32)
gram = features.T @ features + 50.0 * np.eye(len(names))
users = np.linalg.solve(gram, features.T @ taken.T).T  # (n_users, n_features)
factors = Factors.from_arrays(users, features, user_ids=split.user_ids, item_ids=split.item_ids)

model = CMB("subtopic_coverage", side="item", device="cpu").fit(factors, split, data.categories)
moved = np.abs(model.delta_.item.numpy()).mean(0)
print("features that moved most:", ", ".join(names[i] for i in np.argsort(-moved)[:4]))
before, after = model.evaluate(split, data.categories, ["ndcg@10", "subtopic_coverage@10"], bootstrap=0)
for name in ("ndcg@10", "subtopic_coverage@10"):
    print(f"{name}: {before[name].mean:.4f} before, {after[name].mean:.4f} after")
