"""Write docs/paper.md and its charts from recorded reproductions.

recprism reproduce --runs 5 --json > docs/paper/ml-1m.json
recprism reproduce --dataset ml-latest-small --json > docs/paper/ml-latest-small.json
python benchmarks/policies.py --json > docs/paper/policies.json
python tools/paper_docs.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from charts import Line, line_chart

DOCS = Path(__file__).parents[1] / "docs"
METRICS = ("recall", "ndcg", "alpha_ndcg", "sc", "pc", "ilad")
TITLES = {"recall": "Recall", "ndcg": "NDCG", "alpha_ndcg": "α-nDCG", "sc": "SC", "pc": "PC", "ilad": "ILAD"}
Cell = dict[str, Any]


def main() -> None:
    recorded = _recorded("ml-1m")
    cells = recorded["rows"]
    text = (DOCS / "paper" / "text.md").read_text(encoding="utf-8")
    parts = {
        "base": _base_table(cells),
        **{
            name: _change_table(cells, name, 10) for name in ("tradeoff_bprmf", "tradeoff_lightgcn", "single_objective")
        },
        "against_random": _against_random_table(recorded["against_random"]),
        "sweep_A": _change_table(cells, "sweep_A", 10, controls=False),
        "sweep_n_arms": _change_table(cells, "sweep_n_arms", 10, controls=False),
        "sweep_lambda2": _change_table(cells, "sweep_lambda2", 10, controls=False),
        "policies": _policy_table(),
        "small": _small_table(),
        "distance": _distance(cells),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    (DOCS / "paper.md").write_text(text, encoding="utf-8")
    _sweep_chart(cells, "sweep_n_arms", "number of arms n_A (not to scale)", "n_A = ")
    _sweep_chart(cells, "sweep_A", "threshold of the arms A", "A = ")
    _sweep_chart(cells, "sweep_lambda2", "weight of accuracy λ2", "lambda2 = ")


def _recorded(name: str) -> dict[str, list[Cell]]:
    recorded: dict[str, list[Cell]] = json.loads((DOCS / "paper" / f"{name}.json").read_text(encoding="utf-8"))
    return recorded


def _base_table(cells: list[Cell]) -> str:
    lines = ["| model, K | " + " | ".join(TITLES[m] for m in METRICS) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for model in ("BPRMF", "LightGCN"):
        for k in (10, 20):
            found = [_find(cells, f"tradeoff_{model.lower()}", model, metric, k) for metric in METRICS]
            shown = [f"{c['ours']:.4f} / {c['paper']:.4f} ({100 * (c['ours'] / c['paper'] - 1):+.1f} %)" for c in found]
            lines.append(f"| {model} @{k} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _change_table(cells: list[Cell], table: str, k: int, *, controls: bool = True) -> str:
    """Percent change against the base row: ours with its deviation where there is one, then the paper's."""
    methods = _methods(cells, table)
    methods = [m for m in methods if controls or not m.endswith(("permuted", "noise"))]
    lines = [f"| row, K={k} | " + " | ".join(TITLES[m] for m in METRICS) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for method in methods:
        found = [_find(cells, table, method, metric, k) for metric in METRICS]
        if method == found[0]["base_model"]:
            continue
        lines.append(f"| {_named(method)} | " + " | ".join(_change(c) for c in found) + " |")
    return "\n".join(lines)


def _change(cell: Cell) -> str:
    ours = f"{cell['ours_change']:+.1f}"
    return ours if cell["paper_change"] is None else f"**{ours}** / {cell['paper_change']:+.1f}"


def _named(method: str) -> str:
    return f"*{method}*" if method.endswith(("permuted", "noise")) else method


def _distance(cells: list[Cell]) -> str:
    """How far the trade-off rows are from the paper's, in points of percent."""
    lines = ["| table | largest distance but ILAD | of ILAD |", "|---|---|---|"]
    for table in ("tradeoff_bprmf", "tradeoff_lightgcn", "sweep_A", "sweep_n_arms", "sweep_lambda2"):
        rows = [c for c in cells if c["table"] == table and c["paper_change"] is not None and c["delta_sha"]]
        gaps = [(abs(c["ours_change"] - c["paper_change"]), c["metric"]) for c in rows]
        others, ilad = (max(gap for gap, metric in gaps if (metric == "ilad") == is_ilad) for is_ilad in (False, True))
        lines.append(f"| {table} | {others:.1f} | {ilad:.1f} |")
    return "\n".join(lines)


def _against_random_table(rows: list[Cell]) -> str:
    """Single objectives and random arms on the metric optimised, in percent of the base row of the same seed."""
    lines = ["| row | on | learned | random arms | difference, 95 % interval |", "|---|---|---|---|---|"]
    for row in rows:
        interval = "one seed" if row["low"] is None else f"{row['low']:+.1f} .. {row['high']:+.1f}"
        shown = f"{row['learned']:+.1f} | {row['random']:+.1f} | **{row['difference']:+.1f}** ({interval})"
        lines.append(f"| {row['method']} | {TITLES[row['metric']]}@{row['k']} | {shown} |")
    return "\n".join(lines)


def _policy_table() -> str:
    recorded = json.loads((DOCS / "paper" / "policies.json").read_text(encoding="utf-8"))["details"]
    columns = ("SC@10", "the same, permuted", "Recall@10", "ψ at the start", "half way", "at the end", "seeds")
    lines = ["| objective | policy | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for row in recorded:
        psi = " | ".join(f"{value:.4f}" for value in row["psi"])
        change = f"{row['sc']:+.1f} ± {row['sc_std']:.1f} | {row['sc_permuted']:+.1f} | {row['recall']:+.1f}"
        lines.append(f"| {row['objective']} | {row['policy']} | {change} | {psi} | {row['seeds']} |")
    return "\n".join(lines)


def _small_table() -> str:
    cells = _recorded("ml-latest-small")["rows"]
    return _change_table(cells, "tradeoff_bprmf", 10) + "\n\n" + _change_table(cells, "single_objective", 10)


def _sweep_chart(cells: list[Cell], table: str, axis: str, lead: str) -> None:
    methods = [m for m in _methods(cells, table) if lead in m and not m.endswith(("permuted", "noise"))]
    ticks = [m.partition(lead)[2].partition(",")[0] for m in methods]
    lines = []
    for metric in ("ilad", "ndcg"):
        for side, dash in (("ours", False), ("paper", True)):
            values = [_find(cells, table, method, metric, 10)[f"{side}_change"] for method in methods]
            lines.append(
                Line(f"{TITLES[metric]}@10, {'ours' if side == 'ours' else 'the paper'}", values, metric, dash)
            )
    svg = line_chart(lines, ticks, axis, "% change against the base model")
    (DOCS / "paper" / f"{table}.svg").write_text(svg, encoding="utf-8")


def _methods(cells: Iterable[Cell], table: str) -> list[str]:
    return list(dict.fromkeys(cell["method"] for cell in cells if cell["table"] == table))


def _find(cells: Iterable[Cell], table: str, method: str, metric: str, k: int) -> Cell:
    wanted = (table, method, metric, k)
    return next(c for c in cells if (c["table"], c["method"], c["metric"], c["k"]) == wanted)


if __name__ == "__main__":
    main()
