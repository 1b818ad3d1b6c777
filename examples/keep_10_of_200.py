"""One call behind a vector engine: ask it for 200 items and keep 10, beside the engine's own MMR.

    python examples/keep_10_of_200.py

A query is a film, and the engine finds 200 films like it. Their vectors are singular vectors of who rated what, in the
data that comes with recprism. Qdrant runs inside this process, LanceDB in a temporary folder, and PostgreSQL with
pgvector as a server of its own. Qdrant alone has MMR of its own, whose knob is set so that it loses as much relevance
as the call by embeddings.

Relevance is the discounted sum of the scores, scaled to 0 .. 1 among the 200, as a share of that of the best ten. "ms"
is the time of one request: of the engine's search for 200, of its MMR, or of the call.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import lancedb
import numpy as np
import psycopg
import pyarrow as pa
from local_postgres import as_text, padded, server
from qdrant_client import QdrantClient, models

from recprism import diversify_list
from recprism.data import load_dataset

QUERIES, DEPTH, K, DIM = 40, 200, 10, 64
Found = tuple[list[int], list[float], np.ndarray]
"""Ids, scores and vectors of the best items, as an engine returns them."""
Search = Callable[[np.ndarray], Found]
Mmr = Callable[[np.ndarray, float], list[int]]

data = load_dataset("ml-latest-small")
rated = np.zeros((data.interactions.n_users, data.interactions.n_items))
rated[data.interactions.user, data.interactions.item] = 1
popular = np.argsort(-rated.sum(0), kind="stable")
value, user = np.linalg.eigh(rated @ rated.T)
vectors = rated.T @ user[:, -DIM:] / np.sqrt(value[-DIM:]) ** 0.5
vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
genres = [[data.categories.names[it] for it in data.categories.items.row(n).tolist()] for n in range(len(vectors))]


@contextmanager
def qdrant() -> Iterator[tuple[Search, Mmr | None]]:
    client = QdrantClient(":memory:")
    client.create_collection("films", models.VectorParams(size=DIM, distance=models.Distance.COSINE))
    client.upload_collection("films", vectors=vectors, ids=range(len(vectors)))

    def search(vector: np.ndarray) -> Found:
        points = client.query_points("films", query=vector, limit=DEPTH, with_vectors=True).points
        return [it.id for it in points], [it.score for it in points], np.array([it.vector for it in points], np.float32)

    def mmr(vector: np.ndarray, diversity: float) -> list[int]:
        how = models.Mmr(diversity=diversity, candidates_limit=DEPTH)
        query = models.NearestQuery(nearest=vector.tolist(), mmr=how)
        return [it.id for it in client.query_points("films", query=query, limit=K).points]

    yield search, mmr


@contextmanager
def lance() -> Iterator[tuple[Search, Mmr | None]]:
    with tempfile.TemporaryDirectory() as folder:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM)
        films = pa.table({"id": range(len(vectors)), "vector": column})
        table = lancedb.connect(folder).create_table("films", films)

        def search(vector: np.ndarray) -> Found:
            rows = table.search(vector).distance_type("cosine").limit(DEPTH).to_list()
            return (
                [it["id"] for it in rows],
                [1 - it["_distance"] for it in rows],
                np.array([it["vector"] for it in rows], np.float32),
            )

        yield search, None


@contextmanager
def pgvector() -> Iterator[tuple[Search, Mmr | None]]:
    with server() as address, psycopg.connect(address) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(f"CREATE TABLE films (id bigint PRIMARY KEY, vector vector({DIM}))")
        with connection.cursor().copy("COPY films FROM STDIN") as copy:
            for number, vector in enumerate(padded(vectors)):
                copy.write_row((number, as_text(vector)))

        def search(vector: np.ndarray) -> Found:
            asked = "SELECT id, 1 - (vector <=> %(v)s), vector::text FROM films ORDER BY vector <=> %(v)s LIMIT %(n)s"
            rows = connection.execute(asked, {"v": as_text(vector), "n": DEPTH}).fetchall()
            return (
                [it[0] for it in rows],
                [it[1] for it in rows],
                np.array([json.loads(it[2]) for it in rows], np.float32),
            )

        yield search, None


def judged(found: Found, chosen: list[int]) -> tuple[float, float, float]:
    """Genres of a list, mean distance of its pairs, and the share of relevance that it loses."""
    ids, scores = found[0], np.array(found[1])
    scores = (scores - scores.min()) / (scores.max() - scores.min())
    discount = 1 / np.log2(np.arange(2, K + 2))
    own = np.sort([scores[ids.index(it)] for it in chosen])[::-1]
    lost = 1 - own @ discount / (np.sort(scores)[::-1][:K] @ discount)
    cosines = (vectors[chosen] @ vectors[chosen].T)[np.triu_indices(K, 1)]
    return len({name for it in chosen for name in genres[it]}), float(1 - cosines.mean()), float(lost)


def timed(make: Callable[..., list[int]], *inputs: list) -> tuple[list[list[int]], float]:
    """The lists, and the median time of one in milliseconds."""
    lists, seconds = [], []
    for one in zip(*inputs, strict=True):
        start = time.perf_counter()
        lists.append(make(*one))
        seconds.append(time.perf_counter() - start)
    return lists, float(np.median(seconds)) * 1e3


def by_embeddings(found: Found) -> list[int]:
    return list(diversify_list(found[0], found[1], embeddings=found[2], k=K, reasons=False).ids)


def by_genres(found: Found) -> list[int]:
    own = [genres[it] for it in found[0]]
    return list(diversify_list(found[0], found[1], categories=own, k=K, reasons=False).ids)


def by_both(found: Found) -> list[int]:
    own = [genres[it] for it in found[0]]
    return list(diversify_list(found[0], found[1], categories=own, embeddings=found[2], k=K, reasons=False).ids)


queries = list(vectors[popular[:QUERIES]])
for name, engine in {"Qdrant": qdrant, "LanceDB": lance, "pgvector": pgvector}.items():
    with engine() as (search, mmr):
        found, search_ms = timed(search, queries)
        rows = {"the best ten": ([it[0][:K] for it in found], search_ms)}
        by_embeddings(found[0])  # the first call compiles
        for words, make in {"by embeddings": by_embeddings, "by genres": by_genres, "by both": by_both}.items():
            rows[f"diversify_list, {words}"] = timed(make, found)
        if mmr is not None:
            lost = np.mean([judged(*it)[2] for it in zip(found, rows["diversify_list, by embeddings"][0], strict=True)])
            tried = {}
            for diversity in np.linspace(0.3, 0.4, 5):
                lists, ms = timed(lambda query, diversity=diversity: mmr(query, float(diversity)), queries)
                own = np.mean([judged(*it)[2] for it in zip(found, lists, strict=True)])
                tried[abs(own - lost)] = f"its own MMR, diversity {diversity:.3f}", (lists, ms)
            words, made = tried[min(tried)]
            rows[words] = made
        print(f"{name}: ask for {DEPTH}, keep {K}")
        print(f"{'':32}{'genres':>8}{'distance':>10}{'lost':>8}{'ms':>8}")
        for words, (lists, ms) in rows.items():
            genres_covered, distance, lost = np.mean([judged(*it) for it in zip(found, lists, strict=True)], axis=0)
            print(f"{words:32}{genres_covered:8.1f}{distance:10.3f}{lost:8.1%}{ms:8.2f}")
