"""PostgreSQL with pgvector: diverse lists from one search of d + m numbers, or from candidates and the rule.

    python examples/serve_with_pgvector.py EXPORT RULE

EXPORT is a folder of `recprism export RUN --form dials`, whose vectors have d numbers of the model and m of the dials.
RULE is one of `recprism export RUN`.

The example starts a server of its own (local_postgres.py). With another server, only what follows `connect` counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import psycopg
from local_postgres import as_text, padded, server

from recprism import serving
from recprism.forms.vectors import as_expected, load_export


def build(connection: psycopg.Connection, table: str, item: np.ndarray) -> None:
    kind = "bigint" if vectors.item_ids.dtype.kind == "i" else "text"
    rows = padded(item)
    connection.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, vector vector({rows.shape[1]}))")
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for name, vector in zip(vectors.item_ids.tolist(), rows, strict=True):
            copy.write_row((name, as_text(vector)))


def search(table: str, vector: np.ndarray, n: int, seen: list) -> tuple[list, list[float]]:
    """Return ids and scores of the best n items that the user has not seen."""
    asked = (
        f"SELECT id, -(vector <#> %(v)s) FROM {table} WHERE id <> ALL(%(seen)s) ORDER BY vector <#> %(v)s LIMIT %(n)s"
    )
    rows = connection.execute(asked, {"v": as_text(padded(vector[None])[0]), "seen": seen, "n": n}).fetchall()
    return [row[0] for row in rows], [row[1] for row in rows]


folder, rule = Path(sys.argv[1]), serving.load_rule(sys.argv[2])
vectors = load_export(folder)  # refuses a pair of files that does not belong together
d = rule.file.item_vectors.shape[1]  # the numbers behind these are the dials
user_of = dict(zip(vectors.user_ids.tolist(), vectors.user, strict=True))
expected = json.loads((folder / "expected.json").read_text())["without_seen"]

with server() as address, psycopg.connect(address) as connection:
    connection.execute("CREATE EXTENSION vector")
    build(connection, "with_dials", vectors.item)
    build(connection, "plain", vectors.item[:, :d])
    for how in ("exact", "HNSW"):
        if how == "HNSW":
            connection.execute("CREATE INDEX ON with_dials USING hnsw (vector vector_ip_ops)")
            connection.execute("CREATE INDEX ON plain USING hnsw (vector vector_ip_ops)")
            connection.execute("SET enable_seqscan = off")  # tables this small would be read as a whole
            connection.execute("SET enable_sort = off")
            connection.execute("SET hnsw.ef_search = 400")
            connection.execute("SET hnsw.iterative_scan = strict_order")  # goes on if the filter leaves too few

        by_search = by_rule = both = 0
        for entry in expected:
            vector, seen = user_of[entry["user"]], entry["seen"]

            found, _ = search("with_dials", vector, len(entry["items"]), seen)  # one search answers the request
            by_search += as_expected(vectors, entry, found)

            candidates, scores = search("plain", vector[:d], rule.file.candidates, seen)  # or a search, then the rule
            answer = rule.rerank(candidates, scores, history=seen)
            by_rule += answer.ids == rule.rank(vector[:d], history=seen, exclude=seen).ids
            both += set(found) == set(answer.ids)

        print(f"pgvector, {how}, {vectors.dim} numbers: {by_search} of {len(expected)} lists as expected")
        print(f"pgvector, {how}, {d} numbers and the rule: {by_rule} of {len(expected)} lists as expected")
        print(f"The two forms show the same items to {both} of {len(expected)} users")
