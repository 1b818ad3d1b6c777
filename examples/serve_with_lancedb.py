"""LanceDB, an embedded vector store: a table of item vectors, asked by inner product, seen items filtered out.

python examples/serve_with_lancedb.py EXPORT        (a folder made by `recprism export RUN`)
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import lancedb
import pyarrow as pa

from recprism.deploy.export import as_expected, load_export

folder = Path(sys.argv[1])
vectors = load_export(folder)
row_of = {user: row for row, user in enumerate(vectors.user_ids.tolist())}

with tempfile.TemporaryDirectory() as store:
    stored = pa.FixedSizeListArray.from_arrays(pa.array(vectors.item.ravel()), vectors.dim)
    table = lancedb.connect(store).create_table(
        "items", pa.table({"item_id": vectors.item_ids.tolist(), "vector": stored})
    )
    expected = json.loads((folder / "expected.json").read_text())["everything"]
    same = 0
    for entry in expected:
        query = table.search(vectors.user[row_of[entry["user"]]]).distance_type("dot")
        first, *others = query.limit(len(entry["items"])).to_list()
        same += as_expected(vectors, entry, [it["item_id"] for it in (first, *others)])
        # As it would be for somebody who has seen the first: a filter goes into the search.
        rest = query.where(f"item_id != {first['item_id']!r}", prefilter=True).limit(len(others)).to_list()
        assert [it["item_id"] for it in rest] == [it["item_id"] for it in others]
    print(f"LanceDB: {same} of {len(expected)} lists as expected")
