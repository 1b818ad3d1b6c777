"""FAISS: diverse lists from one search of d + m numbers, or from candidates and the rule.

    python examples/serve_with_faiss.py EXPORT RULE

EXPORT is a folder of `recprism export RUN --form dials`, whose vectors have d numbers of the model and m of the dials.
RULE is one of `recprism export RUN`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import faiss
import numpy as np

from recprism import serving
from recprism.forms.vectors import as_expected, load_export

folder, rule = Path(sys.argv[1]), serving.load_rule(sys.argv[2])
vectors = load_export(folder)  # refuses a pair of files that does not belong together
d = rule.file.item_vectors.shape[1]  # the numbers behind these are the dials
user_of = dict(zip(vectors.user_ids.tolist(), vectors.user, strict=True))
expected = json.loads((folder / "expected.json").read_text())["without_seen"]
row_of = {item: row for row, item in enumerate(vectors.item_ids.tolist())}


def build(item: np.ndarray) -> faiss.Index:
    index = faiss.IndexHNSWFlat(item.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(np.ascontiguousarray(item))  # row n is item_ids[n]
    return index


def search(index: faiss.Index, vector: np.ndarray, n: int, seen: list) -> tuple[list, np.ndarray]:
    """Return ids and scores of the best n items that the user has not seen."""
    hidden = faiss.IDSelectorBatch([row_of[item] for item in seen])
    only = faiss.SearchParametersHNSW(sel=faiss.IDSelectorNot(hidden), efSearch=512)
    scores, rows = index.search(vector[None], n, params=only)
    return vectors.item_ids[rows[0]].tolist(), scores[0]


with_dials, plain = build(vectors.item), build(vectors.item[:, :d])
by_search = by_rule = both = 0
for entry in expected:
    vector, seen = user_of[entry["user"]], entry["seen"]

    found, _ = search(with_dials, vector, len(entry["items"]), seen)  # one search answers the request
    by_search += as_expected(vectors, entry, found)

    candidates, scores = search(plain, vector[:d], rule.file.candidates, seen)  # or a search, then the rule
    answer = rule.rerank(candidates, scores, history=seen)
    by_rule += answer.ids == rule.rank(vector[:d], history=seen, exclude=seen).ids
    both += set(found) == set(answer.ids)

print(f"FAISS, HNSW, {vectors.dim} numbers: {by_search} of {len(expected)} lists as expected")
print(f"FAISS, HNSW, {d} numbers and the rule: {by_rule} of {len(expected)} lists as expected")
print(f"The two forms show the same items to {both} of {len(expected)} users")
