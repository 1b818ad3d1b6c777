"""The rows of the paper's tables, and how each row is computed.

The protocol is that of the published numbers: per-user 80/20 split, an optimiser that sees the held-out part, halved
ILAD on the perturbed factors, alpha-nDCG relative to the list's own re-ordering. docs/paper.md explains it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from recprism.errors import InputError

if TYPE_CHECKING:
    import polars as pl

PAPER_NAMES = {"ml-1m": "ML1M", "ml-10m": "ML10M", "amazon:CDs_and_Vinyl": "CDs"}
METRICS = {
    "recall": "recall",
    "ndcg": "ndcg",
    "alpha_ndcg": "alpha_ndcg_paper",
    "subtopic_coverage": "subtopic_coverage",
    "catalogue_coverage": "catalogue_coverage",
    "gini": "gini",
    "ilad": "ilad_paper",
}
"""The paper's columns -> our metrics. The paper has no Gini; coverage alone does not say how often items are shown."""

WORDS = {
    "alpha-nDCG": "alpha_ndcg_paper",
    "SC": "subtopic_coverage",
    "PC": "catalogue_coverage",
    "ILAD": "ilad_paper",
    "Recall": "recall",
    "NDCG": "ndcg",
}
Kind = Literal["base", "cmb", "rerank", "tuned"]


@dataclass(frozen=True)
class Row:
    """The plan of one row of a table.

    Attributes:
        table: Name of the table.
        base_model: Name of the base model.
        method: Name of the method in the paper.
        kind: How the row is computed.
        ks: Lengths of the lists.
        settings: For "cmb", settings of CMB on top of the paper preset; for "rerank", those of the re-ranker. For
            "tuned", the name of the re-ranker and the share of NDCG@10 that may be lost.
    """

    table: str
    base_model: str
    method: str
    kind: Kind
    ks: tuple[int, int]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """Name of the file."""
        words = f"{self.table} {self.method}".lower()
        return "".join(letter if letter.isalnum() else "-" for letter in words).strip("-")


def paper_table() -> pl.DataFrame:
    """Return every number of the paper's tables: table, dataset, base_model, method, metric, k, value."""
    import polars as pl

    return pl.read_csv(io.BytesIO((files("recprism.cmb") / "tables.csv").read_bytes()))


def rows_of(table: str) -> tuple[Row, ...]:
    """Return the rows of one table; all data sets have the same rows.

    Raises:
        InputError: If there is no such table.
    """
    if table not in TABLES:
        raise InputError(f"unknown table {table!r}; choose one of {', '.join(TABLES)}")
    return tuple(TABLES[table]())


def _trade_off(base_model: str, pairs: tuple[tuple[str, str], ...], rivals: bool) -> Iterator[Row]:
    table = f"tradeoff_{base_model.lower()}"
    yield Row(table, base_model, base_model, "base", (10, 20))
    if rivals:
        for method in ("MMR", "DPP"):
            yield Row(table, base_model, method, "rerank", (10, 20), {"name": method.lower(), "trade_off": 0.1})
            for budget in (0.01, 0.05):
                tuned = {"name": method.lower(), "budget": budget}
                yield Row(table, base_model, f"{method}, tuned to {budget:.0%} NDCG", "tuned", (10, 20), tuned)
    for diversity, accuracy in pairs:
        settings = {"diversity": WORDS[diversity], "accuracy": WORDS[accuracy]}
        yield Row(table, base_model, f"CMB-{diversity}-{accuracy}", "cmb", (10, 20), settings)


def _bprmf() -> Iterator[Row]:
    pairs = (("alpha-nDCG", "Recall"), ("SC", "Recall"), ("PC", "NDCG"), ("ILAD", "NDCG"))
    return _trade_off("BPRMF", pairs, rivals=True)


def _lightgcn() -> Iterator[Row]:
    pairs = (("alpha-nDCG", "NDCG"), ("SC", "NDCG"), ("PC", "Recall"), ("ILAD", "Recall"))
    return _trade_off("LightGCN", pairs, rivals=False)


def _single() -> Iterator[Row]:
    yield Row("single_objective", "BPRMF", "BPRMF", "base", (10, 20))
    yield Row("single_objective", "BPRMF", "CMB-Random", "cmb", (10, 20), {"policy": "random", "lambda1": 0.0})
    for word in ("alpha-nDCG", "SC", "PC", "ILAD"):
        settings = {"diversity": WORDS[word], "lambda1": 0.0}
        yield Row("single_objective", "BPRMF", f"CMB-{word}", "cmb", (10, 20), settings)
    gradient = {"diversity": "ilad_paper", "lambda1": 0.0, "policy": "gradient"}
    yield Row("single_objective", "BPRMF", "CMB-Gradient-ILAD", "cmb", (10, 20), gradient)


SINGLE_OBJECTIVES = {
    "CMB-alpha-nDCG": "alpha_ndcg",
    "CMB-SC": "subtopic_coverage",
    "CMB-PC": "catalogue_coverage",
    "CMB-ILAD": "ilad",
}
"""Rows with one goal -> the column of that goal."""

ILAD_RECALL = {"diversity": "ilad_paper", "accuracy": "recall"}


def _sweep(table: str, methods: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    yield Row(table, "BPRMF", "BPRMF", "base", (5, 10))
    for method, settings in methods.items():
        yield Row(table, "BPRMF", method, "cmb", (5, 10), {**ILAD_RECALL, **settings})


def _max_step() -> Iterator[Row]:
    return _sweep("sweep_A", {f"A = {step}, n_A = 61": {"max_step": step} for step in (0.1, 0.3, 0.5, 0.7, 0.9)})


def _arms() -> Iterator[Row]:
    counts = (21, 41, 61, 81, 101, 201, 401, 601, 801, 1001)
    return _sweep("sweep_n_arms", {f"A = 0.3, n_A = {count}": {"n_arms": count} for count in counts})


def _lambda2() -> Iterator[Row]:
    weights = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    return _sweep("sweep_lambda2", {f"lambda2 = {weight}": {"lambda2": weight} for weight in weights})


TABLES = {
    "tradeoff_bprmf": _bprmf,
    "tradeoff_lightgcn": _lightgcn,
    "single_objective": _single,
    "sweep_A": _max_step,
    "sweep_n_arms": _arms,
    "sweep_lambda2": _lambda2,
}
