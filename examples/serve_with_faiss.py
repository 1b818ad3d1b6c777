"""FAISS: write an export's item vectors into an index, ask it with the swapped user vectors, compare with exact lists.

python examples/serve_with_faiss.py EXPORT        (a folder made by `recprism export RUN`)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import faiss

from recprism.deploy.export import as_expected, load_export

folder = Path(sys.argv[1])
vectors = load_export(folder)  # refuses a pair of files that does not belong together
row_of = {user: row for row, user in enumerate(vectors.user_ids.tolist())}

index = faiss.IndexHNSWFlat(vectors.dim, 32, faiss.METRIC_INNER_PRODUCT)
index.hnsw.efSearch = 256
index.add(vectors.item)  # row n is item_ids[n]

expected = json.loads((folder / "expected.json").read_text())["everything"]
same = 0
for entry in expected:
    _, rows = index.search(vectors.user[row_of[entry["user"]]][None], len(entry["items"]))
    same += as_expected(vectors, entry, vectors.item_ids[rows[0]].tolist())
print(f"FAISS, HNSW: {same} of {len(expected)} lists as expected")
