"""LanceDB, an embedded vector store: diverse lists from one search of d + m numbers, or from candidates and the rule.

    python examples/serve_with_lancedb.py EXPORT RULE

EXPORT is a folder of `recprism export RUN --form dials`, whose vectors have d numbers of the model and m of the dials.
RULE is one of `recprism export RUN`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa

from recprism import serving
from recprism.forms.vectors import as_expected, load_export

folder, rule = Path(sys.argv[1]), serving.load_rule(sys.argv[2])
vectors = load_export(folder)  # refuses a pair of files that does not belong together
d = rule.file.item_vectors.shape[1]  # the numbers behind these are the dials
user_of = dict(zip(vectors.user_ids.tolist(), vectors.user, strict=True))
expected = json.loads((folder / "expected.json").read_text())["without_seen"]


def build(store: lancedb.DBConnection, name: str, item: np.ndarray) -> lancedb.table.Table:
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(item).ravel()), item.shape[1])
    return store.create_table(name, pa.table({"item_id": vectors.item_ids.tolist(), "vector": column}))


def as_sql(one: int | str) -> str:
    return str(one) if isinstance(one, int) else "'" + one.replace("'", "''") + "'"


def search(table: lancedb.table.Table, vector: np.ndarray, n: int, seen: list) -> tuple[list, list[float]]:
    """Return ids and scores of the best n items that the user has not seen."""
    query = table.search(vector).distance_type("dot").limit(n)
    if seen:
        query = query.where(f"item_id NOT IN ({', '.join(map(as_sql, seen))})", prefilter=True)
    rows = query.to_list()
    return [row["item_id"] for row in rows], [1 - row["_distance"] for row in rows]  # a distance is 1 - score


with tempfile.TemporaryDirectory() as path:
    store = lancedb.connect(path)
    with_dials, plain = build(store, "with_dials", vectors.item), build(store, "plain", vectors.item[:, :d])
    by_search = by_rule = both = 0
    for entry in expected:
        vector, seen = user_of[entry["user"]], entry["seen"]

        found, _ = search(with_dials, vector, len(entry["items"]), seen)  # one search answers the request
        by_search += as_expected(vectors, entry, found)

        candidates, scores = search(plain, vector[:d], rule.file.candidates, seen)  # or a search, then the rule
        answer = rule.rerank(candidates, scores, history=seen)
        by_rule += answer.ids == rule.rank(vector[:d], history=seen, exclude=seen).ids
        both += set(found) == set(answer.ids)

print(f"LanceDB, {vectors.dim} numbers: {by_search} of {len(expected)} lists as expected")
print(f"LanceDB, {d} numbers and the rule: {by_rule} of {len(expected)} lists as expected")
print(f"The two forms show the same items to {both} of {len(expected)} users")
