"""Qdrant: diverse lists from one search of d + m numbers, or from candidates and the rule.

    python examples/serve_with_qdrant.py EXPORT RULE

EXPORT is a folder of `recprism export RUN --form dials`, whose vectors have d numbers of the model and m of the dials.
RULE is one of `recprism export RUN`.

The example runs Qdrant inside this process: `QdrantClient(":memory:")`. With a server, only that line changes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models

from recprism import serving
from recprism.forms.vectors import as_expected, load_export

folder, rule = Path(sys.argv[1]), serving.load_rule(sys.argv[2])
vectors = load_export(folder)  # refuses a pair of files that does not belong together
d = rule.file.item_vectors.shape[1]  # the numbers behind these are the dials
user_of = dict(zip(vectors.user_ids.tolist(), vectors.user, strict=True))
expected = json.loads((folder / "expected.json").read_text())["without_seen"]
row_of = {item: row for row, item in enumerate(vectors.item_ids.tolist())}

client = QdrantClient(":memory:")
kinds = {"with_dials": vectors.item, "plain": vectors.item[:, :d]}  # two vectors of each item
client.create_collection(
    "items", {name: models.VectorParams(size=it.shape[1], distance=models.Distance.DOT) for name, it in kinds.items()}
)
client.upload_collection("items", vectors=kinds, ids=range(len(vectors.item_ids)))  # point n is item_ids[n]


def search(name: str, vector: np.ndarray, n: int, seen: list) -> tuple[list, list[float]]:
    """Return ids and scores of the best n items that the user has not seen."""
    hidden = models.Filter(must_not=[models.HasIdCondition(has_id=[row_of[item] for item in seen])])
    points = client.query_points("items", query=vector, using=name, limit=n, query_filter=hidden).points
    return vectors.item_ids[[it.id for it in points]].tolist(), [it.score for it in points]


by_search = by_rule = both = 0
for entry in expected:
    vector, seen = user_of[entry["user"]], entry["seen"]

    found, _ = search("with_dials", vector, len(entry["items"]), seen)  # one search answers the request
    by_search += as_expected(vectors, entry, found)

    candidates, scores = search("plain", vector[:d], rule.file.candidates, seen)  # or a search, then the rule
    answer = rule.rerank(candidates, scores, history=seen)
    by_rule += answer.ids == rule.rank(vector[:d], history=seen, exclude=seen).ids
    both += set(found) == set(answer.ids)

print(f"Qdrant, {vectors.dim} numbers: {by_search} of {len(expected)} lists as expected")
print(f"Qdrant, {d} numbers and the rule: {by_rule} of {len(expected)} lists as expected")
print(f"The two forms show the same items to {both} of {len(expected)} users")
